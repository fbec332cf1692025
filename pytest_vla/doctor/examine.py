"""The doctor's examination, step by step, cheap first: demonstrations, world, pictures, state, answers, closed loop."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.doctor.action_tables import ActionTable
from pytest_vla.doctor.answers import LEAST_STRIDE, DemonstrationWindow, ask, made_relative
from pytest_vla.doctor.demonstrations import (
    SCENE,
    STATE,
    WRIST,
    RecordedDemonstration,
    expert_demonstrations,
    our_observations,
)
from pytest_vla.doctor.diagnosis import KNOWN, WiringProposal, diagnose_windows
from pytest_vla.doctor.findings import (
    CLOSED_LOOP,
    DEFAULT_DEMONSTRATIONS,
    RECORDED_OTHERWISE,
    UNKNOWN,
    WELL,
    WORLD,
    ClosedLoop,
    ComparedObservation,
    Diagnosis,
    DoctorFinding,
    Examination,
    Replayed,
)
from pytest_vla.doctor.fits import ActionFit, as_executed, gain_of, score
from pytest_vla.doctor.wirings import TURNS, antipodal, composed, euler
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.base import BatchPolicy, Episode, Policy, Session, is_batch_policy, one_by_one
from pytest_vla.policies.fit import ACTION_SIZE, OPENS, Traits, check_fit, traits_of
from pytest_vla.policies.lerobot_inputs import read_cameras
from pytest_vla.policies.load import checked_policy
from pytest_vla.policies.session import own_replan
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted, printable

Array = NDArray[Any]
Told = Callable[[str], None]

MOST_QUESTIONS = 128
_LEAST_WINDOWS, _MOST_REPLAYED, _COMPARED_ROWS = 4, 10, 3


@dataclass(frozen=True)
class ExaminationSettings:
    """What is asked for.

    Attributes:
        model: the text of ``--vla-model``, for messages.
        replan: the steps of a chunk that are executed, or None for the policy's own number.
        episodes: of the closed loop; 0 for none.
        goes_on: whether to make every step, though an earlier one explains everything.
        seed: of the bootstrap.
        tables: of normalisation, one of which may have been taken for another.
    """

    model: str
    replan: int | None = None
    episodes: int = 5
    goes_on: bool = False
    seed: int = 0
    tables: tuple[ActionTable, ...] = ()


def diagnose(
    policy: Policy | BatchPolicy | Callable[[Episode], Any],
    demos: str | os.PathLike[str] | Sequence[RecordedDemonstration] | None = None,
    *,
    suite: str | Suite = "tabletop",
    model: str = "the policy",
    episodes: int = 0,
    told: Told = lambda line: None,
) -> Examination:
    """Return why a policy in memory fails on a suite, as ``pytest-vla doctor`` finds it.

    Args:
        policy: a `Policy` or `BatchPolicy`.
        demos: LIBERO's HDF5, a folder of it, a LeRobot data set or its id on the hub; demonstrations; or None for the
            expert's.
        suite: its name, or the suite.
        model: what messages call the policy.
        episodes: of the closed loop; 0 for none.
        told: called with a line about each next step.

    Raises:
        VlaError: an argument is of another kind, the demonstrations cannot be read, or the suite's actions are not
            LIBERO's.
        EpisodeError: the policy raises as it is wired today.
    """
    if not isinstance(suite, str | Suite):
        raise VlaError(f"suite={suite!r}: expected a suite's name, or a Suite")
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 0:
        raise VlaError(f"episodes={episodes!r}: expected a whole number, 0 for none")
    is_sequence = isinstance(demos, Sequence) and all(isinstance(each, RecordedDemonstration) for each in demos)
    if not (demos is None or isinstance(demos, str | os.PathLike) or is_sequence):
        raise VlaError(f"demos={printable(repr(demos))[:80]}: expected a path, an id on the hub, or demonstrations")
    chosen = load_suite(suite) if isinstance(suite, str) else suite
    check_examinable(chosen)
    if demos is None or isinstance(demos, str | os.PathLike):
        demos = demonstrations_of(None if demos is None else os.fspath(demos), chosen, told=told)
    settings = ExaminationSettings(model, episodes=episodes)
    return examine(checked_policy(policy, model), chosen, demos, settings, told=told)


def demonstrations_of(
    where: str | None,
    suite: Suite,
    count: int = DEFAULT_DEMONSTRATIONS,
    cameras: str | None = None,
    told: Told = lambda line: None,
    no_ops: int | None = None,
) -> tuple[RecordedDemonstration, ...]:
    """Return demonstrations from a place, or the expert's if there is none. Raises VlaError as `read_demonstrations`.

    Args:
        where: a path or an id on the hub, or None.
        suite: whose tasks they are of.
        count: at most so many.
        cameras: names of a data set's pictures, ``NAME:CAMERA[,...]``.
        told: called with a line about each next step.
        no_ops: leave out rows without motion, as `read_demonstrations` does.
    """
    if where is None:
        if cameras:
            raise VlaError(f"--cameras={cameras} names pictures of a data set, and --demos gives none")
        if no_ops is not None:
            raise VlaError(f"--no-ops={no_ops} is for recorded demonstrations, and --demos gives none")
        return expert_demonstrations(suite, count, told=told)
    if not where.strip():
        raise VlaError("--demos is empty: give a path or an id on the hub, or leave it out")
    from pytest_vla.doctor.recorded_files import read_demonstrations

    chosen = read_cameras(cameras or "", "--cameras", (SCENE, WRIST))
    return read_demonstrations(Path(where), suite, count, cameras=chosen, no_ops=no_ops, told=told)


def check_examinable(suite: Suite) -> None:
    """Raise VlaError if a suite's actions are not LIBERO's."""
    protocol = suite.protocol
    if protocol.vectors or protocol.action_size not in (ACTION_SIZE, None):
        raise VlaError(
            f"{suite.name} has its own world, and the doctor knows only LIBERO's actions (robosuite's OSC_POSE, 7 "
            "numbers). `pytest-vla check-policy` takes any suite"
        )


def examine(
    policy: Policy | BatchPolicy,
    suite: Suite,
    demonstrations: Sequence[RecordedDemonstration],
    settings: ExaminationSettings,
    *,
    told: Told = lambda line: None,
) -> Examination:
    """Examine why a policy fails on a suite.

    Args:
        policy: loaded.
        suite: of the demonstrations' tasks.
        demonstrations: at least one.
        settings: what is asked for.
        told: called with a line about each next step.

    Raises:
        VlaError: the suite's actions are not LIBERO's, or the policy sees the simulator's state.
        EpisodeError: the policy raises as it is wired today.
    """
    check_examinable(suite)
    if not demonstrations:
        raise VlaError(f"there is no demonstration of {suite.name}: give one at least")
    steps, names = _Timed(), tuple(each.name for each in demonstrations)
    # What the policy says of itself, at no cost.
    notes = [str(each) for each in check_fit(traits_of(policy), suite)]
    exchanged: Mapping[str, float] = {}
    finding: list[DoctorFinding] = []
    replayed: tuple[Replayed, ...] = ()
    compared: tuple[ComparedObservation, ...] = ()
    findings: list[DoctorFinding] = []
    with closing(WorldPool(allow_versions=True)) as pool:
        # The expert's demonstrations are the world's own, and its pictures and states are ours.
        foreign = [each for each in demonstrations if each.recorded is not None or each.start is not None]
        with steps.timed("replay"):
            if foreign or settings.goes_on:
                replayed = replay(demonstrations[:_MOST_REPLAYED], pool, told, goes_on=settings.goes_on)
                findings += _of_replay(replayed)
        with steps.timed("compare"):
            if foreign:
                compared = compare(foreign, pool, told)
                if not compared:
                    notes.append("the demonstrations have no states of the simulator, so pictures cannot be compared")
        if explained := not settings.goes_on and any(_explains_all(each) for each in findings):
            notes.append("this explains everything, so the policy was not asked: --all makes every step")
            diagnosis = _without_questions()
        elif getattr(policy, "privileged", False):
            notes.append("the policy sees the simulator's state: there is no wiring of pictures or state to examine")
            diagnosis = _without_questions()
        else:
            with steps.timed("draw"):
                told("drawing what the suite shows along the demonstrations")
                executed, stride, remembers = asked_every(policy, demonstrations[0], settings, pool)
                windows = windows_of(demonstrations, stride, pool, most_questions(stride), remembers=remembers)
                names = tuple(each.name for each in windows)
            with steps.timed("ask"):
                diagnosis = _asked(policy, windows, executed, settings, told)
                notes += diagnosis.notes
                exchanged, finding = exchange(policy, windows, foreign, executed, settings, told)
                notes += [_not_needed(each, exchanged) for each in compared if not _may_matter(each, exchanged)]
                both = sum(len(each.rows) for each in windows if each.name in _exchangeable(foreign))
                diagnosis = replace(diagnosis, questions=diagnosis.questions + both * len(exchanged))
        findings += [*_of_compared([each for each in compared if _may_matter(each, exchanged)]), *finding]
        diagnosis = replace(diagnosis, findings=_in_order(findings, diagnosis.findings))
        proposal = diagnosis.proposal
        closed_loop = None
        if settings.episodes and not explained:
            with steps.timed("closed loop"):
                proposed = proposal if proposal is not None and proposal.lines else None
                closed_loop = run_closed_loop(policy, demonstrations, settings, pool, proposed, told)
                diagnosis = with_closed_loop(diagnosis, closed_loop)
                if closed_loop.proposed and not any((*closed_loop.today, *closed_loop.proposed)):
                    notes.append("as proposed no episode succeeds either: another cause is left, or a related one")
    return Examination(
        settings.model,
        suite.name,
        names,
        diagnosis,
        replayed,
        compared,
        closed_loop,
        steps.seconds,
        tuple(notes),
        () if proposal is None else proposal.lines,
        exchanged,
    )


@dataclass
class _Timed:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began


def policy_of_one(policy: Policy | BatchPolicy) -> Policy:
    """Return a policy that is called once an episode, of one that may answer in batches."""
    return one_by_one(policy) if is_batch_policy(policy) else policy  # type: ignore[return-value]


def _in_order(own: Sequence[DoctorFinding], found: Sequence[DoctorFinding]) -> tuple[DoctorFinding, ...]:
    """Return findings on demonstrations, then those on the policy; "nothing is wrong" only if there is no other."""
    every = (*own, *found)
    wrong = tuple(each for each in every if each.code != WELL)
    return wrong or every[:1]


def _explains_all(finding: DoctorFinding) -> bool:
    """Whether nothing can be said of a policy beside these demonstrations: their actions mean something else."""
    return finding.code == WORLD and finding.confidence == "certain"


def _without_questions() -> Diagnosis:
    finding = DoctorFinding(WELL, "nothing is wrong with the wiring", "the policy has no pictures or state", "certain")
    return Diagnosis((finding,), (float("nan"), float("nan")), {}, {}, (), {}, 0)


def asked_every(
    policy: Policy | BatchPolicy, demonstration: RecordedDemonstration, settings: ExaminationSettings, pool: WorldPool
) -> tuple[int, int, bool]:
    """Return the steps of a chunk that a run executes, the rows between questions, and whether the policy remembers.

    Rows as many as steps, but no fewer than four; unless the policy remembers and executes fewer, such as one that
    executes a chunk by itself, one action an answer. Such a one is asked as often as in a run. One that remembers from
    chunk to chunk is not: it knows less of demonstrations that it is asked along in eight places each, but of what is
    planted in tiny, which knows its last state, more is named than along fewer that it is asked along everywhere
    (`make doctor`).

    Raises:
        EpisodeError: the policy raises.
    """
    (window,) = windows_of([demonstration], LEAST_STRIDE, pool, most=1)
    first = replace(window, rows=window.rows[:2], shown=window.shown[:2])
    wanted = settings.replan or own_replan(policy_of_one(policy))
    (chunks,) = ask(policy, [first], composed([]), settings.replan).chunks
    executed = min(wanted or len(chunks[0]), len(chunks[0]))
    if len(chunks) < 2:
        return executed, max(executed, LEAST_STRIDE), True
    second = replace(window, rows=window.rows[1:2], shown=window.shown[1:2])
    ((alone,),) = ask(policy, [second], composed([]), settings.replan).chunks
    remembers = executed < LEAST_STRIDE and not np.array_equal(alone, chunks[1])
    return executed, executed if remembers else max(executed, LEAST_STRIDE), remembers


def most_questions(stride: int) -> int:
    """Return about how many questions a wiring is tried on, of a policy that is asked at every so many rows."""
    return MOST_QUESTIONS * max(LEAST_STRIDE // stride, 1)


def windows_of(
    demonstrations: Sequence[RecordedDemonstration],
    stride: int,
    pool: WorldPool,
    most: int = MOST_QUESTIONS,
    *,
    remembers: bool = False,
) -> list[DemonstrationWindow]:
    """Return demonstrations as windows, the shortest first, with about so many questions in all.

    As many of each, over its whole length; a policy that remembers is asked the first part of fewer demonstrations,
    since it would be asked as in no episode otherwise. What is shown is the suite's, where the simulator's states are
    known, and else what was recorded.
    """
    found: list[DemonstrationWindow] = []
    asked = 0
    # One of each task goes first: language is judged between tasks.
    order = sorted(demonstrations, key=lambda each: len(each.actions))
    first = {each.task.name: each for each in reversed(order)}
    chosen = sorted(first.values(), key=lambda each: len(each.actions))
    longest = max(most // (_LEAST_WINDOWS if remembers else max(len(order), _LEAST_WINDOWS)), 8)
    for each in [*chosen, *(one for one in order if not any(one is other for other in chosen))]:
        places = np.arange(0, len(each.actions), stride)
        if not remembers:
            some = min(longest, len(places))
            places = places[np.unique(np.linspace(0, len(places) - 1, some).round().astype(int))]
        rows = tuple(map(int, places[:longest]))
        if asked + len(rows) > most and len(found) >= _LEAST_WINDOWS:
            continue
        if each.qpos is not None:
            shown = our_observations(each, rows, pool)
        else:
            shown = [recorded_as_shown(each, row) for row in rows]
        found.append(DemonstrationWindow(each.name, each.task, each.instruction, rows, tuple(shown), each.actions))
        asked += len(rows)
    return found


def recorded_as_shown(demonstration: RecordedDemonstration, row: int) -> dict[str, Array]:
    """Return what was recorded, in the form of an observation: pictures of the suite's size, and the hand's pose."""
    from scipy.spatial.transform import Rotation

    assert demonstration.recorded is not None
    found = {name: np.asarray(value) for name, value in demonstration.recorded(row).items()}
    size = demonstration.task.protocol.image_size
    for name in (SCENE, WRIST):
        if name in found:
            found[name] = resized(found[name], size)
    state = found.get(STATE)
    if state is not None and len(state) >= 6:
        found["robot0_eef_pos"] = np.asarray(state[:3], dtype=np.float64)
        found["robot0_eef_quat"] = Rotation.from_rotvec(np.asarray(state[3:6], dtype=np.float64)).as_quat()
        found["robot0_gripper_qpos"] = np.asarray(state[6:8], dtype=np.float64)
    else:
        found["robot0_eef_pos"], found["robot0_eef_quat"] = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
    return found


def resized(picture: Array, size: tuple[int, int]) -> Array:
    """Return a picture (h, w, 3) uint8 in another size (height, width)."""
    from PIL import Image

    if picture.shape[:2] == tuple(size):
        return picture
    return np.asarray(Image.fromarray(picture).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def _asked(
    policy: Policy | BatchPolicy,
    windows: Sequence[DemonstrationWindow],
    executed: int,
    settings: ExaminationSettings,
    told: Told,
) -> Diagnosis:
    traits = traits_of(policy)
    reads = getattr(policy, "reads", None) or traits.reads
    return diagnose_windows(
        policy,
        windows,
        executed,
        reads=reads or (SCENE, WRIST, STATE),
        declared=reads is not None,
        has_language=traits.language,
        generator=np.random.default_rng(settings.seed),
        goes_on=settings.goes_on,
        replan=settings.replan,
        tables=settings.tables,
        told=told,
    )


# Does the policy know the demonstrations through the suite's pictures and state as well as through their own?


def exchange(
    policy: Policy | BatchPolicy,
    windows: Sequence[DemonstrationWindow],
    demonstrations: Sequence[RecordedDemonstration],
    executed: int,
    settings: ExaminationSettings,
    told: Told,
) -> tuple[dict[str, float], list[DoctorFinding]]:
    """Return the explained variance with recorded inputs, with the suite's, and with one recorded input among these.

    Nothing is asked if the simulator's states, or what was recorded in them, are not known.
    """
    by_name = _exchangeable(demonstrations)
    some = [each for each in windows if each.name in by_name]
    if not some:
        return {}, []
    told("exchanging recorded pictures and states for the suite's")
    own = [[recorded_as_shown(by_name[each.name], row) for row in each.rows] for each in some]
    names = [name for name in (SCENE, WRIST, STATE) if all(name in seen for each in own for seen in each)]
    names = [name for name in names if name in (getattr(policy, "reads", None) or traits_of(policy).reads or names)]

    def fit(chosen: Sequence[str]) -> ActionFit:
        shown = [
            replace(
                window,
                shown=tuple(
                    {**ours, **{name: seen[name] for name in chosen}}
                    for ours, seen in zip(window.shown, each, strict=True)
                ),
            )
            for window, each in zip(some, own, strict=True)
        ]
        return as_executed(ask(policy, shown, composed([]), settings.replan).pairs(executed))

    try:
        ours, recorded = fit([]), fit(names)
        alone = {name: fit([name]) for name in names}
    except EpisodeError:
        # The policy refuses pictures or a state of this form: the comparison says what differs.
        return {}, []
    found = {_OURS: score(ours), "recorded": score(recorded)}
    found |= {_ALONE.format(name): score(each) for name, each in alone.items()}
    gain = gain_of(recorded, ours, np.random.default_rng(settings.seed))
    if gain.low <= 0 or gain.value < 0.1:
        return found, []
    name = max(alone, key=lambda each: score(alone[each]))
    text = (
        f"with everything as recorded its actions explain {score(recorded):.0%} of the variance, with the suite's "
        f"pictures and state {score(ours):.0%}, and with the recorded {name} alone {score(alone[name]):.0%}"
    )
    cause = f"the policy knows the demonstrations through their own {name}, and not through the suite's"
    numbers = {"recorded": score(recorded), "ours": score(ours), "alone": score(alone[name])}
    sure = "certain" if gain.low > 0.1 else "likely"
    lines = (f"compare {name} as recorded and as shown, on the page; a wiring below may say how they differ",)
    return found, [DoctorFinding(RECORDED_OTHERWISE, cause, text, sure, lines, numbers)]


_OURS, _ALONE = "the suite's", "recorded {} alone"
_AS_WELL = 0.02
"""The explained variance by which answers to recorded inputs have to be better than those to the suite's."""


