"""The suites whose instructions our grammar reads."""

from pytest_vla.plan.manifests import suite_names

# The grammar is of LIBERO's instructions and tabletop's: it reads none of VLA-Arena's or other simulators', and does
# not know a glass.
_UNREAD = ("aloha_", "libero_para", "metaworld_", "pusht", "robosuite_", "tabletop_safety", "vla_arena_")
READABLE_SUITES = [name for name in suite_names() if not name.startswith(_UNREAD)]
