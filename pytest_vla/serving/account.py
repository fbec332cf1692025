"""What a desk has seen of a run, kept as it goes."""

from pytest_vla.serving.dispatch import Dispatch
from pytest_vla.serving.seen import Seen

_TOLD = 64  # Times of thinking.
_FORGETS = 0.1


class Account:
    """Counts. All times in seconds.

    Attributes:
        episodes: sessions that have ended.
        workers: that are connected.
    """

    def __init__(self, rule: Dispatch, cores: int) -> None:
        """`rule` keeps the times of thinking; `cores`: that workers share; 0: not known."""
        self._rule, self._cores = rule, cores
        self.episodes = self.workers = 0
        self._since: float | None = None
        self._busy = self._waited = 0.0
        self._questions = 0
        self._calls: dict[int, tuple[int, float]] = {}

    def began(self, now: float) -> None:
        """A question has come."""
        if self._since is None:
            self._since = now

    def asked(self, size: int, waited: float) -> None:
        """A batch goes, whose questions waited so long, all together."""
        self._questions += size
        self._waited += waited

    def took(self, size: int, busy: float, seconds: float) -> None:
        """A call of the policy took `busy`, and with the way there and back `seconds`."""
        self._busy += busy
        count, mean = self._calls.get(size, (0, seconds))
        self._calls[size] = (count + 1, mean + (seconds - mean) * max(_FORGETS, 1 / (count + 1)))

    def seen(self, now: float) -> Seen:
        """All of it."""
        return Seen(
            seconds=0.0 if self._since is None else now - self._since,
            busy=self._busy,
            questions=self._questions,
            calls=dict(self._calls),
            waited=self._waited,
            thinking=tuple(self._rule.thinking)[-_TOLD:],
            away=tuple(self._rule.away)[-_TOLD:],
            episodes=self.episodes,
            workers=self.workers,
            cores=self._cores,
        )