def _may_matter(each: ComparedObservation, exchanged: Mapping[str, float]) -> bool:
    """Whether an observation that was recorded otherwise may be what a policy lacks.

    LIBERO's files have pictures upside down, and policies are trained on them turned as the suite turns them.
    """
    ours = exchanged.get(_OURS, 0.0)
    return each.reading == _SAME or ours < KNOWN or exchanged.get(_ALONE.format(each.name), ours) > ours + _AS_WELL


def _not_needed(each: ComparedObservation, exchanged: Mapping[str, float]) -> str:
    return (
        f"{each.name} was recorded {each.reading}, but the policy does not need it so: its actions explain "
        f"{exchanged[_OURS]:.0%} with the suite's, and no more with the recorded one"
    )


def _exchangeable(demonstrations: Sequence[RecordedDemonstration]) -> dict[str, RecordedDemonstration]:
    return {each.name: each for each in demonstrations if each.recorded is not None and each.qpos is not None}


# Does the world accept the demonstrations?

_Change = Callable[[Array, RecordedDemonstration], Array]


def _readings() -> Mapping[str, _Change]:
    def gripper(change: Callable[[Array], Array]) -> _Change:
        return lambda actions, each: np.hstack([actions[:, :6], change(actions[:, 6:])])

    def from_poses(actions: Array, each: RecordedDemonstration) -> Array:
        assert each.recorded is not None
        seen = recorded_as_shown(each, 0)
        return made_relative(actions, seen["robot0_eef_pos"], seen["robot0_eef_quat"])

    return {
        "with the gripper's sign inverted": gripper(np.negative),
        "with the gripper from 0 (opens) to 1 (closes)": gripper(lambda value: 2 * value - 1),
        "with the gripper from 0 (closes) to 1 (opens)": gripper(lambda value: 1 - 2 * value),
        "as absolute poses": from_poses,
        "with translation and rotation times 20": lambda actions, each: np.hstack(
            [actions[:, :6] * 20, actions[:, 6:]]
        ),
        "with translation and rotation divided by 20": lambda actions, each: np.hstack(
            [actions[:, :6] / 20, actions[:, 6:]]
        ),
        "a step later": lambda actions, each: np.vstack([actions[:1], actions[:-1]]),
        "a step earlier": lambda actions, each: np.vstack([actions[1:], actions[-1:]]),
        **{
            name: lambda actions, each, pace=pace: actions[pace(actions)]  # type: ignore[misc]
            for name, pace in _PACES.items()
        },
    }


