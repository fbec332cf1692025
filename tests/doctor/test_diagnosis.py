"""The diagnosis names what is planted: each wrong wiring, pairs, and nothing where nothing is wrong."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

from pytest_vla.doctor.answers import Pairs, ask
from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST
from pytest_vla.doctor.diagnosis import (
    Output,
    WiringProposal,
    degradations,
    diagnose_windows,
    rarely_closes,
    surest_first,
)
from pytest_vla.doctor.findings import CODES, UNKNOWN, WELL, Diagnosis, DoctorFinding, Examination
from pytest_vla.doctor.fits import Mending, mendings
from pytest_vla.doctor.wirings import Wiring, composed, picture_wirings, prompt_wirings, state_wirings
from pytest_vla.errors import VlaError
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.base import Answer, Episode
from pytest_vla.policies.fit import Traits, traits_of
from tests.support.knowing import STRIDE, KnowingPolicy, made_windows
from tests.support.miswired import BY_NAME, MISWIRINGS, Miswiring, pairs

WINDOWS = made_windows()
KNOWING = KnowingPolicy(WINDOWS)

# What the made policy does not react to: it finds the same frame for a cut or darker picture, and for Euler angles.
ALIKE = (
    "crop-missing", "crop-extra", "darker", "low-resolution", "state-euler", "gripper-threshold", "upper-case",
    "template", "whole-chunk", "one-step",
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


@pytest.mark.parametrize(
    "turn",
    [
        lambda state: Rotation.from_quat(state[3:7] / np.linalg.norm(state[3:7])).as_rotvec(),
        lambda state: Rotation.from_euler("xyz", state[3:6]).as_rotvec() * (state[6] == 0),
    ],
    ids=["quaternion", "euler"],
)
def test_a_state_of_as_many_other_numbers_is_named(turn: Callable[[Any], Any]) -> None:
    """The policy learned a position, a quaternion or Euler angles and a zero, and one finger: eight numbers, too."""

    class Other(KnowingPolicy):
        def act(self, sessions: Sequence[str], observations: Sequence[Any]) -> list[Any]:
            def learned(state: Any) -> Any:
                return np.concatenate([state[:3], turn(state), [state[7], -state[7]]])

            return super().act(sessions, [{**seen, STATE: learned(seen[STATE])} for seen in observations])

    found = diagnosed(Other(WINDOWS))
    assert codes_of(found)[0] == "VLA-D021"
    assert "one finger" in found.findings[0].cause
    assert found.explained[1] > 0.8


@pytest.mark.slow
@pytest.mark.study
def test_of_two_that_are_planted_both_are_found() -> None:
    """Of twenty drawn pairs of a wrong input and a wrong output, at least fourteen."""
    missed = []
    for one, other in pairs():
        found = codes_of(diagnosed(one.wrap(other.wrap(KNOWING))))
        if not all({*found} & {*each.acceptable} for each in (one, other)):
            missed.append((one.name, other.name, found))
    assert len(missed) <= 6, missed


def test_a_gripper_from_0_to_1_shows_whatever_else_is_wrong() -> None:
    """It never opens, which its values say by themselves: also of a policy that is lost without another input."""
    found = diagnosed(BY_NAME["empty"].wrap(BY_NAME["gripper-01-closes"].wrap(KNOWING)))
    assert codes_of(found) == ["VLA-D030", "VLA-D041"]

    class Lost(KnowingPolicy):
        """Closes when it should, and does nothing else right."""

        def act(self, sessions: Any, observations: Any) -> list[Any]:
            right = super().act(sessions, observations)
            moves = [np.sin(np.outer(np.arange(len(each)) + 1, np.arange(6) + 1) * 9) for each in right]
            return [np.column_stack([move, (one[:, 6] + 1) / 2]) for move, one in zip(moves, right, strict=True)]

    found = diagnosed(BY_NAME["empty"].wrap(Lost(WINDOWS)))
    assert codes_of(found) == ["VLA-D030", "VLA-D041", "VLA-D060"]
    found = diagnosed(BY_NAME["empty"].wrap(BY_NAME["gripper-never-closes"].wrap(Lost(WINDOWS))))
    assert codes_of(found)[-2:] == ["VLA-D042", "VLA-D060"]


def test_actions_that_are_repeated_tell_half_the_rate_where_neighbours_are_alike() -> None:
    """Of slow actions a shift by one step fits nearly as well."""
    slow = [
        replace(each, actions=np.hstack([2 * gaussian_filter1d(each.actions[:, :6], 8, axis=0), each.actions[:, 6:]]))
        for each in WINDOWS
    ]
    policy = BY_NAME["each-twice"].wrap(KnowingPolicy(slow))
    settings: Any = {"reads": policy.reads, "has_language": True, "generator": np.random.default_rng(0)}
    assert codes_of(diagnose_windows(policy, slow, STRIDE, **settings)) == ["VLA-D051"]


def test_a_gripper_closes_too_rarely_where_it_does_so_in_most_blocks() -> None:
    """In one of ten it is chance, also where that one is half of all."""

    def found(answered: Any, shown: Any) -> list[str]:
        actions = [np.hstack([np.zeros((40, 6)), np.ravel(each)[:, None]]) for each in (answered, shown)]
        block = np.arange(40) // 4
        pairs = Pairs(*actions, block, np.zeros(40, int), np.zeros((40, 7)), 10)
        return [each.confidence for _, each in rarely_closes(pairs, np.random.default_rng(0))]

    closes = np.tile([1.0, 1, -1, -1], (10, 1))
    in_one = np.full((10, 4), -1.0)
    in_one[0] = 1
    assert found(-np.ones((10, 4)), closes) == ["certain"]
    assert found(np.where(np.arange(10)[:, None] < 2, closes, -1), closes) == ["likely"]
    assert found(-np.ones((10, 4)), in_one) == ["certain"]
    in_one[5, :2] = 1
    assert found(np.where(np.arange(10)[:, None] == 0, -1, in_one), in_one) == []
    assert found(closes, closes) == []


def test_what_was_tried_says_on_top_of_what() -> None:
    found = diagnosed(BY_NAME["turned"].wrap(BY_NAME["state-fingers-swapped"].wrap(KNOWING)))
    turned, swapped = "both pictures turned by 180 degrees", "the state with the two fingers exchanged"
    under = {each.name: each.under for each in found.tried}
    assert (under[turned], under[swapped]) == ((), (turned,))


def test_a_policy_that_learned_nothing_has_no_wiring() -> None:
    found = diagnosed(KnowingPolicy(WINDOWS, is_random=True))
    assert codes_of(found) == ["VLA-D060"]
    assert found.proposal.lines == ()
    assert found.explained[1] < 0.25


def test_a_policy_that_always_answers_the_same_is_told_so_once() -> None:
    def policy(episode: Episode) -> Callable[[Any], Any]:
        return lambda observation: np.tile([0.1, 0.0, -0.2, 0.0, 0.0, 0.0, -1.0], (8, 1))

    found = diagnose_windows(policy, WINDOWS, 4, reads=(SCENE, STATE), has_language=None, declared=False,
                             generator=np.random.default_rng(0))  # fmt: skip
    assert [(each.code, each.confidence) for each in found.findings] == [(UNKNOWN, "certain")]
    assert found.notes == ()
    assert diagnosed(KnowingPolicy(WINDOWS, is_random=True)).findings[0].confidence != "certain"


def test_the_best_that_was_tried_is_no_worse_than_today() -> None:
    """What brings random answers closer on average may explain less variance."""
    drawn = np.random.default_rng(9).normal(size=(8 * 7, 6)) * [3, 3, 3, 1, 1, 1]

    def policy(episode: Episode) -> Callable[[Any], Any]:
        return lambda seen: np.tanh(drawn @ seen[STATE][:6]).reshape(8, 7)

    found = diagnose_windows(policy, WINDOWS, 4, reads=(STATE,), has_language=False, generator=np.random.default_rng(0))
    assert found.findings[-1].code == UNKNOWN
    assert found.explained[1] >= found.explained[0]


def test_a_policy_is_told_no_other_number_of_steps_than_in_a_run() -> None:
    """One that executes its chunk by itself is asked at each step, and told of none."""
    told: set[int | None] = set()

    def policy(episode: Episode) -> Any:
        told.add(episode.replan)
        return lambda seen: np.zeros(7)

    settings: Any = {"reads": (), "has_language": None}
    diagnose_windows(policy, WINDOWS, 1, generator=np.random.default_rng(0), **settings)
    assert told == {None}
    told.clear()
    diagnose_windows(policy, WINDOWS, 3, generator=np.random.default_rng(0), replan=3, **settings)
    assert told == {3}


def test_demonstrations_without_motion_are_refused() -> None:
    still = [replace(each, actions=np.tile([0.0] * 6 + [-1], (len(each.actions), 1))) for each in WINDOWS]
    for windows in ([], [replace(each, rows=(), shown=()) for each in WINDOWS], still):
        with pytest.raises(VlaError):
            diagnose_windows(KNOWING, windows, 4, reads=(), has_language=None, generator=np.random.default_rng(0))


@pytest.mark.slow
def test_a_pair_is_found_where_the_hand_does_not_turn() -> None:
    """Dimensions that do not move gain nothing by a change, so that the change of the others is found."""
    still = [replace(each, actions=each.actions * [1, 1, 1, 0, 0, 0, 1]) for each in WINDOWS]
    policy = BY_NAME["turned"].wrap(BY_NAME["gripper-sign"].wrap(KnowingPolicy(still)))
    settings: Any = {"reads": (SCENE, WRIST, STATE), "has_language": True, "generator": np.random.default_rng(0)}
    assert {"VLA-D010", "VLA-D040"} <= {*codes_of(diagnose_windows(policy, still, STRIDE, **settings))}


def test_noise_in_answers_proposes_nothing() -> None:
    """The best of forty wirings is best by luck, where each answer is drawn: it has to be so once more."""

    class Noisy(KnowingPolicy):
        noise = np.random.default_rng(5)

        def act(self, sessions: Any, observations: Any) -> list[Any]:
            spread = 0.6 * np.concatenate([each.actions for each in WINDOWS]).std(axis=0)
            return [each + self.noise.normal(0, spread, each.shape) for each in super().act(sessions, observations)]

    found = diagnosed(Noisy(WINDOWS))
    assert (codes_of(found), found.explained[0] == found.explained[1], len(found.notes)) == ([WELL], True, 1)
    assert codes_of(diagnosed(BY_NAME["turned"].wrap(Noisy(WINDOWS))))[0] == "VLA-D010"


def test_what_an_undeclared_policy_does_not_react_to_is_no_fault() -> None:
    policy, settings = BY_NAME["wrist-black"].wrap(KNOWING), {"reads": (SCENE, WRIST, STATE), "has_language": None}
    more: Any = {**settings, "generator": np.random.default_rng(0)}
    assert WRIST in KNOWING.reads
    assert codes_of(diagnose_windows(policy, WINDOWS, STRIDE, **more))[0] == "VLA-D014"
    found = diagnose_windows(policy, WINDOWS, STRIDE, declared=False, **more)
    assert "VLA-D014" not in codes_of(found)
    assert [("wrist" in each) for each in found.notes] == [True]


def test_little_that_is_explained_is_only_possibly_well() -> None:
    class Faint(KnowingPolicy):
        def act(self, sessions: Any, observations: Any) -> list[Any]:
            shift = [np.sin(np.arange(7) * 50 * float(each[STATE][0])) * 0.25 for each in observations]
            return [each + one for each, one in zip(super().act(sessions, observations), shift, strict=True)]

    for policy, sure in ((KNOWING, "likely"), (Faint(WINDOWS), "possible")):
        (finding,) = diagnosed(policy).findings
        assert (finding.code, finding.confidence) == (WELL, sure), finding.evidence


def test_wirings_that_cannot_be_told_apart_are_both_named() -> None:
    """Where all wrist pictures are grey, both pictures turned are as good as the scene's alone."""
    grey = np.full_like(WINDOWS[0].shown[0][WRIST], 128)
    windows = [replace(each, shown=tuple({**seen, WRIST: grey} for seen in each.shown)) for each in WINDOWS]
    policy = BY_NAME["turned"].wrap(KnowingPolicy(windows))
    settings: Any = {"reads": (SCENE, WRIST, STATE), "has_language": True, "generator": np.random.default_rng(0)}
    found = diagnose_windows(policy, windows, STRIDE, **settings)
    assert (found.findings[0].code, found.findings[0].alternatives) == ("VLA-D010", ("VLA-D011",))
    (named,) = found.same.values()
    assert "the scene's picture alone turned by 180 degrees" in named


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda picture: picture, []),
        (lambda picture: np.minimum(picture.astype(float) * 255, 255), ["VLA-D015"]),
        (lambda picture: picture.reshape(6, 8, 6, 8, 3).mean(axis=(1, 3)), ["VLA-D016"]),
        (lambda picture: 0 * picture, []),
    ],
    ids=["nothing", "saturated", "an eighth", "black"],
)
def test_what_pictures_lost_on_their_way_is_named(change: Callable[[Any], Any], codes: list[str]) -> None:
    """No wiring brings it back; but to lose it once more changes no answer."""
    weights = np.random.default_rng(1).normal(size=(5, 48, 48, 3))

    def answers(wiring: Wiring) -> Any:
        arrived = [change(wiring.see(dict(seen))[SCENE]) for seen in WINDOWS[0].shown[:5]]
        return np.array([(weights[:, : len(each), : len(each)] * each).sum(axis=(1, 2, 3)) for each in arrived]).ravel()

    found = degradations(answers, [SCENE], np.random.default_rng(0))
    assert [each.code for each in found] == codes
    assert all(each.numbers["changed"] < 0.02 for each in found)


