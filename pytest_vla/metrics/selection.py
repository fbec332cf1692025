"""Which records count where several runs, versions and tests are reported together."""

from collections.abc import Hashable, Iterable, Sequence

from pytest_vla.records import Record


def by_model(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """The records of each policy in each suite, in the order in which they come."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        grouped.setdefault((record.policy, record.suite), []).append(record)
    return grouped


def that_count(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """The records that count, and what was left out, and why.

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
    last = {(record.case, record.seeds.get("run")): record for record in records}
    if number := len(records) - len(last):
        left_out.append(f"{counted(number, 'episode')} that a later one of the same case and run seed replaces")
    if len({record.policy_digest for record in last.values()} - {None}) > 1:
        left_out.append("these records are of more than one version of the policy's file")
    return tuple(last.values()), tuple(left_out)


def counted(number: int, noun: str) -> str:
    """``1 episode``, ``2 episodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def is_counted(record: Record) -> bool:
    """Whether a rate is made of it: a success or a failure."""
    return record.outcome in ("success", "failure")


def seed_of(record: Record) -> Hashable:
    """What episodes of one task differ in, where nothing else is varied."""
    return record.seed, record.seeds.get("run")
