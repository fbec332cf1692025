"""What a few questions show of a policy: whether its answers can be executed, repeat, and belong to their episode.

No world is made: pictures and states are drawn, instructions are the suite's.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.suite import Suite
from pytest_vla.policies import fit
from pytest_vla.policies.base import BatchPolicy, Policy, is_batch_policy, one_by_one, own_number
from pytest_vla.policies.fit import Finding
from pytest_vla.policies.global_seeds import globals_put_back
from pytest_vla.policies.questions import Actions, Script, asking, draw_observation, make_script, play_scripts
from pytest_vla.policies.traits import GRIPPERS, traits_of

Told = Callable[[str], None]
_Play = Callable[..., list[list[Actions]]]

_OTHERS = 3
"""Other instructions, or other pictures, that an answer has to stay the same for, before they count as ignored."""

# How far apart two answers may be and still be the same one: asked alone twice, and asked alone and in a batch, where
# the order of floating-point sums is another.
_AGAIN, _IN_BATCH = 1e-5, 5e-2
_MOST_TOGETHER = 4
_PICTURE = "_image"


@dataclass(frozen=True)
class Latency:
    """How long questions take.

    Attributes:
        batch: questions at once.
        median: seconds.
        slowest: seconds; where a session keeps a queue, the median may be of answers that needed no thought.
        actions: executed a second, by all episodes of the batch together.
        mean: seconds.
        executed: actions of an answer that are, on the average.
    """

    batch: int
    median: float
    slowest: float
    actions: float
    mean: float
    executed: float


def try_policy(
    policy: Policy | BatchPolicy, suite: Suite, *, seed: int = 0, served: bool = False, told: Told = lambda line: None
) -> tuple[Finding, ...]:
    """Ask a policy a few dozen questions, and look at its answers.

    Args:
        policy: not a privileged one, which would miss the world.
        suite: whose instructions, cameras and picture size it is asked with.
        seed: of what it sees.
        served: another process draws its noise, which nobody here can make repeat.
        told: called with what is tried next.

    Returns:
        Findings in the order of `fit.CODES`.

    Raises:
        VlaError: what the policy says of itself cannot be understood.
    """
    with globals_put_back():
        return tuple(sorted(_tried(policy, suite, seed, served, told), key=lambda finding: finding.code))


def measure(
    policy: Policy | BatchPolicy,
    suite: Suite,
    sizes: Sequence[int],
    *,
    seconds: float = 3.0,
    rounds: int = 20,
    told: Told = lambda line: None,
) -> Iterator[Latency]:
    """How long questions take, after a round to warm up; a policy that takes one at a time is asked so.

    Args:
        policy: as for `try_policy`; one that answered.
        suite: as for `try_policy`.
        sizes: questions at once; those beyond what the policy takes are left out.
        seconds: time after which no further round of a size is begun; there are at least three.
        rounds: at most.
        told: called with what is measured next.

    Raises:
        EpisodeError: the policy raises, or gives no actions.
    """
    most = policy.max_batch if is_batch_policy(policy) else 1
    replan = getattr(policy, "replan", None)
    for size in [size for size in sizes if size <= most] or [1]:
        told(f"measuring {size} at once")
        drawn = np.random.default_rng(size)
        scripts = [make_script(suite, number, drawn, questions=1) for number in range(size)]
        times: list[float] = []
        executed = 0
        with asking(policy, scripts, times.append) as ask:
            seen = [script.seen[0] for script in scripts]
            ask(0, seen)
            times.clear()
            while len(times) < 3 or (len(times) < rounds and sum(times) < seconds):
                answers = ask(len(times) + 1, seen)
                executed += sum(min(len(answer), replan or len(answer)) for answer in answers)
        total, answered = sum(times), size * len(times)
        mean = total / len(times)
        yield Latency(size, statistics.median(times), max(times), executed / total, mean, executed / answered)


def _tried(policy: Policy | BatchPolicy, suite: Suite, seed: int, served: bool, told: Told) -> Iterator[Finding]:
    drawn = np.random.default_rng(seed)
    script, other = (make_script(suite, number, drawn) for number in range(2))
    alone = one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)
    everything: list[Actions] = []

    def play(*scripts: Script) -> list[list[Actions]]:
        answers = play_scripts(alone, scripts)
        everything.extend(action for episode in answers for action in episode)
        return answers

    try:
        _check_numbers(policy)
        told("trying what it answers")
        (expected,) = play(script)
        told("trying whether it repeats that")
        if not _same(expected, play(script)[0]):
            yield _not_repeatable(script, play, served)
        else:
            told("trying whether episodes stay apart")
            beside, _ = play(script, other)
            if not _same(expected, beside):
                yield fit.LEAK.found("an episode's answers change where another episode is asked in between")
            elif not _same(expected, play(script)[0]):
                yield fit.LEAK.found("an episode's answers change after another episode")
            elif is_batch_policy(policy) and policy.max_batch > 1:
                told("trying whether batches change answers")
                yield from _batched(policy, suite, drawn, play)
            told("trying what answers depend on")
            yield from _ignored(script, expected[0], suite, drawn, play, traits_of(policy).reads)
    except EpisodeError as error:
        yield _broken(error)
        return
    yield from _seen_in(np.concatenate(everything), suite)


def _check_numbers(policy: object) -> None:
    for name in ("replan", "max_batch"):
        try:
            own_number(policy, name)
        except EpisodeError:
            raise
        except VlaError as error:
            raise EpisodeError("policy-protocol", str(error)) from error


def _not_repeatable(script: Script, play: _Play, served: bool) -> Finding:
    said = "the same questions with the same episode.rng have other answers the next time"
    if served:
        return fit.NOT_REPEATABLE.found(
            said,
            mend="its server draws the noise: give that a seed, or take its success rates for those of one draw",
            severity=fit.WARNING,
        )
    return fit.NOT_REPEATABLE.found(said)


def _batched(policy: BatchPolicy, suite: Suite, drawn: np.random.Generator, play: _Play) -> Iterator[Finding]:
    scripts = [
        make_script(suite, number, drawn, questions=1) for number in range(min(policy.max_batch, _MOST_TOGETHER))
    ]
    alone = [answers[0] for script in scripts for answers in play(script)]
    with asking(policy, scripts) as ask:
        try:
            together = ask(0, [script.seen[0] for script in scripts])
        except EpisodeError as error:
            if error.reason != "policy-raised":
                raise
            yield fit.BATCH.found(
                f"on a batch of {len(scripts)} it raises {error.message}; a run asks such episodes again, each alone, "
                "so that batches cost time",
                mend="mend act for several questions, or set max_batch = 1",
                severity=fit.WARNING,
            )
            return
    for one, other in zip(alone, together, strict=True):
        if not _same([one], [other], _IN_BATCH):
            apart = "of another shape than" if one.shape != other.shape else f"{np.abs(one - other).max():.2g} off"
            yield fit.BATCH.found(f"an answer in a batch of {len(scripts)} is {apart} the one alone")
            return


def _ignored(
    script: Script,
    expected: Actions,
    suite: Suite,
    drawn: np.random.Generator,
    play: _Play,
    reads: Sequence[str] | None,
) -> Iterator[Finding]:
    """Whether the first answer stays the same, whatever the instruction is, and whatever the pictures are.

    Of a policy that `reads` no picture, by its own word, that is as it should be.
    """

    def stays(others: Sequence[Script]) -> bool:
        return all(_same([expected], play(other)[0]) for other in others)

    first = script.seen[0]
    tasks = [task for task in suite.tasks if task.language != script.task.language][:_OTHERS]
    if tasks and stays([Script(task, script.noise, (first,)) for task in tasks]):
        yield fit.IGNORES_INSTRUCTION.found(f"the policy answers the same to {len(tasks) + 1} instructions")
    if reads is not None and not any(name.endswith(_PICTURE) for name in reads):
        return
    others = []
    for _ in range(_OTHERS):
        fresh = draw_observation(drawn, suite.protocol)
        pictures = {name: value for name, value in fresh.items() if name.endswith(_PICTURE)}
        others.append(Script(script.task, script.noise, ({**first, **pictures},)))
    if stays(others):
        yield fit.IGNORES_PICTURES.found(f"the policy answers the same to {_OTHERS + 1} sights that differ in pictures")


def _seen_in(actions: Actions, suite: Suite) -> Iterator[Finding]:
    """What all answers together, (n, 7), show."""
    wild = (np.abs(actions) > 1.0).any(axis=1)
    if wild.any():
        clips = suite.protocol.out_of_range == "clip"
        yield fit.OUT_OF_RANGE.found(
            f"{wild.mean():.0%} of {len(actions)} actions are outside of [-1, 1] ({actions.min():.3g} to "
            f"{actions.max():.3g}), {suite.name} {'clips them' if clips else 'ends such episodes as errors'}",
            severity=fit.WARNING if clips else fit.ERROR,
        )
    # The world looks at its sign only.
    if suite.protocol.vectors:
        # Nobody says which number is a gripper's.
        return
    gripper = actions[:, 6]
    closes, opens = bool((gripper > 0).any()), bool((gripper < 0).any())
    if not (closes and opens):
        does = "only closes" if closes else "only opens" if opens else "does nothing"
        # No negative zeros.
        low, high = gripper.min() + 0.0, gripper.max() + 0.0
        hint = f", as a gripper of {GRIPPERS[2]!r} or the opposite would" if 0 <= low < high <= 1 else ""
        yield fit.CONSTANT_GRIPPER.found(f"the gripper {does}: {low:.3g} to {high:.3g} in {len(gripper)} actions{hint}")


def _broken(error: EpisodeError) -> Finding:
    code = {"policy-shape": fit.ANSWER, "policy-dtype": fit.ANSWER, "policy-nan": fit.NOT_FINITE}.get(error.reason)
    return fit.RAISES.found(str(error)) if code is None else code.found(error.message)


def _same(one: Sequence[Actions], other: Sequence[Actions], tolerance: float = _AGAIN) -> bool:
    return all(
        first.shape == second.shape and np.allclose(first, second, rtol=tolerance, atol=tolerance)
        for first, second in zip(one, other, strict=True)
    )
