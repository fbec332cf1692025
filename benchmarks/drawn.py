"""tiny with a head that draws: what is executed is one sample by dropout, so another run seed gives other episodes.

For a gate of paired run seeds: ``pytest --vla-suite=tabletop --vla-model='benchmarks.drawn:policy?' --vla-run-seed=1``,
``pytest-vla baseline save -o one.vla.json``, and the same with ``--vla-run-seed=2 --vla-baseline=one.vla.json``.
"""

import dataclasses
from collections.abc import Sequence

from pytest_vla.policies.base import Answer, Episode, Observation
from pytest_vla.policies.tiny.policy import TinyPolicy, TinySession
from pytest_vla.policies.tiny.weights import load_shipped


class Drawn:
    """tiny, asked for one sample, which is what is executed."""

    def __init__(self) -> None:
        self._tiny = TinyPolicy(load_shipped(""))
        self.max_batch, self.reads, self.replan = self._tiny.max_batch, self._tiny.reads, self._tiny.replan
        self.traits = self._tiny.traits

    def begin(self, episode: Episode) -> TinySession:
        return self._tiny.begin(dataclasses.replace(episode, wishes=dataclasses.replace(episode.wishes, samples=1)))

    def act(self, sessions: Sequence[TinySession], observations: Sequence[Observation]) -> list[Answer]:
        found = []
        for session, answer in zip(sessions, self._tiny.act(sessions, observations), strict=True):
            assert answer.samples is not None, "one was wished for"
            chunk = answer.samples[0]
            # The next question is told what was commanded, which is the sample.
            session.gripper = float(chunk[session.steps - 1, 6])
            found.append(Answer(chunk))
        return found


def policy() -> Drawn:
    """For ``--vla-model='benchmarks.drawn:policy?'``, started in the checkout."""
    return Drawn()