def _moving(actions: Array) -> NDArray[np.int64]:
    same = np.abs(np.diff(actions[:, 6], prepend=actions[:1, 6])) < 1e-6
    return np.flatnonzero((np.linalg.norm(actions[:, :6], axis=1) > 1e-4) | ~same)


_PACES: Mapping[str, Callable[[Array], NDArray[np.int64]]] = {
    "without steps that do nothing": _moving,
    "each twice, at half the rate": lambda actions: np.repeat(np.arange(len(actions)), 2),
}
"""The rows that are played, under readings that play more or fewer of them than were recorded."""


def replay(
    demonstrations: Sequence[RecordedDemonstration], pool: WorldPool, told: Told, *, goes_on: bool = False
) -> tuple[Replayed, ...]:
    """Play demonstrations back from their own starts; if fewer than half succeed, under other readings as well.

    The first reading under which all succeed is the last one, unless it goes on.
    """
    from_starts = [each for each in demonstrations if each.start is not None or each.seed is not None]
    if not from_starts:
        return ()
    found = [_replayed("as recorded", lambda actions, each: actions, from_starts, pool, told)]
    if found[0].succeeded < len(from_starts) / 2:
        some = from_starts[:3]
        for reading, change in _readings().items():
            if reading == "as absolute poses" and any(each.recorded is None for each in some):
                continue
            found.append(_replayed(reading, change, some, pool, told))
            if found[-1].succeeded == found[-1].count and not goes_on:
                break
    return tuple(found)