def test_later_actions_of_a_chunk_that_fit_less_are_no_other_rate() -> None:
    """At half the rate only the first half of the demonstrated actions are compared, which fit better."""

    class Fading(KnowingPolicy):
        def act(self, sessions: Any, observations: Any) -> list[Any]:
            noise = np.random.default_rng(len(sessions)).normal(0, 0.08, (8, 7)) * np.arange(8)[:, None]
            return [each + noise * np.sin(each[:1] * 100) for each in super().act(sessions, observations)]

    assert "051" not in codes_of(diagnosed(Fading(WINDOWS)))


# The adapter that is printed does what is proposed.

EPISODE = Episode(
    "case", "suite", "task", "put_the Bowl on it", 0, np.random.default_rng(0), prompt="do put_the Bowl on it!"
)
POSE = np.array([0.1, -0.2, 1.3, 3.0, 0.2, -0.3, 1.0])


def both(proposal: WiringProposal, yours: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Sessions of a policy behind what is proposed: as the doctor itself runs it, and as it is printed."""
    given: dict[str, Any] = {"yours": yours}
    exec("\n".join(proposal.lines), given)
    assert traits_of(given["policy"]) == traits_of(yours)
    assert given["policy"].replan == 4
    return proposal.wrap(yours)(EPISODE), given["policy"](EPISODE)


@pytest.mark.parametrize(
    "wiring",
    [*picture_wirings((SCENE, WRIST)), *state_wirings((STATE,), 8), *prompt_wirings()],
    ids=lambda each: each.name,
)
def test_the_printed_adapter_shows_what_the_wiring_shows(wiring: Wiring) -> None:
    seen: list[Any] = []

    def yours(episode: Episode) -> Any:
        def act(observation: Any) -> Answer:
            seen.append((episode.instruction, episode.prompt, *(observation[each] for each in (SCENE, WRIST, STATE))))
            return Answer(np.zeros((8, 7), dtype=np.float32))

        return act

    yours.replan = 4  # type: ignore[attr-defined]
    for act in both(WiringProposal((wiring,)), yours):
        assert act(WINDOWS[0].shown[3]).shape == (8, 7)
    one, other = seen
    assert one[:2] == other[:2]
    assert (one[0] == EPISODE.instruction) == (one[1] == EPISODE.prompt)
    for mine, printed in zip(one[2:], other[2:], strict=True):
        assert np.allclose(mine, printed)
        # torch.from_numpy refuses others.
        assert isinstance(printed, np.ndarray)
        assert min(printed.strides) > 0


def of_names(planted: str, wanted: str) -> Mending:
    pairs = ask(BY_NAME[planted].wrap(KNOWING), WINDOWS, composed([])).pairs(STRIDE)
    return next(each for each in mendings(pairs) if each.code == wanted)


@pytest.mark.parametrize(
    ("planted", "code"),
    [("gripper-sign", "040"), ("gripper-01-closes", "041"), ("scaled-05", "043"), ("other-statistics", "044"),
     ("absolute", "045"), ("rotation-hand-frame", "046"), ("action-xy-swapped", "047")],
)  # fmt: skip
@pytest.mark.parametrize("lag", [0, -2, -8])
def test_the_printed_adapter_answers_what_is_proposed(planted: str, code: str, lag: int) -> None:
    """Also if more actions than a chunk has are to be left out: its last one is executed."""

    def yours(episode: Episode) -> Any:
        return lambda observation: BY_NAME[planted].wrap(KNOWING).act([begun], [observation])[0]

    yours.replan = 4  # type: ignore[attr-defined]
    begun = BY_NAME[planted].wrap(KNOWING).begin(replace(EPISODE, instruction=WINDOWS[0].instruction))
    proposal = WiringProposal((), Output(lag, mended=(of_names(planted, f"VLA-D{code}"),)))
    one, other = (np.asarray(act(WINDOWS[0].shown[5])) for act in both(proposal, yours))
    # Numbers are printed with three digits.
    assert np.allclose(one, other, rtol=0.02, atol=0.02)
    assert len(one) == {0: 8, -2: 6, -8: 1}[lag]
    if code in ("040", "041", "045", "047"):
        right = np.asarray(KNOWING.act([WINDOWS[0].instruction], [WINDOWS[0].shown[5]])[0])
        assert np.allclose(one, right[-len(one) :], atol=1e-6)


@pytest.mark.parametrize(("lag", "codes"), [(3, ()), (0, ()), (-3, ("VLA-D050",))])
def test_no_adapter_is_proposed_that_changes_nothing(lag: int, codes: tuple[str, ...]) -> None:
    """Actions that come too early cannot come later: the chunk does not have those before its first one."""
    proposal = WiringProposal((), Output(lag))
    assert proposal.codes == codes
    assert bool(proposal.lines) == bool(codes)


def test_an_adapter_says_which_of_several_findings_it_mends() -> None:
    findings = [DoctorFinding(code, "", "", "likely") for code in ("VLA-D050", "VLA-D012")]
    (wiring,) = (each for each in picture_wirings((SCENE,)) if each.code == "VLA-D012")
    proposal = WiringProposal((wiring,), Output(3))
    diagnosis = Diagnosis(tuple(findings), (0.4, 0.6), {}, {}, (), {}, 9, proposal=proposal)
    said = [
        Examination("yours:policy", "tabletop", (), replace(diagnosis, findings=some)).adapter_use
        for some in (tuple(findings), tuple(findings[1:]))
    ]
    assert ["VLA-D012" in each for each in said] == [True, False]
    assert not any("VLA-D050" in each for each in said)


def test_an_absolute_policy_keeps_its_poses() -> None:
    """A pose is no relative action, and lies outside of -1 to 1."""

    def yours(episode: Episode) -> Any:
        return lambda observation: np.tile(POSE, (8, 1))

    yours.traits = Traits(action_convention="absolute")  # type: ignore[attr-defined]
    yours.replan = 4  # type: ignore[attr-defined]
    turned = picture_wirings((SCENE, WRIST))[0]
    sign = of_names("gripper-sign", "VLA-D040")
    for output, gripper in ((Output(), 1.0), (Output(mended=(sign,)), -1.0)):
        for act in both(WiringProposal((turned,), output, is_relative=False), yours):
            assert np.allclose(act(WINDOWS[0].shown[3]), [*POSE[:6], gripper])


def test_a_gripper_is_mended_before_the_evaluator_converts_it() -> None:
    """An evaluator whose policies give 0 to 1 refuses -1: its opposite is 1 less it."""
    windows = [replace(each, task=with_protocol(each.task, gripper="one_opens")) for each in WINDOWS]

    class ClosesByOne(KnowingPolicy):
        reads = (SCENE, WRIST, STATE)
        traits = Traits(reads=(SCENE, WRIST, STATE), language=True)

        def act(self, sessions: Any, observations: Any) -> list[Any]:
            return [
                np.column_stack([each[:, :6], (each[:, 6] > 0).astype(float)])
                for each in super().act(sessions, observations)
            ]

    settings: Any = {"reads": (SCENE, WRIST, STATE), "has_language": True, "generator": np.random.default_rng(0)}
    found = diagnose_windows(ClosesByOne(windows), windows, STRIDE, **settings)
    assert codes_of(found) == ["VLA-D040"]
    assert found.findings[0].lines == ("chunk[:, -1] = 1 - chunk[:, -1]",)
    assert found.findings[0].lines[0] in "\n".join(found.proposal.lines)


class _Shifted(KnowingPolicy):
    """Hears the instruction of the next task, however it is worded, and does little but what it hears."""

    def begin(self, episode: Episode) -> str:
        texts = [each.instruction for each in WINDOWS]
        found = next(n for n, each in enumerate(texts) if each in episode.instruction.lower().replace("_", " "))
        return texts[(found + 1) % len(texts)]

    def _features(self, seen: Any, instruction: str) -> Any:
        features = super()._features(seen, instruction)
        features[-len(self._words) :] *= 8
        return features


@pytest.mark.parametrize("questions", [1, 2, 4])
def test_another_tasks_instruction_is_found_by_few_questions(questions: int) -> None:
    """Those by which it is chosen do not judge it: of two one is left, of one none."""
    windows = [replace(each, rows=each.rows[:questions], shown=each.shown[:questions]) for each in WINDOWS]
    found = diagnose_windows(
        _Shifted(WINDOWS),
        windows,
        STRIDE,
        reads=_Shifted.reads,
        has_language=True,
        generator=np.random.default_rng(0),
    )
    assert ("VLA-D031" in codes_of(found)) == (questions > 1)


def test_a_certain_finding_goes_before_one_that_gains_more() -> None:
    made = {sure: DoctorFinding("VLA-D010", sure, "", sure) for sure in ("possible", "likely", "certain")}
    ranked = [(0.3, made["possible"]), (0.2, made["likely"]), (0.1, made["certain"])]
    assert surest_first(ranked) == [made["certain"], made["likely"], made["possible"]]
