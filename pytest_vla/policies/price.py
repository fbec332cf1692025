"""What a policy's further answers cost: questions of a trial with and without what metrics wish for, in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import cast

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.plan.suite import Suite
from pytest_vla.policies.base import (
    NO_WISHES,
    BatchPolicy,
    Episode,
    Policy,
    Session,
    Wishes,
    is_batch_policy,
    one_by_one,
)
from pytest_vla.policies.global_seeds import globals_put_back, seed_globals
from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.questions import Script, make_script
from pytest_vla.policies.session import ask_session, begin_session, close_session, own_replan
from pytest_vla.policies.view import policy_view

ROUNDS = 6
"""Questions of each kind that are timed, after one to warm up."""

SAMPLES, TOKENS = "samples", "token probabilities"


@dataclass(frozen=True)
class Price:
    """What one wish costs; builtin types only, since workers send it.

    Attributes:
        wish: `SAMPLES` or `TOKENS`.
        without: s, of each question without the wish.
        beside: s, of each with it, in the same round.
        steps: control steps that an answer is executed for.
    """

    wish: str
    without: tuple[float, ...]
    beside: tuple[float, ...]
    steps: int

    @property
    def extra(self) -> tuple[float, ...]:
        """s a control step that each round with the wish took longer."""
        return tuple((b - a) / self.steps for a, b in zip(self.without, self.beside, strict=True))


def price_of(
    policy: Policy | BatchPolicy,
    suite: Suite,
    wishes: Wishes,
    replan: int | None = None,
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = perf_counter,
) -> tuple[Price, ...]:
    """What each wish costs a policy, asked alone; empty where none is wished for.

    Sessions of its own are begun and closed, and what is seen is drawn, so that no episode is touched. In each round
    every kind of question is asked once, so that what else the machine does hits all alike.

    Args:
        policy: not a privileged one, which would miss the world.
        suite: whose pictures it is shown.
        wishes: of the run.
        replan: steps of a chunk that are executed; None: as many as the policy says, or all.
        rounds: 2 or more.
        clock: gives seconds.

    Raises:
        VlaError: the policy raises, or answers something else; its episodes tell more.
    """
    if rounds < 2:
        raise VlaError(f"{rounds} rounds: expected 2 or more, for a standard deviation")
    kinds = {SAMPLES: Wishes(samples=wishes.samples), TOKENS: Wishes(token_probabilities=wishes.token_probabilities)}
    kinds = {name: each for name, each in kinds.items() if each != NO_WISHES}
    if not kinds:
        return ()
    alone = one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)
    script = make_script(suite, 0, np.random.default_rng(0), questions=1)
    times: dict[str, list[float]] = {"": [], **{name: [] for name in kinds}}
    with globals_put_back():
        sessions = {name: _begun(alone, script, kinds.get(name, NO_WISHES)) for name in times}
        try:
            steps = _executed(alone, sessions[""], script, replan, clock)
            for number in range(rounds + 1):
                for name, session in sessions.items():
                    took, _ = _asked(session, script, clock)
                    if number:
                        times[name].append(took)
        finally:
            for session in sessions.values():
                close_session(session)
    return tuple(Price(name, tuple(times[""]), tuple(times[name]), steps) for name in kinds)


def _begun(policy: Policy, script: Script, wishes: Wishes) -> Session:
    task = script.task
    noise = noise_generator(0, "price")
    size = task.protocol.action_size
    episode = Episode("price", task.suite, task.name, task.language, 0, noise, wishes, action_size=size)
    seed_globals([noise])
    return begin_session(policy, episode)


def _executed(policy: Policy, session: Session, script: Script, replan: int | None, clock: Callable[[], float]) -> int:
    _, length = _asked(session, script, clock)
    return min(replan or own_replan(policy) or length, length)


def _asked(session: Session, script: Script, clock: Callable[[], float]) -> tuple[float, int]:
    """Seconds that an answer took, and how many actions it has."""
    # Copies: a policy may write into what it is given.
    view = policy_view({name: value.copy() for name, value in script.seen[0].items()}, "none")
    seed_globals([noise_generator(0, "price")])
    start = clock()
    answer = ask_session(session, view, script.task.protocol.action_size)
    return clock() - start, len(answer.actions)


def price_table(prices: Sequence[Price]) -> list[tuple[str, tuple[float, ...], tuple[float, ...], int]]:
    """Prices as builtin types, for another process; `read_prices` reads them."""
    return [(each.wish, each.without, each.beside, each.steps) for each in prices]


def read_prices(table: Sequence[Sequence[object]]) -> tuple[Price, ...]:
    """Prices of `price_table`."""
    return tuple(
        Price(str(wish), tuple(cast("Sequence[float]", a)), tuple(cast("Sequence[float]", b)), int(cast("int", steps)))
        for wish, a, b, steps in table
    )