def _replayed(
    reading: str, change: _Change, demonstrations: Sequence[RecordedDemonstration], pool: WorldPool, told: Told
) -> Replayed:
    succeeded, drifts, errors = 0, [], list[str]()
    conditions = Conditions("replay", premises=False)
    for number, each in enumerate(demonstrations):
        told(f"playing back {each.name} {reading} ({number + 1} of {len(demonstrations)})")
        actions = np.clip(change(each.actions, each), -1, 1)
        # It may succeed a little later than it was recorded to: LIBERO's files end with the first step of success.
        chunk = np.vstack([actions, np.repeat(_held(actions[-1:]), _STEPS_AFTER, axis=0)])
        task = with_protocol(each.task, max_steps=len(chunk))
        rollout = run_episode(each.case, task, _playing(each, chunk), pool, conditions)
        succeeded += rollout.record.outcome == "success"
        errors += _error_of(rollout.record, each.name)
        if each.qpos is not None and len(ours := rollout.trajectory.qpos):
            # Where the hand was before the last recorded action that was played, and where it is before that one.
            rows, at = np.unique(_PACES.get(reading, _all)(each.actions)[: len(ours)], return_index=True)
            both = replace(each, qpos=np.stack([each.qpos[rows[-1]], ours[at[-1]]]))
            before, now = (seen["robot0_eef_pos"] for seen in our_observations(both, [0, 1], pool))
            drifts.append(1000 * float(np.linalg.norm(now - before)))
    drift = float(np.median(drifts)) if drifts else float("nan")
    return Replayed(reading, succeeded, len(demonstrations), drift, (*errors, "")[0])


