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

# What the made policy does not react to: it finds the same frame for a cut or darker picture, and for Euler angles.
ALIKE = (
    "crop-missing", "crop-extra", "darker", "low-resolution", "state-euler", "state-controller", "gripper-threshold",
    "upper-case", "template", "whole-chunk", "one-step",
)  # fmt: skip


def diagnosed(policy: object) -> Diagnosis:
    """The diagnosis along the made demonstrations."""
    reads, language = tuple(getattr(policy, "reads", ())), traits_of(policy).language
    settings = {"reads": reads, "has_language": language, "generator": np.random.default_rng(0)}
    return diagnose_windows(policy, WINDOWS, getattr(policy, "replan", None) or STRIDE, **settings)  # type: ignore[arg-type]


def codes_of(found: Diagnosis) -> list[str]:
    assert all(each.code in CODES for each in found.findings)
    return [each.code for each in found.findings]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    found = diagnosed(KNOWING)
    assert [each.code for each in found.findings] == [WELL]
    assert found.explained[0] == found.explained[1] > 0.8


# One of each code; the others take a minute and more.
FAST = (
    "turned", "bgr", "cameras-swapped", "wrist-black", "wrist-unturned", "state-antipodal", "state-gripper-first",
    "state-one-finger", "state-fingers-swapped", "state-mm", "gripper-sign", "gripper-01-closes", "scaled-05",
    "absolute", "rotation-hand-frame", "action-xy-swapped", "other-statistics", "empty", "chunk-late", "every-second",
)  # fmt: skip


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(each, id=each.name, marks=() if each.name in FAST else pytest.mark.slow)
        for each in MISWIRINGS
        if each.name not in ALIKE and each.part != "weights"
    ],
)
def test_what_is_planted_is_the_first_finding(planted: Miswiring) -> None:
    found = diagnosed(planted.wrap(KNOWING))
    assert codes_of(found)[0] in planted.acceptable, [(e.code, e.cause, e.evidence) for e in found.findings]


@pytest.mark.slow
def test_of_two_that_are_planted_both_are_found() -> None:
    """Of twenty drawn pairs of a wrong input and a wrong output, at least fourteen."""
    missed = []
    for one, other in pairs():
        found = codes_of(diagnosed(one.wrap(other.wrap(KNOWING))))
        if not all({*found} & {*each.acceptable} for each in (one, other)):
            missed.append((one.name, other.name, found))
    assert len(missed) <= 6, missed


def test_a_policy_that_learned_nothing_has_no_wiring() -> None:
    found = diagnosed(KnowingPolicy(WINDOWS, is_random=True))
    assert codes_of(found) == ["VLA-D060"]
    assert found.proposal.lines == ()
    assert found.explained[1] < 0.25
