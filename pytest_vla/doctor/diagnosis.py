"""The diagnosis: which wiring makes a policy's answers fit the demonstrated actions, and what no wiring explains."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.doctor.action_tables import ActionTable
from pytest_vla.doctor.answers import BLOCK, DemonstrationWindow, Pairs, WindowAnswers, ask, asked_together
from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST
from pytest_vla.doctor.findings import (
    LAG,
    LONG_CHUNK,
    NO_CAMERA,
    NO_FINGER,
    NO_LANGUAGE,
    NO_STATE,
    OTHER_INPUT,
    OTHER_TABLE,
    OTHER_TASK,
    OTHER_WORDING,
    RARELY_CLOSES,
    RATE,
    SOME_TASKS,
    UNKNOWN,
    WELL,
    Diagnosis,
    DoctorFinding,
    Tried,
)
from pytest_vla.doctor.fits import (
    ActionFit,
    Gain,
    Mending,
    as_executed,
    closeness,
    gain_of,
    gripper_mending,
    is_share,
    mean_of,
    means_of,
    mendings,
    score,
    skill_of,
)
from pytest_vla.doctor.wirings import (
    CAMERAS,
    Wiring,
    changed,
    composed,
    picture_wirings,
    prompt_wirings,
    state_wirings,
)
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.choices import ABSOLUTE, SIGN
from pytest_vla.plan.task import Protocol
from pytest_vla.policies.base import BatchPolicy, Episode, Observation, Policy, Session
from pytest_vla.policies.fit import controlled, traits_of
from pytest_vla.policies.session import close_session
from pytest_vla.policies.view import converts_gripper

Array = NDArray[np.float64]

KNOWN = 0.25
"""The share of the demonstrated actions' variance below which a policy does not know the demonstrations."""
_LEAST_GAIN = 0.015
"""The least gain of a wiring that is proposed."""
_EVERYTHING = 0.98
"""The closeness from which no further wiring is tried."""
_EXPLAINED = 0.6
"""The share of the variance from which "nothing is wrong" is likely, and not only possible."""
_SCREEN_QUESTIONS = 32
_FEW = 4
"""The number of demonstrations below which another wiring of inputs is only possible."""
_FINALISTS = 4
_MOST_ROUNDS = 3


@dataclass
class _Search:
    """What is known so far: the policy, where it is asked, and what was tried."""

    policy: Policy | BatchPolicy
    windows: Sequence[DemonstrationWindow]
    steps: int
    generator: np.random.Generator
    told: Callable[[str], None]
    tried: dict[str, Tried] = field(default_factory=dict)
    same: dict[str, tuple[Wiring, ...]] = field(default_factory=dict)
    questions: int = 0
    replan: int | None = None
    draws: bool = False
    tables: Sequence[ActionTable] = ()

    def was_worse(self, wiring: Wiring) -> bool:
        """Whether a wiring of inputs was tried before, and was clearly worse than none."""
        before = self.tried.get(wiring.name)
        return before is not None and before.gain is not None and before.high < 0

    def ask(self, wiring: Wiring, windows: Sequence[DemonstrationWindow] | None = None) -> WindowAnswers:
        some = self.windows if windows is None else windows
        found = ask(self.policy, some, wiring, self.replan)
        # What it refuses, it is not asked again.
        self.questions += sum(len(each.rows) for each in some)
        return found


@dataclass(frozen=True)
class Output:
    """How actions are read: a shift in time, and changes of them, in turn."""

    lag: int = 0
    stretch: float = 1.0
    mended: tuple[Mending, ...] = ()

    def pairs(self, answers: WindowAnswers, steps: int) -> Pairs:
        found = answers.pairs(steps, self.lag, self.stretch)
        for each in self.mended:
            found = each.apply(found)
        return found


@dataclass(frozen=True)
class WiringProposal:
    """What is proposed to be changed: wirings of inputs, and of actions.

    Attributes:
        inputs: changes of what is shown and told.
        output: changes of what the policy itself answers, before an evaluator converts it.
        is_relative: whether actions are executed as relative ones, from -1 to 1.
    """

    inputs: tuple[Wiring, ...] = ()
    output: Output = Output()
    is_relative: bool = True

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings that an adapter mends. It has no actions from before those of a chunk."""
        late = (LAG,) if self.output.lag < 0 else ()
        return (*(each.code for each in self.inputs), *(each.code for each in self.output.mended), *late)

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of an adapter in Python: a policy that changes what another one, `yours`, sees and answers.

        They begin with the imports that they need. There are none if it would change nothing.
        """
        if not self.codes:
            return ()
        tells = any(each.tell("a b") != "a b" or "told" in " ".join(each.lines) for each in self.inputs)
        seen = [line for each in self.inputs for line in each.lines if not line.startswith("told")]
        told = [line for each in self.inputs for line in each.lines if line.startswith("told")]
        mended = [line for each in self.output.mended for line in each.lines]
        mended += [f"chunk = chunk[min({-self.output.lag}, len(chunk) - 1) :]"] if self.output.lag < 0 else []
        begin = ["told = episode.instruction", *told] if tells else []
        asked = "replace(episode, instruction=told, prompt=prompt)" if tells else "episode"
        begin += ["prompt = episode.prompt.replace(episode.instruction, told)"] if tells else []
        clipped = "chunk.clip(-1, 1)" if self.output.mended and self.is_relative else "chunk"
        lines = (
            "def policy(episode):",
            *(f"    {line}" for line in begin),
            f"    session = yours({asked})",
            "    def act(observation):",
            "        seen = dict(observation)",
            *(f"        {line}" for line in seen),
            "        answer = session(seen)",
            '        chunk = np.atleast_2d(getattr(answer, "actions", answer)).astype(float)',
            *(f"        {line}" for line in mended),
            f"        return {clipped}",
            "    return act",
            'policy.traits, policy.replan = getattr(yours, "traits", {}), getattr(yours, "replan", None)',
        )
        return (*(line for word, line in _IMPORTS.items() if any(word in each for each in lines)), *lines)

    def wrap(self, policy: Policy) -> Policy:
        """Return a policy behind what is proposed, for episodes."""
        wiring, output = composed(self.inputs), self.output

        def begin(episode: Episode) -> Session:
            told = wiring.tell(episode.instruction)
            prompt = episode.prompt.replace(episode.instruction, told) if episode.instruction else told
            session = policy(replace(episode, instruction=told, prompt=prompt))

            def act(observation: Observation) -> Array:
                seen = {name: np.array(observation[name]) for name in observation}
                answer = session({**seen, **wiring.see(dict(seen))})
                chunk = np.atleast_2d(np.asarray(getattr(answer, "actions", answer), dtype=np.float64))
                pose = np.concatenate([seen["robot0_eef_pos"], seen["robot0_eef_quat"]])
                count = len(chunk)
                block = np.zeros(count, dtype=np.int64)
                pairs = Pairs(chunk, chunk, block, np.arange(count), np.tile(pose, (count, 1)), 1)
                for each in output.mended:
                    pairs = each.apply(pairs)
                chunk = pairs.answered[min(max(-output.lag, 0), count - 1) :]
                return chunk.clip(-1, 1) if output.mended and self.is_relative else chunk

            act.close = lambda: close_session(session)  # type: ignore[attr-defined]
            return act

        begin.traits = traits_of(policy)  # type: ignore[attr-defined]
        begin.replan = getattr(policy, "replan", None)  # type: ignore[attr-defined]
        return begin