def _all(actions: Array) -> NDArray[np.int64]:
    return np.arange(len(actions))


_STEPS_AFTER = 5


def _playing(demonstration: RecordedDemonstration, chunk: Array) -> Policy:
    """Return a policy that plays a chunk of actions back, from the demonstration's own start."""

    def begin_episode(episode: Episode) -> Session:
        return lambda observation: chunk

    begin_episode.traits = Traits(gripper=OPENS, action_convention=RELATIVE)  # type: ignore[attr-defined]
    if (start := demonstration.start) is not None:
        # An episode ends with the last state of its start; another reading may take more steps than were recorded.
        states = start.states[np.minimum(np.arange(len(chunk)), len(start.states) - 1)]
        longer = replace(start, states=states)
        begin_episode.start = lambda case: longer  # type: ignore[attr-defined]
    return begin_episode


def _held(action: Array) -> Array:
    return np.hstack([np.zeros((1, 6)), action[:, 6:]])


def _of_replay(replayed: Sequence[Replayed]) -> list[DoctorFinding]:
    if not replayed or replayed[0].succeeded >= replayed[0].count / 2:
        return []
    first, others = replayed[0], replayed[1:]
    best = max(others, key=lambda each: each.succeeded / each.count, default=first)
    told = f"{first.succeeded} of {first.count} succeed when they are played back as recorded"
    told += f" ({printable(first.error)})" * bool(first.error)
    numbers = {"succeeded": float(first.succeeded), "count": float(first.count), "drift_mm": first.drift_mm}
    if best.succeeded > best.count / 2 and best is not first:
        told += f"; {best.reading}, {best.succeeded} of {best.count} do"
        cause = f"the demonstrations' actions are to be read {best.reading}"
        return [DoctorFinding(WORLD, cause, told, "certain", ("read the policy's actions in the same way",), numbers)]
    told += f"; under {len(others)} other readings at most {best.succeeded} of {best.count}"
    lines = ("check that they are of this suite, this version of the simulator, and of relative actions at its rate",)
    return [DoctorFinding(WORLD, "the simulator does not accept the demonstrations", told, "likely", lines, numbers)]


