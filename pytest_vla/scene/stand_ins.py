"""Stand-ins for LIBERO's assets that are known to be about: flat textures and simplified visual meshes.

Where an original is too large to pass on, such a file takes its place. Physics does not depend on them, since visual
geoms carry no mass; pixels do, so records say which a scene was drawn with.
"""

SHA256_OF_STAND_INS = frozenset(
    {
        "033927d42604c36749072ec43da02f74439883e1f611d02d49402cab2e3a993a",
        "16ca6c514e422a275959aa612c6fceaec7689bebaaebf787f154e14d7074c0c7",
        "26b5f898b14cb77101c1014e4b617d9ab997bb37ef9e91ed269cec4c6b912127",
        "2c49849fd530dd68087ce9b5318d6d12ab75d8850b0ff60cb30e50229819ad92",
        "30db70dc348d1c59cf3697916562229b2427a2c15db2cccc0d630c0b8a71f835",
        "52d3649bd479e9c7945d1563f7bae4b7209afba8f8f8f94a20e712ea1a6ac7a2",
        "5de6403b8ce45d31d64ab28e7b898d007aa410ea11a6ed3d3fae22fd0d17a6f8",
        "81328ae92c7a4261badbd8900a2c87ebea24c4188c32c9aefc6f02d1a4cabad3",
        "8355672d304508c28d28681ad0337390975f2ec8152fd4bb5856934b1dd228cd",
        "8c2747386b5a555ccdf8157cb50156bd9e0b0f784bfdc0c41179f2645fcdadd1",
        "c575ba8363ae6fa03f64bafe8787412be06b9d2bafbd35c7e747044fd48ad485",
        "c78e4657463c7e54c8e0a02252fa06b207a5987838193e023733ad6a9da3e44e",
        "cb8abfaacf40c40da77ec6562406f4a767737d206a5c85f84f84ef00672615b1",
        "cbff13fdfbd67c2305a808f7053728859ee3d3d2ed2dce4b428e574a8ca4908f",
        "d7f67c9c8c7b554a26243fd9f2e7b21ea213eb9cde6a0c4c26b3cfb5509beb00",
        "d9fc56abe729b0f455aa022b278a70e18bf15124edc2fac09c45bfc976397cbe",
        "ec164838974d6b0a98bfce71cc3f5d32b381472603d02dcde51e419a13663420",
    }
)
"""By content: a file of the same name may be the original."""
