"""Human labels of episodes' quality, from a CSV file: agreement between people, and metrics that match the labels."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import Correlation, Discrimination, Sign, correlation, discrimination
from pytest_vla.metrics.extra_metrics import further_names
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.records.record import Record
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted

CLASSES = ("low", "medium", "high")
"""Of successes, as arXiv 2507.17049 has them; their ranks are 1, 2 and 3."""

COLUMNS = ("case", "label", "by", "digest", "run")
MOST_BYTES = 64 * 1024 * 1024

Episode = tuple[str, str]
"""`Record.case` and `Record.digest`: another policy's episode of the same case has another digest."""


@dataclass(frozen=True)
class Label:
    """One person's label for one episode.

    Attributes:
        case: the episode's `Record.case`.
        label: one of `CLASSES`.
        by: the person.
        digest: the episode's `Record.digest`: the label applies to this execution, not to the case.
        run: the run in which it was labelled, for people.
    """

    case: str
    label: str
    by: str
    digest: str
    run: str

    @property
    def episode(self) -> Episode:
        """The labelled episode."""
        return self.case, self.digest


def read_labels(file: Path) -> tuple[Label, ...]:
    """Read the labels in a file, in its order.

    Args:
        file: CSV in UTF-8 (with a byte order mark, as Excel writes it, or without) with the columns of `COLUMNS`; other
            columns are ignored.

    Raises:
        VlaError: the file cannot be read or lacks a column, or a row lacks a text, has an unknown label, or repeats an
            episode that the same person has labelled in another row.
    """
    mend = f"expected CSV with the columns {', '.join(COLUMNS)}, as `pytest-vla label` writes it"
    try:
        if file.stat().st_size > MOST_BYTES:
            raise VlaError(f"{file} has more than {MOST_BYTES} bytes; {mend}")
        text = file.read_text(encoding="utf-8-sig")
        if (place := text.find("\0")) >= 0:
            raise VlaError(f"{file}, line {text.count(chr(10), 0, place) + 1}: a NUL character; {mend}")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        names = rows.fieldnames or ()
        if missing := [name for name in COLUMNS if name not in names]:
            raise VlaError(f"{file} has no column {', '.join(missing)}; {mend}{_of_which(missing)}")
        found: dict[tuple[Episode, str], tuple[Label, int]] = {}
        for row in rows:
            label = Label(*(str(row[name] or "").strip() for name in COLUMNS))
            where = f"{file}, line {rows.line_num}"
            if label.label not in CLASSES:
                raise VlaError(f"{where}: label {label.label[:40]!r}, expected one of {', '.join(CLASSES)}")
            if empty := [name for name in COLUMNS if not getattr(label, name)]:
                raise VlaError(f"{where}: no {', '.join(empty)}; {mend}")
            before, line = found.setdefault((label.episode, label.by), (label, rows.line_num))
            if line != rows.line_num:
                raise VlaError(
                    f"{where}: {label.by[:40]!r} labels {label.case[:120]!r} {label.label}, and {before.label} in line "
                    f"{line}: a person may label an episode only once; remove one of the two rows"
                )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise VlaError(f"{file}: {error}; {mend}") from error
    return tuple(label for label, _ in found.values())


def _of_which(missing: Collection[str]) -> str:
    """Why a file of cases alone cannot be used."""
    if "digest" not in missing:
        return ""
    return (
        ". A case is run by many policies: the digest says which episode was labelled. Add it and the run's name from "
        "the run that was labelled: `pytest-vla export RUN` has both"
    )


