"""What people say of episodes' quality, in a CSV file: how far two agree, and which metrics go with it."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import Correlation, Discrimination, correlation, discrimination
from pytest_vla.util.files import whole_file

CLASSES = ("low", "medium", "high")
"""Of successes, as arXiv 2507.17049 has them; their ranks are 1, 2 and 3."""

COLUMNS = ("case", "label", "by")
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Label:
    """What one person says of one episode.

    Attributes:
        case: of the episode, `Record.case`.
        label: one of `CLASSES`.
        by: who says so.
    """

    case: str
    label: str
    by: str


def read_labels(file: Path, known: Collection[str]) -> tuple[Label, ...]:
    """The labels of a file; of a case that one person labelled twice the last.

    Args:
        file: CSV with the columns of `COLUMNS`; further ones are left alone.
        known: the cases that there are.

    Raises:
        VlaError: the file cannot be read, lacks a column, or a row has another label or a case that is not there.
    """
    mend = f"expected CSV with the columns {', '.join(COLUMNS)}, as `pytest-vla label` writes it"
    try:
        if file.stat().st_size > MOST_BYTES:
            raise VlaError(f"{file} has more than {MOST_BYTES} bytes; {mend}")
        rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline=""))
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise VlaError(f"{file} has no column {', '.join(missing)}; {mend}")
        found: dict[tuple[str, str], Label] = {}
        for row in rows:
            case, label, by = (str(row[name] or "").strip() for name in COLUMNS)
            where = f"{file}, line {rows.line_num}"
            if label not in CLASSES:
                raise VlaError(f"{where}: label {label[:40]!r}, expected one of {', '.join(CLASSES)}")
            if case not in known:
                raise VlaError(
                    f"{where}: there is no episode {case[:120]!r} among these runs: give the runs that were labelled, "
                    "or take the row out"
                )
            found[case, by] = Label(case, label, by)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise VlaError(f"{file}: {error}; {mend}") from error
    return tuple(found.values())


def write_labels(file: Path, labels: Iterable[Label]) -> None:
    """Write the file, whole or not at all. Raises VlaError."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows((each.case, each.label, each.by) for each in labels)
    with whole_file(file) as stream:
        stream.write(text.getvalue().encode())


@dataclass(frozen=True)
class Agreement:
    """How far two people agree.

    Attributes:
        one: who.
        other: who.
        episodes: that both labelled.
        observed: the share of these with the same label.
        kappa: Cohen's (1960, Educational and Psychological Measurement 20, 37-46): 1: always; 0: as by chance. None:
            both always say the same one class, so that chance agrees always too.
    """

    one: str
    other: str
    episodes: int
    observed: float
    kappa: float | None


def agreements(labels: Sequence[Label]) -> tuple[Agreement, ...]:
    """Of every two people who labelled an episode both."""
    people: dict[str, dict[str, str]] = {}
    for each in labels:
        people.setdefault(each.by, {})[each.case] = each.label
    names = sorted(people)
    found = (
        agreement(one, other, people[one], people[other]) for n, one in enumerate(names) for other in names[n + 1 :]
    )
    return tuple(each for each in found if each is not None)


def agreement(one: str, other: str, ones: Mapping[str, str], others: Mapping[str, str]) -> Agreement | None:
    """How far two agree, by their labels of cases; None: there is no case that both labelled."""
    pairs = [(ones[case], others[case]) for case in ones if case in others]
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    by_chance = sum(first[name] * second[name] for name in first) / n**2
    return Agreement(one, other, n, observed, (observed - by_chance) / (1 - by_chance) if by_chance < 1 else None)


@dataclass(frozen=True)
class Labelled:
    """How a metric goes with labels.

    Attributes:
        metric: its name.
        correlation: of the labels' ranks with it, over labelled episodes (the paper's table III); None: of too few, or
            all are alike.
        against_failures: of each class of `CLASSES` the metric beside that of failures (tables V and VII); None: of too
            few.
    """

    metric: str
    correlation: Correlation | None
    against_failures: Mapping[str, Discrimination | None]


def ranks_of(labels: Iterable[Label]) -> dict[str, float]:
    """By case its rank, 1 to 3, the mean of those who labelled it."""
    found: dict[str, list[int]] = {}
    for each in labels:
        found.setdefault(each.case, []).append(CLASSES.index(each.label) + 1)
    return {case: fmean(ranks) for case, ranks in found.items()}


def labelled(metric: str, values: Mapping[str, float], ranks: Mapping[str, float], failed: Collection[str]) -> Labelled:
    """How a metric goes with labels.

    Args:
        metric: its name.
        values: by case, of the episodes that have it.
        ranks: of `ranks_of`; a case belongs to the class that its rank is nearest to.
        failed: the cases that failed.
    """
    told = [case for case in values if case in ranks]
    by_class = {name: [values[case] for case in told if class_of(ranks[case]) == name] for name in CLASSES}
    failures = [values[case] for case in values if case in failed and case not in ranks]
    return Labelled(
        metric,
        correlation([ranks[case] for case in told], [values[case] for case in told]),
        {name: discrimination(some, failures) for name, some in by_class.items()},
    )


def class_of(rank: float) -> str:
    """The class that a mean rank, 1 to 3, is nearest to; the better one between two."""
    return CLASSES[min(int(rank + 0.5), len(CLASSES)) - 1]
