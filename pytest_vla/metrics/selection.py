"""Which records count where several runs, versions and tests are reported together."""

from collections.abc import Hashable, Iterable, Sequence

from pytest_vla.records import Record
from pytest_vla.variation import OURS


def by_model(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """The records of each policy in each suite: policies in the order in which they come, suites by name."""
    grouped: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        grouped.setdefault(record.policy, {}).setdefault(record.suite, []).append(record)
    return {(policy, suite): suites[suite] for policy, suites in grouped.items() for suite in sorted(suites)}


def that_count(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """The records that count, by case and run seed, and what was left out, and why.

    They are not in the order in which episodes happened to end: intervals by resamples go by it.

    Of one case with the same run seed the last one counts; tests of the user's count where no suite's own item ran
    under a variation.

    Args:
        records: of one model in one suite, the oldest first.
    """
    left_out = []
    own = [record for record in records if not record.of_suite]
    if any(record.of_suite and record.variation for record in records):
        if number := len(own):
            left_out.append(f"{counted(number, 'episode')} of your own tests, beside the suite's own items")
        records = [record for record in records if record.of_suite]
    last = {run_of(record): record for record in records}
    if number := len(records) - len(last):
        left_out.append(f"{counted(number, 'episode')} that a later one of the same case and run seed replaces")
    if len({record.policy_digest for record in last.values()} - {None}) > 1:
        left_out.append("these records are of more than one version of the policy's file")
    return tuple(last[each] for each in sorted(last)), tuple(left_out)


def counted(number: int, noun: str) -> str:
    """``1 episode``, ``2 episodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def is_counted(record: Record) -> bool:
    """Whether a rate is made of it: a success or a failure."""
    return record.outcome in ("success", "failure")


def run_of(record: Record) -> tuple[str, int]:
    """The case and the run seed, which an episode has for itself; imported logs say of none, and have 0."""
    return record.case, _run_seed(record)


def twin_of(record: Record) -> tuple[str, int]:
    """`run_of` the benign twin of a varied episode, which is of the same run seed."""
    return str(record.twin), _run_seed(record)


def seed_of(record: Record) -> Hashable:
    """What episodes of one task differ in, where nothing else is varied."""
    return record.seed, _run_seed(record)


def protocol_of(record: Record) -> str:
    """Whether it was run as the paper or as upstream's code has it, where a suite has both; else empty.

    Empty, too, where the name of its kind says so, as that of `language.words_paper`: nothing is mixed then.
    """
    name = str((record.variation.get("parameters") or {}).get("protocol") or "")
    said = name == OURS or str(record.variation.get("kind")).endswith(f"_{name}")
    return "" if said else name


def _run_seed(record: Record) -> int:
    return int(record.seeds.get("run") or 0)