_IMPORTS = {
    "np.": "import numpy as np",
    "replace(episode": "from dataclasses import replace",
    "Rotation.": "from scipy.spatial.transform import Rotation",
    "centre_crop(": "from pytest_vla.policies.view import centre_crop",
    **{
        f"{name}(": f"from pytest_vla.doctor.wirings import {name}"
        for name in ("antipodal", "brighter", "darker", "shrunk", "w_first", "w_last")
    },
}
"""The import for each name that lines of an adapter may have."""


def _as_answered(mended: Sequence[Mending], policy: Policy | BatchPolicy, protocol: Protocol) -> tuple[Mending, ...]:
    """Return changes of what a policy itself answers, of those that fit after the evaluator converted it."""
    if controlled(protocol, traits_of(policy)).control == ABSOLUTE:
        # Poses are compared as relative actions, and cannot be changed as these.
        mended = [each for each in mended if each.dimensions == (6,)]
    if converts_gripper(policy, protocol) and protocol.gripper != SIGN:
        # The evaluator takes 0 to 1.
        return tuple(
            gripper_mending(each.code, each.name, "1 - {}", lambda value: 1 - value, each.numbers)
            if each.code == "VLA-D040"
            else each
            for each in mended
        )
    return tuple(mended)


def diagnose_windows(
    policy: Policy | BatchPolicy,
    windows: Sequence[DemonstrationWindow],
    steps: int,
    *,
    reads: Iterable[str],
    has_language: bool | None,
    generator: np.random.Generator,
    declared: bool = True,
    replan: int | None = None,
    tables: Sequence[ActionTable] = (),
    goes_on: bool = False,
    told: Callable[[str], None] = lambda line: None,
) -> Diagnosis:
    """Return the diagnosis of a policy along windows of demonstrations.

    Args:
        policy: the policy.
        windows: where it is asked.
        steps: how many actions of a chunk are executed.
        reads: the observations that it reads.
        has_language: whether it reads the instruction; None if that is not known.
        generator: draws the bootstrap.
        declared: whether the policy itself says what it reads; what is only assumed may well have no effect.
        tables: of normalisation, one of which may have been taken for another.
        goes_on: whether to try further wirings of inputs even where those found explain everything.
        replan: the steps of a chunk that it is told are executed, or None for its own number.
        told: called with a line about each next step.

    Raises:
        VlaError: there are no windows, or their demonstrations do not move.
        EpisodeError: the policy raises as it is wired today.
    """
    if not any(each.rows for each in windows):
        raise VlaError("no demonstration has an action to compare the policy's with")
    search = _Search(policy, windows, steps, generator, told, replan=replan, tables=tables)
    reads = tuple(reads)
    told("asking the policy along the demonstrations")
    today = composed([])
    base = search.ask(today)
    search.draws = _differ(search, today, today)
    first = base.pairs(steps)
    if not as_executed(first).judged.any():
        raise VlaError(f"the actions of {windows[0].name} and the other demonstrations are all the same: nothing moves")
    output = _output_of(search, base)
    told("exchanging its inputs")
    few = [f"{len(windows)} demonstrations are few: another wiring of inputs may fit better by chance"]
    few = few if len(windows) < _FEW else []
    notes = [*few]
    if search.draws:
        notes.append("its answers to equal questions differ, so inputs without effect cannot be told")
    elif has_language is None and not (has_language := _reads_language(search)):
        notes.append(_without_effect("instruction"))
    without_effect = [] if search.draws else [*_ignored(search, reads, has_language)]
    # One that does not say what it reads may well do without: nothing is wrong then.
    ignored = without_effect if declared else []
    notes += [_without_effect(each.numbers_of) for each in without_effect if each.numbers_of and not declared]

    # Inputs: each round takes the wiring that gains most.
    chosen: list[tuple[Wiring, Gain]] = []
    answers = base
    blind = {each.numbers_of for each in without_effect}
    for _ in range(_MOST_ROUNDS):
        if not goes_on and score(_best_fit(search, answers, output)) >= _EVERYTHING:
            break
        found = _best_input(search, [each for each, _ in chosen], answers, output, reads, blind, has_language)
        if found is None:
            break
        wiring, gain, answers = found
        chosen.append((wiring, gain))
        output = _output_of(search, answers)
    if chosen and ignored:
        # What another input drowned acts again.
        still_blind = _ignored(search, reads, has_language, composed([each for each, _ in chosen]))
        names = {(each.numbers_of, each.finding.code) for each in still_blind}
        ignored = [each for each in ignored if (each.numbers_of, each.finding.code) in names]
    ranked = [(gain.value, _of_input(wiring, gain, search)) for wiring, gain in chosen]
    if has_language and "language" not in blind:
        other = _other_task(search, [each for each, _ in chosen], answers, output)
        if other is not None:
            gained, finding, answers = other
            ranked.append((gained, finding))
            output = _output_of(search, answers)
    pairs = output.pairs(answers, steps)
    final = as_executed(pairs)
    known = score(final)
    before = as_executed(first)
    if known < score(before) < KNOWN:
        # What comes closer on average may explain less.
        pairs, final, known = first, before, score(before)
    cameras = [name for name in CAMERAS if name in reads]
    findings = [each.finding for each in ignored]
    if known < KNOWN:
        # Without an input that it needs a policy knows little. Its gripper tells what is wrong with it all the same; of
        # what is left, scales and offsets that make it smaller only seem to fit.
        if ignored:
            of_gripper = surest_first(_of_output(search, answers, output))
            findings += [each for each in of_gripper if each.code in _GRIPPER and each.confidence == "certain"]
        findings.append(_unknown(first, known))
        if len({chunk.tobytes() for chunks in base.chunks for chunk in chunks}) == 1:
            # That no input has an effect follows from it.
            text = "its answers to all questions are the same, whatever pictures, state and instruction it is shown"
            lines = ("check that observations reach the network, and that no error is caught on their way",)
            always = "the policy always answers the same"
            findings = [each for each in findings if each.code in _GRIPPER]
            findings, notes = [*findings, DoctorFinding(UNKNOWN, always, text, "certain", lines)], few
    else:
        ranked += _of_output(search, answers, output)
        findings += surest_first(ranked)
        # A policy may well not need what is lost: it is named where something is left to explain.
        if cameras and known < _EXPLAINED and not search.draws:
            under, some = [each for each, _ in chosen], _first_questions(search)
            findings += degradations(
                lambda wiring: ask_values(search, composed([*under, wiring]), some), cameras, generator
            )
        findings += _some_tasks(search, pairs, findings, notes)
    if not findings:
        findings = [_well(final)]
    still = np.zeros_like(first.shown)
    still[:, 6] = -1
    yardsticks = {
        "no motion": score(as_executed(first.with_answers(still))),
        "the mean action": score(as_executed(first.with_answers(np.tile(first.shown.mean(axis=0), (len(still), 1))))),
    }
    if cameras and len(windows) > 1:
        told("asking with pictures of other moments")
        mixed = search.ask(composed([each for each, _ in chosen]), _of_other_moments(windows, cameras))
        blindly = score(as_executed(output.pairs(mixed, steps)))
        yardsticks["pictures of other moments"] = blindly
        if known >= KNOWN and blindly > known - _LEAST_GAIN:
            notes.append("with pictures of other moments its actions explain as much: its pictures hardly matter")
    protocol = windows[0].task.protocol
    # An adapter cannot execute earlier what a single action is all of.
    lag = output.lag if max(len(chunk) for chunks in base.chunks for chunk in chunks) > -output.lag else 0
    answered = replace(output, lag=lag, mended=_as_answered(output.mended, policy, protocol))
    is_relative = controlled(protocol, traits_of(policy)).control != ABSOLUTE
    return Diagnosis(
        tuple(findings),
        (score(before), known),
        {"today": _listed(before), "proposed": _listed(final)},
        yardsticks,
        tuple(search.tried.values()),
        {name: tuple(each.name for each in others) for name, others in search.same.items()},
        search.questions,
        {"shown": pairs.shown, "shown_today": first.shown, "today": first.answered, "proposed": pairs.answered},
        WiringProposal() if known < KNOWN else WiringProposal(tuple(each for each, _ in chosen), answered, is_relative),
        tuple(notes),
    )