# Are pictures and state the same?


_SAME = "the same"


def compare(
    demonstrations: Sequence[RecordedDemonstration], pool: WorldPool, told: Told
) -> tuple[ComparedObservation, ...]:
    """Compare what was recorded with what the suite shows in the same states, over turns, mirrors and formats."""
    some = [each for each in demonstrations if each.qpos is not None and each.recorded is not None][:2]
    if not some:
        return ()
    told("comparing recorded pictures and states with the suite's")
    ours: list[Mapping[str, Array]] = []
    recorded: list[Mapping[str, Array]] = []
    for each in some:
        assert each.recorded is not None
        rows = np.unique(np.linspace(0, len(each.actions) - 1, _COMPARED_ROWS).astype(int))
        ours += our_observations(each, [int(row) for row in rows], pool)
        recorded += [each.recorded(int(row)) for row in rows]
    found = []
    for name in (SCENE, WRIST):
        if all(name in each for each in recorded) and all(name in each for each in ours):
            found.append(_compared_picture(name, ours, recorded))
    if all(STATE in each for each in recorded):
        found.append(_compared_state(ours, recorded))
    return tuple(found)


def _compared_picture(
    name: str, ours: Sequence[Mapping[str, Array]], recorded: Sequence[Mapping[str, Array]]
) -> ComparedObservation:
    other = WRIST if name == SCENE else SCENE
    readings: dict[str, Callable[[Mapping[str, Array]], Array]] = {_SAME: lambda seen: seen[name]}
    for turn, (_, change) in TURNS.items():
        readings[turn] = lambda seen, change=change: change(seen[name])  # type: ignore[misc]
    readings["with red and blue exchanged"] = lambda seen: seen[name][..., ::-1]
    for turn, change in {"": lambda picture: picture, **{key: value[1] for key, value in TURNS.items()}}.items():
        if other in ours[0]:
            text = f"of the other camera{', ' * bool(turn)}{turn}"
            readings[text] = lambda seen, change=change: change(seen[other])  # type: ignore[misc]
    away = {text: _grey_levels(change, name, ours, recorded) for text, change in readings.items()}
    best = min(away, key=lambda text: (round(away[text], 1), text != _SAME))
    shown = resized(np.ascontiguousarray(readings[best](ours[0])), recorded[0][name].shape[:2])
    return ComparedObservation(name, best, away[best], away[_SAME], shown, recorded[0][name])