def write_labels(file: Path, labels: Iterable[Label]) -> None:
    """Write the file, whole or not at all. Raises VlaError."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(tuple(getattr(each, name) for name in COLUMNS) for each in labels)
    with whole_file(file) as stream:
        stream.write(text.getvalue().encode())


@dataclass(frozen=True)
class LabelAgreement:
    """The agreement between two people.

    Attributes:
        one: the first person.
        other: the second person.
        episodes: number of episodes that both labelled.
        observed: the share of these with the same label.
        kappa: Cohen's (1960, Educational and Psychological Measurement 20, 37-46): 1 for full agreement, 0 for
            agreement by chance. None if both always chose the same class, so that chance agrees always too.
    """

    one: str
    other: str
    episodes: int
    observed: float
    kappa: float | None


def agreements(labels: Sequence[Label]) -> tuple[LabelAgreement, ...]:
    """Return the agreement between every two people who labelled the same episodes."""
    people: dict[str, dict[Episode, str]] = {}
    for each in labels:
        people.setdefault(each.by, {})[each.episode] = each.label
    names = sorted(people)
    found = (
        agreement(one, other, people[one], people[other]) for n, one in enumerate(names) for other in names[n + 1 :]
    )
    return tuple(each for each in found if each is not None)


def agreement(
    one: str, other: str, ones: Mapping[Episode, str], others: Mapping[Episode, str]
) -> LabelAgreement | None:
    """Compute the agreement between two people, or None if no episode has labels from both."""
    pairs = [(ones[episode], others[episode]) for episode in ones if episode in others]
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    by_chance = sum(first[name] * second[name] for name in first) / n**2
    return LabelAgreement(one, other, n, observed, (observed - by_chance) / (1 - by_chance) if by_chance < 1 else None)


@dataclass(frozen=True)
class Labelled:
    """The relation between a metric and labels.

    Attributes:
        metric: its name.
        correlation: with the labels' ranks, over labelled episodes (the paper's table III); None if there are too few,
            or all are alike.
        against_failures: for each class in `CLASSES`, the metric compared with that of failures (tables V and VII);
            None if there are too few.
    """

    metric: str
    correlation: Correlation | None
    against_failures: Mapping[str, Discrimination | None]


def combined(labels: Iterable[Label]) -> dict[Episode, str | None]:
    """Return one label per episode: the median over its labellers.

    It is None if, for an even number, the two middle labels differ and nobody chose a label between them.
    """
    found: dict[Episode, list[int]] = {}
    for each in labels:
        found.setdefault(each.episode, []).append(CLASSES.index(each.label))
    told: dict[Episode, str | None] = {}
    for episode, ranks in found.items():
        ranks.sort()
        lower, upper = ranks[(len(ranks) - 1) // 2], ranks[len(ranks) // 2]
        told[episode] = CLASSES[lower] if lower == upper else None
    return told


def labelled(
    metric: str,
    values: Mapping[Episode, float],
    labels: Mapping[Episode, str | None],
    failed: Collection[Episode],
    sign: Sign = "metric",
) -> Labelled:
    """Relate a metric to labels.

    Args:
        metric: its name.
        values: by episode, for those that have it.
        labels: from `combined`; episodes with None are left out.
        failed: the episodes that failed.
        sign: of the correlation.
    """
    told = {episode: label for episode in values if (label := labels.get(episode)) is not None}
    by_class = {name: [values[episode] for episode, label in told.items() if label == name] for name in CLASSES}
    failures = [values[episode] for episode in values if episode in failed]
    return Labelled(
        metric,
        correlation(
            [float(CLASSES.index(label) + 1) for label in told.values()], [values[episode] for episode in told], sign
        ),
        {name: discrimination(some, failures) for name, some in by_class.items()},
    )


@dataclass(frozen=True)
class Labels:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        episodes: successes with a label, by class, as many as there are of `CLASSES`.
        disagreed: labelled successes in no class, as `combined` has them.
        failures: beside which classes are held.
        agreements: of every two people.
        metrics: each further number of the episodes.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    episodes: tuple[int, ...]
    disagreed: int
    failures: int
    agreements: tuple[LabelAgreement, ...]
    metrics: tuple[Labelled, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class LabelReport:
    """What a file of labels says of runs.

    Attributes:
        models: with labelled successes.
        left_out: labels that are in no number, and why.
        sign: of the correlations.
    """

    models: tuple[Labels, ...]
    left_out: tuple[str, ...]
    sign: Sign = "metric"


def label_report(records: Sequence[Record], file: Path, sign: Sign = "metric") -> LabelReport:
    """Compute what agrees with labels, for each model and suite that has some.

    A label is of the episode of its case and digest alone: of another policy, or another run of a policy that draws,
    nobody has said anything.

    Raises:
        VlaError: the file cannot be used.
    """
    labels = read_labels(file)
    found = []
    used: set[tuple[str, str]] = set()
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        by_episode = {
            (record.case, record.digest): record
            for record in selected.records
            if is_counted(record) and not record.is_probe
        }
        here = [each for each in labels if each.episode in by_episode and by_episode[each.episode].outcome == "success"]
        if not here:
            continue
        told = combined(here)
        used |= told.keys()
        failed = {episode for episode, record in by_episode.items() if record.outcome == "failure"}
        names = sorted({name for record in by_episode.values() for name in further_names(record)})
        metrics = tuple(
            labelled(name, {e: r.metrics[name] for e, r in by_episode.items() if name in r.metrics}, told, failed, sign)
            for name in names
        )
        by_class = tuple(sum(label == name for label in told.values()) for name in CLASSES)
        disagreed = sum(label is None for label in told.values())
        found.append(
            Labels(model, suite, by_class, disagreed, len(failed), agreements(here), metrics, selected.left_out)
        )
    return LabelReport(tuple(found), tuple(_left_out(labels, used, records)), sign)


def _left_out(labels: Sequence[Label], used: Collection[tuple[str, str]], records: Sequence[Record]) -> Iterator[str]:
    """Yield a line on labels that are in no number."""
    outcomes = {(record.case, record.digest): record.outcome for record in records}
    others = [each for each in labels if each.episode not in outcomes]
    if others:
        runs = ", ".join(dict.fromkeys(each.run for each in others))
        yield f"{counted(len(others), 'label')} of other episodes than these runs', and in no number: of run {runs}"
    unused = [each for each in labels if each.episode in outcomes and each.episode not in used]
    for outcome, number in Counter(outcomes[each.episode] for each in unused).items():
        if outcome == "success":
            yield f"{counted(number, 'label')} of successes that do not count here (repeats or probes), in no number"
        else:
            what = {"failure": "failures", "error": "errors"}.get(outcome, f"{outcome} episodes")
            yield f"{counted(number, 'label')} of {what}, in no number: labels are of successes"