def _of_other_moments(windows: Sequence[DemonstrationWindow], cameras: Sequence[str]) -> list[DemonstrationWindow]:
    """Return the windows with the pictures of others, of another demonstration."""
    found = []
    for number, each in enumerate(windows):
        other = windows[(number + len(windows) // 2) % len(windows)]
        pictures = [
            {name: other.shown[at % len(other.shown)][name] for name in cameras if name in seen}
            for at, seen in enumerate(each.shown)
        ]
        shown = tuple({**seen, **taken} for seen, taken in zip(each.shown, pictures, strict=True))
        found.append(replace(each, shown=shown))
    return found


def surest_first(ranked: Iterable[tuple[float, DoctorFinding]]) -> list[DoctorFinding]:
    """Return findings with their gains in order: one that gains more may be an accident of few demonstrations."""
    surely = ("certain", "likely", "possible")
    return [found for _, found in sorted(ranked, key=lambda each: (surely.index(each[1].confidence), -each[0]))]


def _listed(fit: ActionFit) -> tuple[float, ...]:
    return tuple(float(each) for each in fit.by_dimension())


def _well(fit: ActionFit) -> DoctorFinding:
    known = score(fit)
    told = f"the policy's actions explain {known:.0%} of the demonstrated ones' variance, and no wiring does better"
    if known >= _EXPLAINED:
        return DoctorFinding(WELL, "nothing is wrong with the wiring", told, "likely")
    told += "; the rest is noise of the policy, another way to do the task, too little training, or a cause not tried"
    return DoctorFinding(WELL, "no wiring that was tried is wrong", told, "possible")


def _unknown(first: Pairs, known: float) -> DoctorFinding:
    skill = score(skill_of(first))
    told = (
        f"as wired today its actions correlate {skill:.2f} with the demonstrated ones, and under no wiring that was "
        f"tried do they explain more than {max(known, 0):.0%} of their variance"
    )
    lines = ("check that the weights loaded, and that they are of this suite's tasks",)
    return DoctorFinding(
        UNKNOWN,
        "the policy does not know these demonstrations",
        told,
        # What correlates is known somehow.
        "likely" if skill < 0.5 else "possible",
        lines,
        {"skill": skill, "known": known},
    )


# What comes out.

_LAGS = (-8, -6, -4, -3, -2, -1, 1, 2, 3, 4)
_LEAST_SKILL = 0.012
"""The least gain of correlation by a shift in time: neighbouring actions are much alike."""


def _output_of(search: _Search, answers: WindowAnswers) -> Output:
    """Return the shift in time and the changes of actions that fit best, each only if it is clearly better."""
    best = Output()
    length = max(len(chunk) for chunks in answers.chunks for chunk in chunks)
    times = [(lag, 1.0) for lag in _LAGS] + ([(0, 2.0), (0, 0.5)] if length > 1 and search.steps > 1 else [])
    found = []
    repeats = _repeats(answers)
    for lag, stretch in times:
        pairs = answers.pairs(search.steps, lag, stretch)
        if len(pairs.shown) < 40:
            continue
        gain = gain_of(
            skill_of(pairs), skill_of(answers.pairs(_steps_compared(search.steps, stretch))), search.generator
        )
        if stretch < 1 and repeats and gain.likely > 0:
            # Half the rate is no guess then, and a shift explains a part of what it does.
            found = [(lag, stretch)]
        elif gain.low > 0 and gain.value > _LEAST_SKILL * (1 + (stretch != 1)):
            found.append((lag, stretch))
    # All of them beside as many demonstrated actions, as above.
    steps = _steps_compared(search.steps, min((stretch for _, stretch in found), default=1.0))

    def fits(lag: int, stretch: float) -> float:
        pairs = answers.pairs(search.steps if stretch < 1 else steps, lag, stretch)
        # A rate explains what two shifts would: of nearly equal ones it is the plainer cause.
        return score(skill_of(pairs)) + 0.003 * (stretch > 1)

    if found:
        best = Output(*max(found, key=lambda each: fits(*each)))
    return _mended(best, answers, search, search.generator)


def _repeats(answers: WindowAnswers) -> bool:
    """Whether every chunk has each of its actions twice."""
    chunks = [chunk[: len(chunk) // 2 * 2] for some in answers.chunks for chunk in some]
    return any(len(each) > 2 and np.ptp(each, axis=0).any() for each in chunks) and all(
        np.array_equal(each[::2], each[1::2]) for each in chunks
    )


def _steps_compared(steps: int, stretch: float) -> int:
    """Return the steps of a chunk beside whose demonstrated actions those of another rate are.

    The first actions of a chunk fit best: half as many would seem better whatever their rate is.
    """
    return -(-steps // 2) if stretch < 1 else steps


def _mended(output: Output, answers: WindowAnswers, search: _Search, generator: np.random.Generator | None) -> Output:
    """Return an output with the changes of actions that fit; without a generator, whether or not that is certain."""
    for _ in range(_MOST_ROUNDS):
        mending = _best_mending(output.pairs(answers, search.steps), generator, search.tables)
        if mending is None:
            break
        output = replace(output, mended=(*output.mended, mending))
    return output


def _best_mending(pairs: Pairs, generator: np.random.Generator | None, tables: Sequence[ActionTable]) -> Mending | None:
    fit, best, most = as_executed(pairs), None, 0.0
    found = list(mendings(pairs, tables))
    # What values alone say comes first, whatever it gains: of its two directions the better one.
    if told := [each for each in found if _is_told_by_values(each, pairs)]:
        return max(told, key=lambda each: score(as_executed(each.apply(pairs)), each.dimensions))
    for each in found:
        better = as_executed(each.apply(pairs))
        reached = score(better, each.dimensions)
        gain = reached - score(fit, each.dimensions)
        # Over all dimensions, so that a change of six is comparable with one of the gripper.
        value = gain * len(each.dimensions) / 7 - each.cost
        # What takes actions to nothing also gains over wrong ones. NaN, of dimensions that do not move, gains nothing.
        if not (gain > each.least and reached >= _LEAST_REACHED and value > most):
            continue
        if generator is None or gain_of(better, fit, generator, each.dimensions).low > 0:
            best, most = each, value
    return best


_GRIPPER = ("VLA-D040", "VLA-D041", RARELY_CLOSES)
"""Codes of what is wrong with the gripper whatever the other dimensions do."""


def _is_told_by_values(mending: Mending, pairs: Pairs) -> bool:
    """Whether the answers' values alone say it, whatever it gains: a gripper from 0 to 1 never opens.

    A bootstrap of few demonstrations has a wide interval for one dimension, and a policy without its instruction moves
    the gripper at other times.
    """
    return mending.code == "VLA-D041" and is_share(pairs.answered[:, 6]) and bool(pairs.shown[:, 6].min() < -0.5)


_LEAST_REACHED = 0.1


def _of_output(search: _Search, answers: WindowAnswers, output: Output) -> list[tuple[float, DoctorFinding]]:
    """Return the findings on actions, with what each gains."""
    found, steps, protocol = [], search.steps, search.windows[0].task.protocol
    pairs = answers.pairs(steps, output.lag, output.stretch)
    plain = skill_of(answers.pairs(_steps_compared(steps, output.stretch)))
    if (output.lag, output.stretch) != (0, 1.0):
        gain = gain_of(skill_of(pairs), plain, search.generator)
        if output.stretch != 1.0:
            told = f"an action of a chunk fits the demonstrated one {output.stretch:g} steps after the one before it"
            cause = f"actions are of another control rate: one of the policy's is for {output.stretch:g} steps here"
            code, lines = RATE, ("check the control rate that the policy was trained at (LIBERO: 20 Hz)",)
        else:
            word = "later" if output.lag > 0 else "earlier"
            told = f"actions fit the demonstrated ones {abs(output.lag)} steps {word} best"
            cause = f"actions come {abs(output.lag)} steps too {'early' if output.lag > 0 else 'late'}"
            code, lines = LAG, ("check which actions of a chunk are executed, and that observations are the latest",)
        numbers = {"lag": float(output.lag), "stretch": output.stretch, "gain": gain.value}
        finding = DoctorFinding(code, cause, f"{told} (correlation {gain.value:+.2f})", _sure(gain), lines, numbers)
        found.append((gain.value * 2, finding))
    for each in output.mended:
        better = each.apply(pairs)
        gain = gain_of(as_executed(better), as_executed(pairs), search.generator, each.dimensions)
        told = (
            f"with {each.name}, {gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] more of the variance of "
            f"{len(each.dimensions)} dimensions is explained"
        )
        cause = f"actions fit with {each.name}"
        numbers = {**each.numbers, "gain": gain.value, "low": gain.low, "high": gain.high}
        mend = tuple(line for one in _as_answered([each], search.policy, protocol) for line in one.lines)
        # Another scale of some dimensions is what another table does, too.
        alternatives = (OTHER_TABLE,) if "least_factor" in each.numbers else ()
        if alternatives:
            told += f"; the factor is between {each.numbers['least_factor']:.3g} and {each.numbers['most_factor']:.3g}"
            told += f"; another table of normalisation ({OTHER_TABLE}) looks the same: --action-stats tries tables"
        sure = "certain" if _is_told_by_values(each, pairs) else _sure(gain)
        finding = DoctorFinding(each.code, cause, told, sure, mend, numbers, alternatives)
        found.append((gain.value * len(each.dimensions) / 7, finding))
        pairs = better
    if not any(each.dimensions == (6,) for each in output.mended):
        found += rarely_closes(pairs, search.generator)
    found += _long_chunk(search, answers, output)
    return found


def rarely_closes(pairs: Pairs, generator: np.random.Generator) -> list[tuple[float, DoctorFinding]]:
    """Return a finding if the gripper closes in less than half of the steps in which it should, in 39 of 40 draws."""
    closes = np.column_stack([pairs.answered[:, 6], pairs.shown[:, 6]]) > 0
    closed, wanted = map(float, closes.mean(axis=0))
    sums = np.zeros((pairs.blocks, 2))
    np.add.at(sums, pairs.block, closes)
    drawn = generator.multinomial(pairs.blocks, np.full(pairs.blocks, 1 / pairs.blocks), size=1000) @ sums
    if wanted < 0.1 or np.quantile(drawn[:, 0] - 0.5 * drawn[:, 1], 0.975) > 0:
        return []
    told = f"it closes in {closed:.0%} of the steps, the demonstrations in {wanted:.0%}"
    lines = ("check the gripper's threshold, and that its value reaches the suite",)
    numbers = {"closed": closed, "demonstrated": wanted}
    sure = "likely" if closed else "certain"
    return [(0.3, DoctorFinding(RARELY_CLOSES, "the gripper closes too rarely", told, sure, lines, numbers))]


def _long_chunk(search: _Search, answers: WindowAnswers, output: Output) -> list[tuple[float, DoctorFinding]]:
    """Compare the first and the second half of the steps of a chunk that are executed."""
    if search.steps < 6:
        return []
    pairs = output.pairs(answers, search.steps)
    half = search.steps // 2
    early, late = (as_executed(_rows(pairs, chosen)) for chosen in (pairs.place < half, pairs.place >= half))
    gain = gain_of(early, late, search.generator)
    if gain.low <= 0 or gain.value < 0.15:
        return []
    told = f"the first {half} actions of a chunk explain {score(early):.0%}, the later ones {score(late):.0%}"
    finding = DoctorFinding(
        LONG_CHUNK,
        f"{search.steps} steps of each chunk are executed, and the later ones do not fit",
        told,
        _sure(gain),
        (f"--vla-replan={half}",),
        {"early": score(early), "late": score(late)},
    )
    return [(gain.value, finding)]


def _rows(pairs: Pairs, chosen: NDArray[np.bool_]) -> Pairs:
    parts = {name: getattr(pairs, name)[chosen] for name in ("answered", "shown", "block", "place", "poses")}
    return replace(pairs, **parts)


def _sure(gain: Gain) -> str:
    return "certain" if gain.low > 0.1 else "likely" if gain.low > 0 else "possible"


# What goes in.


_DOUBTED = ("VLA-D011", "VLA-D016", OTHER_WORDING)
"""Codes of wirings that are many, or of which little is expected: one of them gains a little by chance."""


def _best_input(
    search: _Search,
    chosen: Sequence[Wiring],
    answers: WindowAnswers,
    output: Output,
    reads: Sequence[str],
    blind: set[str],
    has_language: bool | None,
) -> tuple[Wiring, Gain, WindowAnswers] | None:
    """Return the wiring of inputs that gains most on top of those chosen, or None if none gains enough."""
    size = len(search.windows[0].shown[0].get(STATE, ()))
    candidates = picture_wirings(name for name in reads if name not in blind)
    candidates += state_wirings((name for name in reads if name not in blind), size)
    candidates += prompt_wirings() if "language" not in blind and has_language else []
    # What was mended is not mended again, as each round takes a minute of a slow policy.
    parts = {each.code[:-1] for each in chosen}
    candidates = [each for each in candidates if each.code[:-1] not in parts]
    # Nor is what was clearly worse tried again.
    candidates = [each for each in candidates if not (chosen and search.was_worse(each))]

    everywhere, some = range(len(search.windows)), sorted(_screen(search.windows))
    # What is clearly worse along half of the screen is not asked along the rest; but a batch is not taken apart.
    half = some[: len(some) // 2] if asked_together(search.policy) < len(some) else []
    bases = {
        len(each): _best_fit(search, _of_windows(answers, each), output) for each in (half, some, everywhere) if each
    }

    under = tuple(each.name for each in chosen)

    def tried(
        each: Wiring, places: Sequence[int], known: dict[int, tuple[Array, ...]]
    ) -> tuple[WindowAnswers, ActionFit, Gain] | None:
        """Ask along those windows along which it is not known what is answered, and compare all of `places`."""
        new = [at for at in places if at not in known]
        try:
            asked = search.ask(composed([*chosen, each]), [search.windows[at] for at in new])
        except EpisodeError as error:
            search.tried[each.name] = Tried(each.code, each.name, None, refused=error.message, under=under)
            return None
        known.update(zip(new, asked.chunks, strict=True))
        found = WindowAnswers(tuple(search.windows[at] for at in places), tuple(known[at] for at in places))
        fit = _best_fit(search, found, output)
        gain = gain_of(fit, bases[len(places)], search.generator)
        questions = sum(len(window.rows) for window in found.windows)
        search.tried[each.name] = Tried(each.code, each.name, gain.value, gain.low, gain.high, questions, under=under)
        return found, fit, gain

    scored: list[tuple[float, int, dict[int, tuple[Array, ...]]]] = []
    for number, each in enumerate(candidates):
        search.told(f"trying {each.name} ({number + 1} of {len(candidates)})")
        known: dict[int, tuple[Array, ...]] = {}
        result = tried(each, half, known) if half else None
        # Nor what changes no answer.
        if half and (result is None or result[2].high < 0 or result[2].low == result[2].high == 0):
            continue
        result = tried(each, some, known)
        if result is not None and result[2].value > 0:
            scored.append((result[2].value, number, known))
    scored.sort(key=lambda one: one[:2], reverse=True)
    finalists = []
    for screened, number, known in scored[:_FINALISTS]:
        if screened < _AS_GOOD / 2 * scored[0][0]:
            break
        # Where answers are drawn, those of the screen were lucky.
        result = tried(candidates[number], everywhere, {} if search.draws else known)
        if result is None:
            continue
        is_doubted, gain = candidates[number].code in _DOUBTED, result[2]
        if (gain.low if is_doubted else gain.likely) > 0 and gain.value > _LEAST_GAIN * (1 + is_doubted):
            finalists.append((result[2], number, result[0], result[1]))
    if not finalists:
        return None
    best = max(finalists, key=lambda each: each[0].value)
    # Of those that cannot be told apart from the best, the first of the list is the plainest.
    equal = [each for each in finalists if _is_as_good(each, best, search)]
    gain, number, found, _ = min(equal, key=lambda each: each[1])
    wiring = candidates[number]
    if len(equal) > 1:
        search.same[wiring.name] = tuple(candidates[each[1]] for each in equal if each[1] != number)
    if search.draws:
        # The best of many wirings is best by luck, too, where answers are drawn: it has to be so once more.
        search.told(f"asking once more: {wiring.name}")
        before, found = search.ask(composed(chosen)), search.ask(composed([*chosen, wiring]))
        better, worse = (_best_fit(search, each, output) for each in (found, before))
        gain = gain_of(better, worse, search.generator)
        if gain.low <= 0 or gain.value <= _LEAST_GAIN:
            return None
    return wiring, gain, found


def _is_as_good(
    one: tuple[Gain, int, WindowAnswers, ActionFit], best: tuple[Gain, int, WindowAnswers, ActionFit], search: _Search
) -> bool:
    """Whether the demonstrations cannot tell a wiring apart from the best one."""
    return one[0].value >= _AS_GOOD * best[0].value and gain_of(best[3], one[3], search.generator).low <= 0


_AS_GOOD = 0.9
"""The share of the best wiring's gain from which another one may be as good."""


def _best_fit(search: _Search, answers: WindowAnswers, output: Output) -> ActionFit:
    """Return the best fit of answers: changes of actions that were found with wrong inputs may be wrong themselves."""
    ways = (output, Output(), _mended(Output(), answers, search, None))
    return max((closeness(each.pairs(answers, search.steps)) for each in ways), key=score)


def _screen(windows: Sequence[DemonstrationWindow]) -> list[int]:
    """Return the numbers of windows with `_SCREEN_QUESTIONS` questions at least, the shortest first."""
    found, asked = [], 0
    for number in sorted(range(len(windows)), key=lambda each: len(windows[each].rows)):
        found.append(number)
        asked += len(windows[number].rows)
        if asked >= _SCREEN_QUESTIONS:
            break
    return found


def _of_windows(answers: WindowAnswers, some: Sequence[int]) -> WindowAnswers:
    return WindowAnswers(tuple(answers.windows[at] for at in some), tuple(answers.chunks[at] for at in some))


def _without_first(answers: WindowAnswers, counts: Sequence[int]) -> WindowAnswers:
    """Return the answers without so many first ones of each window."""
    windows = (
        replace(each, rows=each.rows[count:], shown=each.shown[count:])
        for each, count in zip(answers.windows, counts, strict=True)
    )
    return WindowAnswers(
        tuple(windows), tuple(chunks[count:] for chunks, count in zip(answers.chunks, counts, strict=True))
    )


def _told_otherwise(windows: Sequence[DemonstrationWindow], instructions: Sequence[str]) -> list[DemonstrationWindow]:
    return [replace(each, instruction=text) for each, text in zip(windows, instructions, strict=True)]


def _of_input(wiring: Wiring, gain: Gain, search: _Search) -> DoctorFinding:
    told = (
        f"with {wiring.name}, the policy's actions come closer to the demonstrated ones: "
        f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] of their mean deviation"
    )
    same = search.same.get(wiring.name, ())
    if same:
        others = " or ".join(f"{each.name} ({each.code})" for each in same)
        told += f"; these demonstrations cannot tell it apart from {others}"
    numbers = {"gain": gain.value, "low": gain.low, "high": gain.high}
    # Blocks of few demonstrations are much alike, and their bootstrap is too sure.
    sure = _sure(gain) if len(search.windows) >= _FEW else "possible"
    alternatives = tuple(dict.fromkeys(each.code for each in same if each.code != wiring.code))
    cause = f"it fits with {wiring.name}"
    return DoctorFinding(wiring.code, cause, told, sure, wiring.lines, numbers, alternatives)


# Inputs without effect.


@dataclass(frozen=True)
class _Ignored:
    numbers_of: str
    finding: DoctorFinding


def _ignored(
    search: _Search, reads: Sequence[str], has_language: bool | None, under: Wiring | None = None
) -> Iterable[_Ignored]:
    """Yield what has no effect on any answer though the policy reads it. That is exact, and needs few questions."""
    windows = _first_questions(search)
    wired = [] if under is None else [under]
    before = ask_values(search, composed(wired), windows)

    def acts(wiring: Wiring) -> bool:
        try:
            return bool(np.abs(ask_values(search, composed([*wired, wiring]), windows) - before).max() > 1e-9)
        except (EpisodeError, ValueError):
            return True

    for camera in (SCENE, WRIST):
        if camera in reads and not acts(Wiring("", "", (), changed(camera, _noise(search.generator)))):
            told = f"answers are the same for any picture in {camera}"
            lines = (f"check that {camera} reaches the network under the right name, as uint8 from 0 to 255",)
            finding = DoctorFinding(NO_CAMERA, f"{CAMERAS[camera]} has no effect", told, "certain", lines)
            yield _Ignored(camera, finding)
    if STATE in reads:
        if not acts(Wiring("", "", (), changed(STATE, lambda state: state + 0.05))):
            other = next((name for name in _VECTORS if name in reads and acts(_moved(name))), None)
            if other is not None:
                told = f"answers do not depend on the state, but on {other}"
                lines = (f'give seen["{STATE}"] to the network, and not seen["{other}"]',)
                yield _Ignored(
                    STATE, DoctorFinding(OTHER_INPUT, f"{other} is shown in place of the state", told, "certain", lines)
                )
            else:
                told = "answers are the same for any state"
                lines = (f'check that seen["{STATE}"] reaches the network',)
                yield _Ignored(STATE, DoctorFinding(NO_STATE, "the state has no effect", told, "certain", lines))
        else:
            size = len(search.windows[0].shown[0][STATE])
            parts = [at for at in range(size) if not acts(Wiring("", "", (), changed(STATE, _one_moved(at))))]
            # Of a whole pose, another one may be shown in its place.
            other = next((name for name in _POSES if acts(_moved(name))), None) if {*range(6)} <= {*parts} else None
            if other is not None:
                told = f"answers do not depend on the state's pose, but on {other}"
                lines = (f'give seen["{STATE}"][:6] to the network, and not seen["{other}"]',)
                cause = f"{other} is shown in place of the state's pose"
                yield _Ignored(STATE, DoctorFinding(OTHER_INPUT, cause, told, "certain", lines))
            elif parts:
                listed = ", ".join(f"state[{at}]" for at in parts)
                told = f"answers are the same for any value of {listed}"
                lines = (f"check that all {size} values of the state reach the network",)
                code = NO_STATE if len(parts) == size else NO_FINGER
                yield _Ignored("", DoctorFinding(code, f"{listed} has no effect", told, "certain", lines))
    if has_language and not acts(Wiring("", "", (), tell=lambda told: _other_text(search.windows, told))):
        told = "answers are the same for another task's instruction"
        lines = ("check that episode.instruction reaches the network, with the words that it was trained with",)
        finding = DoctorFinding(NO_LANGUAGE, "the instruction has no effect", told, "certain", lines)
        yield _Ignored("language", finding)


def degradations(
    answers: Callable[[Wiring], Array], cameras: Sequence[str], generator: np.random.Generator
) -> list[DoctorFinding]:
    """Return how pictures are degraded on their way to a policy: what is lost already cannot be lost once more.

    Args:
        answers: the policy's to some questions under a wiring, as one vector (v,).
        cameras: names of pictures that it reads.
        generator: draws noise, beside whose effect another one is small.
    """

    def moved_by(change: Callable[[Array], Array]) -> float:
        def see(seen: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {**seen, **{name: change(seen[name]) for name in cameras if name in seen}}

        try:
            after = answers(Wiring("", "", (), see))
        except (EpisodeError, ValueError):
            return float("inf")
        return float(np.abs(after - before).mean()) if after.shape == before.shape else float("inf")

    before = answers(composed([]))
    # If answers do not depend on pictures at all, that is another finding.
    most = moved_by(_noise(generator))
    for code, cause, line, change in _DEGRADATIONS:
        if most > 1e-9 and (share := moved_by(change) / most) < _LOST:
            told = f"if pictures are made so once more, answers change by {share:.1%} of what they change by noise"
            return [DoctorFinding(code, cause, told, "likely", (line,), {"changed": share})]
    return []


def _first_questions(search: _Search) -> list[DemonstrationWindow]:
    """Return a few questions: enough for what is exact."""
    some = _screen(search.windows)[:2]
    return [
        replace(search.windows[at], rows=search.windows[at].rows[:6], shown=search.windows[at].shown[:6]) for at in some
    ]


_LOST = 0.02
"""The share of the effect of noise below which a degradation of pictures changes no answers."""


def _saturated(picture: Array) -> Array:
    return np.minimum(picture.astype(np.float64) * 255, 255).astype(picture.dtype)


def _coarse(picture: Array) -> Array:
    """Return a picture (h, w, 3) at an eighth of its size, enlarged again."""
    height, width = (max(length // 8, 1) for length in picture.shape[:2])
    rows, columns = (np.arange(n) * few // n for n, few in zip(picture.shape, (height, width), strict=False))
    sums, counts = np.zeros((height, width, 3)), np.zeros((height, width, 1))
    np.add.at(sums, (rows[:, None], columns), picture)
    np.add.at(counts, (rows[:, None], columns), 1)
    return np.asarray(np.rint(sums / counts)[rows[:, None], columns].astype(picture.dtype))


_DEGRADATIONS: Sequence[tuple[str, str, str, Callable[[Array], Array]]] = (
    (
        "VLA-D015",
        "pictures are saturated on their way: white wherever they are not black",
        "check that pictures are divided by 255 before the network, and not multiplied",
        _saturated,
    ),
    (
        "VLA-D016",
        "pictures lose their detail on their way: they are made smaller to about an eighth, and enlarged again",
        "check the size that pictures are rendered at, and each resize",
        _coarse,
    ),
)
"""How pictures may be degraded: code, cause, what to do, and a function that does it."""


def _without_effect(name: str) -> str:
    about = CAMERAS.get(name, f"the {name}")
    return f"answers do not depend on {about}: if the policy was trained with it, it does not reach the network"


def _reads_language(search: _Search) -> bool:
    return _differ(search, composed([]), Wiring("", "", (), tell=lambda told: _other_text(search.windows, told)))


def _differ(search: _Search, one: Wiring, other: Wiring) -> bool:
    """Whether answers to some questions differ between two wirings; or twice under one, if they are drawn anew."""
    windows = [replace(each, rows=each.rows[:2], shown=each.shown[:2]) for each in search.windows[:2]]
    return not np.array_equal(ask_values(search, one, windows), ask_values(search, other, windows))


_POSES = ("robot0_eef_pos", "controller_pos")
_VECTORS = ("robot0_joint_pos", "robot0_eef_pos", "robot0_eef_quat", "controller_pos", "controller_mat")


def _moved(name: str) -> Wiring:
    return Wiring("", "", (), changed(name, lambda values: values + 0.05))


def _one_moved(at: int) -> Callable[[Array], Array]:
    def move(state: Array) -> Array:
        state = state.copy()
        state[at] += 0.02
        return state

    return move


def _noise(generator: np.random.Generator) -> Callable[[Array], Array]:
    return lambda picture: generator.integers(0, 256, picture.shape).astype(picture.dtype)


def _other_text(windows: Sequence[DemonstrationWindow], told: str) -> str:
    return next((each.instruction for each in windows if each.instruction != told), "open the door")


def ask_values(search: _Search, wiring: Wiring, windows: Sequence[DemonstrationWindow]) -> Array:
    """Return all values of the answers, (v,)."""
    return np.concatenate([chunk.ravel() for chunks in search.ask(wiring, windows).chunks for chunk in chunks])


def _other_task(
    search: _Search, chosen: Sequence[Wiring], answers: WindowAnswers, output: Output
) -> tuple[float, DoctorFinding, WindowAnswers] | None:
    """Return a finding and better answers if other tasks' instructions fit better, one for each demonstration."""
    texts = list(dict.fromkeys(each.instruction for each in search.windows))
    if len(texts) < 2 or score(as_executed(answers.pairs(search.steps)), range(6)) > _FITS_WELL:
        return None
    # Chosen by the first questions of each demonstration and judged by the others: the best of many texts is best by
    # luck, too.
    begins = [max(min(max(len(each.rows) // 4, 2), len(each.rows) - 1), 1) for each in search.windows]
    if all(count >= len(each.rows) for count, each in zip(begins, search.windows, strict=True)):
        return None
    windows = [
        replace(each, rows=each.rows[:count], shown=each.shown[:count])
        for each, count in zip(search.windows, begins, strict=True)
    ]
    others = [
        [texts[(texts.index(each.instruction) + shift) % len(texts)] for each in windows] for shift in range(len(texts))
    ]

    def errors(places: Sequence[int], chunks: Sequence[Sequence[Array]]) -> list[float]:
        found = []
        for at, some in zip(places, chunks, strict=True):
            pairs = WindowAnswers((windows[at],), (tuple(some),)).pairs(search.steps)
            found.append(float(((np.clip(pairs.answered, -1, 1) - pairs.shown)[:, :6] ** 2).mean()))
        return found

    best, picked = [each.instruction for each in windows], 0
    # Where other texts do not fit better along every second demonstration, the rest is not asked.
    for places, least in ((range(0, len(windows), 2), 0.4), (range(1, len(windows), 2), 0.6)):
        everyone = [errors(places, [answers.chunks[at][: begins[at]] for at in places])]
        for shift, instructions in enumerate(others[1:], 1):
            search.told(f"trying other tasks' instructions ({shift} of {len(texts) - 1})")
            told = _told_otherwise([windows[at] for at in places], [instructions[at] for at in places])
            everyone.append(errors(places, search.ask(composed(chosen), told).chunks))
        for at, those in zip(places, zip(*everyone, strict=True), strict=True):
            number = int(np.argmin(those))
            picked += number > 0 and those[number] < 0.8 * those[0]
            best[at] = others[number][at]
        if picked < least * (len(windows) if places.start else len(places)):
            return None
    asked = search.ask(composed(chosen), _told_otherwise(search.windows, best))
    found = WindowAnswers(tuple(search.windows), asked.chunks)
    current = _best_fit(search, _without_first(answers, begins), output)
    gain = gain_of(_best_fit(search, _without_first(found, begins), output), current, search.generator)
    if gain.low <= 0 or gain.value < 0.1:
        return None
    told_text = (
        f"for {picked} of {len(search.windows)} demonstrations another task's instruction fits better: "
        f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] of the demonstrated actions' mean deviation"
    )
    lines = ("check the order of tasks and instructions",)
    cause, numbers = "the policy is told another task's instruction", {"gain": gain.value}
    return gain.value, DoctorFinding(OTHER_TASK, cause, told_text, _sure(gain), lines, numbers), found


_FITS_WELL = 0.7


def _some_tasks(
    search: _Search, pairs: Pairs, findings: Sequence[DoctorFinding], notes: list[str]
) -> list[DoctorFinding]:
    """Return a finding if some demonstrations are known well and others not at all, and nothing else explains it."""
    if findings:
        return []
    fit, at = as_executed(pairs), 0
    weights = {each.instruction: np.zeros(pairs.blocks) for each in search.windows}
    for window in search.windows:
        blocks = -(-len(window.rows) // BLOCK)
        weights[window.instruction][at : at + blocks] = 1
        at += blocks
    # A task whose dimensions do not move says nothing; of few questions, a low share is chance.
    shares = {name: mean_of(fit.by_dimension(some)) for name, some in weights.items()}
    low = [name for name, share in shares.items() if share < 0.1]
    unknown = [name for name in low if _most(fit, weights[name], search) < KNOWN]
    if not low or not any(share >= 0.5 for share in shares.values()):
        return []
    if not unknown:
        notes.append(
            f"along few questions its actions explain less than 10% of {', '.join(low)}: more demonstrations "
            f"(--demo-count={3 * len(shares)}) tell whether it knows these tasks"
        )
        return []
    told = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
    lines = ("check that the checkpoint was trained on these tasks",)
    return [DoctorFinding(SOME_TASKS, f"it does not know {', '.join(unknown)}", told, "possible", lines)]


def _most(fit: ActionFit, some: Array, search: _Search) -> float:
    """Return the upper end of the 95% interval of what is explained in some blocks; infinite of fewer than six."""
    count = int(some.sum())
    if count < 6:
        return float("inf")
    drawn = np.zeros((1000, len(some)))
    drawn[:, some > 0] = search.generator.multinomial(count, np.full(count, 1 / count), size=1000)
    return float(np.nanquantile(means_of(fit.by_dimension(drawn)), 0.975))