def _grey_levels(
    change: Callable[[Mapping[str, Array]], Array],
    name: str,
    ours: Sequence[Mapping[str, Array]],
    recorded: Sequence[Mapping[str, Array]],
) -> float:
    """Return the mean absolute difference in grey levels, at the recorded size."""
    found = []
    for one, other in zip(ours, recorded, strict=True):
        picture = resized(np.ascontiguousarray(change(one)), other[name].shape[:2])
        found.append(np.abs(picture.astype(float) - other[name].astype(float)).mean())
    return float(np.mean(found))


def _compared_state(
    ours: Sequence[Mapping[str, Array]], recorded: Sequence[Mapping[str, Array]]
) -> ComparedObservation:
    wanted = np.array([np.asarray(each[STATE], dtype=np.float64) for each in recorded])
    readings: dict[str, Callable[[Mapping[str, Array]], Array]] = {
        _SAME: lambda seen: seen[STATE],
        "with the other axis-angle of the same turn": lambda seen: np.concatenate(
            [seen[STATE][:3], antipodal(seen[STATE][3:6]), seen[STATE][6:]]
        ),
        "with a quaternion xyzw": lambda seen: np.concatenate(
            [seen["robot0_eef_pos"], seen["robot0_eef_quat"], seen["robot0_gripper_qpos"]]
        ),
        "with a quaternion wxyz": lambda seen: np.concatenate(
            [seen["robot0_eef_pos"], np.roll(seen["robot0_eef_quat"], 1), seen["robot0_gripper_qpos"]]
        ),
        "with Euler angles": lambda seen: np.concatenate([seen[STATE][:3], euler(seen[STATE][3:6]), seen[STATE][6:]]),
        "of joint positions and fingers": lambda seen: np.concatenate(
            [seen["robot0_joint_pos"], seen["robot0_gripper_qpos"]]
        ),
        "of joint positions and the first finger": lambda seen: np.concatenate(
            [seen["robot0_joint_pos"], seen["robot0_gripper_qpos"][:1]]
        ),
        "with the rotation first": lambda seen: seen[STATE][[3, 4, 5, 0, 1, 2, 6, 7]],
        "with the fingers first": lambda seen: seen[STATE][[6, 7, 0, 1, 2, 3, 4, 5]],
        "with one finger": lambda seen: seen[STATE][:7],
    }
    away = {}
    for text, change in readings.items():
        found = np.array([change(each) for each in ours])
        if found.shape == wanted.shape:
            away[text] = float(np.abs(found - wanted).max())
    if not away:
        return ComparedObservation(STATE, f"another one: {wanted.shape[1]} values", float("nan"), float("nan"))
    best = min(away, key=lambda text: (round(away[text], 3), text != _SAME))
    return ComparedObservation(STATE, best, away[best], away.get(_SAME, float("nan")))


_MOST_GREY, _MOST_STATE = 25.0, 0.05


