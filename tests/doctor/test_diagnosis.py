"""The diagnosis names what is planted: each wrong wiring, pairs, and nothing where nothing is wrong."""

import numpy as np
import pytest

from pytest_vla.doctor.diagnosis import diagnose_windows
from pytest_vla.doctor.findings import CODES, WELL, Diagnosis
from pytest_vla.policies.fit import traits_of
from tests.support.knowing import STRIDE, KnowingPolicy, made_windows
from tests.support.miswired import MISWIRINGS, Miswiring, pairs

WINDOWS = made_windows()
KNOWING = KnowingPolicy(WINDOWS)

# What names a planted wiring. Some cannot be told from others by any data: a picture that is scaled to nothing is black.
NAMED = {
    "turned": "010", "mirrored": "010", "flipped": "010", "transposed": "010", "quarter-turned": "010", "bgr": "012",
    "float-twice": "014 015", "unscaled": "014 015", "cameras-swapped": "013", "scene-black": "014",
    "wrist-black": "014", "scene-unturned": "011", "wrist-unturned": "011", "state-wxyz": "021", "state-antipodal": "021",
    "state-rotation-first": "020", "state-gripper-first": "020", "state-one-finger": "025", "state-fingers-swapped": "022",
    "state-zero": "024", "state-mm": "023", "state-joints": "024 026", "gripper-sign": "040",
    "gripper-01-closes": "041", "gripper-01-opens": "041", "gripper-never-closes": "042", "scaled-05": "043",
    "scaled-2": "043", "rotation-scaled": "043", "absolute": "045", "translation-hand-frame": "046",
    "rotation-hand-frame": "046", "action-rotation-first": "047", "action-gripper-first": "047",
    "action-xy-swapped": "047", "action-base-turned": "046 047", "other-statistics": "044",
    "minmax-for-quantiles": "044 043", "normalised": "044 043", "other-instruction": "030 031", "underscores": "030 032",
    "empty": "030", "fixed-instruction": "030", "chunk-early": "050", "chunk-late": "050", "every-second": "051",
    "each-twice": "051", "stale": "050",
}  # fmt: skip


def diagnosed(policy: object) -> Diagnosis:
    """The diagnosis along the made demonstrations."""
    reads, language = tuple(getattr(policy, "reads", ())), traits_of(policy).language
    settings = {"reads": reads, "has_language": language, "generator": np.random.default_rng(0)}
    return diagnose_windows(policy, WINDOWS, getattr(policy, "replan", None) or STRIDE, **settings)  # type: ignore[arg-type]


def codes_of(found: Diagnosis) -> list[str]:
    assert all(each.code in CODES for each in found.findings)
    return [each.code.removeprefix("VLA-D") for each in found.findings]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    found = diagnosed(KNOWING)
    assert [each.code for each in found.findings] == [WELL]
    assert found.explained[0] == found.explained[1] > 0.8


@pytest.mark.parametrize("planted", [each for each in MISWIRINGS if each.name in NAMED], ids=lambda each: each.name)
def test_what_is_planted_is_the_first_finding(planted: Miswiring) -> None:
    found = diagnosed(planted.wrap(KNOWING))
    assert codes_of(found)[0] in NAMED[planted.name].split(), [(e.code, e.cause, e.evidence) for e in found.findings]