def _of_compared(compared: Sequence[ComparedObservation]) -> list[DoctorFinding]:
    """Return findings: what the demonstrations recorded, and a policy learned, is not what the suite shows."""
    found = []
    for each in compared:
        most = _MOST_STATE if each.name == STATE else _MOST_GREY
        unit = "" if each.name == STATE else " grey levels"
        numbers = {"difference": each.difference, "before": each.before}
        if each.reading != _SAME:
            told = f"recorded and shown differ by {each.before:.3g}{unit}, and {each.reading} by {each.difference:.3g}"
            cause = f"{each.name} was recorded {each.reading}, and the suite shows it otherwise"
            lines = (f"a policy that was trained on these demonstrations needs {each.name} {each.reading}",)
            sure = "certain" if each.difference < most else "possible"
            found.append(DoctorFinding(RECORDED_OTHERWISE, cause, told, sure, lines, numbers))
        elif each.difference > most:
            told = f"recorded and shown differ by {each.difference:.3g}{unit}, and no reading that was tried by less"
            lines = ("look at both, side by side, on the page",)
            cause = f"{each.name} was recorded otherwise than the suite shows it"
            found.append(DoctorFinding(RECORDED_OTHERWISE, cause, told, "possible", lines, numbers))
    return found


# Closed loop.


def run_closed_loop(
    policy: Policy | BatchPolicy,
    demonstrations: Sequence[RecordedDemonstration],
    settings: ExaminationSettings,
    pool: WorldPool,
    proposal: WiringProposal | None,
    told: Told,
) -> ClosedLoop:
    """Run episodes of the demonstrated tasks as wired today and, if something is proposed, as proposed."""
    one = policy_of_one(policy)
    tasks = {each.task.name: each.task for each in demonstrations}
    cases = [
        (Case(task.suite, task.name, seed, task_level=task.task_level), task)
        for seed in range(settings.episodes)
        for task in tasks.values()
    ][: settings.episodes]
    conditions = Conditions("doctor", replan=settings.replan, premises=False)
    outcomes: list[list[bool]] = []
    errors: list[str] = []
    wired = {"as wired today": one} | ({} if proposal is None else {"as proposed": proposal.wrap(one)})
    for name, each in wired.items():
        outcomes.append([])
        for number, (case, task) in enumerate(cases):
            told(f"closed loop {name}: episode {number + 1} of {len(cases)}, {case.id}")
            record = run_episode(case, task, each, pool, conditions).record
            outcomes[-1].append(record.outcome == "success")
            errors += _error_of(record, f"{name}, {case.id}")
    today, proposed = (*map(tuple, outcomes), ())[:2]
    return ClosedLoop(tuple(case.id for case, _ in cases), today, proposed, tuple(errors))


def _error_of(record: Record, name: str) -> list[str]:
    """Return the message of an episode that measured nothing, if it is one."""
    is_one = record.outcome not in ("success", "failure")
    return [f"{name}: {record.reason}: {record.message}"] if is_one else []


def with_closed_loop(diagnosis: Diagnosis, closed: ClosedLoop) -> Diagnosis:
    """Add a finding if nothing is wrong along demonstrations, and no episode succeeds, or one ends as an error.

    What is found along demonstrations is only possible if episodes refute it: fewer succeed as proposed, all succeed as
    wired today, or some do of a policy that does not know the demonstrations.
    """
    told, findings = f"{sum(closed.today)} of {len(closed.cases)} episodes succeed as wired today", []
    does = "it does these tasks: its answers are noisy, or it learned from other demonstrations; try --demos"
    is_worse = bool(closed.proposed) and sum(closed.proposed) < sum(closed.today)
    told += f", and as proposed {sum(closed.proposed)}" * is_worse
    for each in diagnosis.findings if any(closed.today) else ():
        lines = (does,) if each.code == UNKNOWN else each.lines
        # What has no numbers is exact, such as an input without effect.
        if each.code == UNKNOWN or ("gain" in each.numbers if is_worse else all(closed.today) and each.numbers):
            each = replace(each, confidence="possible", evidence=f"{each.evidence}; but {told}", lines=lines)
        findings.append(each)
    diagnosis = replace(diagnosis, findings=tuple(findings) or diagnosis.findings)
    if not diagnosis.is_well or (any(closed.today) and not closed.errors) or not diagnosis.questions:
        return diagnosis
    told = (
        f"{sum(closed.today)} of {len(closed.cases)} episodes succeed, and along demonstrations its actions are right"
    )
    lines = (
        "small errors add up: check the number of executed steps (--vla-replan), the step budget, settle steps and "
        "control rate (--vla-evaluator), and latency",
    )
    cause, sure = "it fails in closed loop alone", "possible"
    if closed.errors:
        told += f"; {counted(len(closed.errors), 'episode')} ended with an error, such as {closed.errors[0]}"
        lines = ("mend the error first: what is wrong beside it, these episodes do not tell",)
        cause, sure = "its episodes end with an error", "certain"
    finding = DoctorFinding(CLOSED_LOOP, cause, told, sure, lines)
    return replace(diagnosis, findings=(finding,))
