"""Labels of quality, whether a metric goes with them, and whether it tells successes from failures.

Spearman, Mann-Whitney and A12, as arXiv 2507.17049 has them in its tables III, V, VI and VII.
"""

import csv
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from math import comb, sqrt
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.extra_metrics import further_names
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.records.record import Record
from pytest_vla.util.documents import read_toml
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted, printable

CORRELATION_BANDS = ((0.10, "none"), (0.29, "low"), (0.49, "medium"))
"""Up to which |rho| a correlation is called so, as the paper's Table III has it; beyond, it is `STRONG`."""

STRONG = "high"

Sign = Literal["metric", "paper"]
SIGNS: tuple[Sign, ...] = ("metric", "paper")
"""When rho is above 0: ``metric``, where a larger metric goes with a higher quality; ``paper``, where a lower metric
does, as Table III has it: its ranks of quality begin with high."""

EFFECT_BANDS = ((0.147, "n"), (0.33, "s"), (0.474, "m"))
"""Below which 2 |A12 - 0.5| an effect is called so: negligible, small, medium; beyond, it is `LARGE`."""

LARGE = "L"

SIGNIFICANT = 0.05
"""Below this p a correlation is told in a word; where no order of so few episodes has one, nothing is said."""

FEWEST = 3
"""Of fewer in either group nothing is said: the tables print "-"."""

MOST_ORDERS = 8
"""Of so many episodes all orders are tried, 40,320; of more Student's t is near enough."""

MOST_EXACT, MOST_BOTH = 8, 100
"""Of so many in the smaller group, and in both, Mann-Whitney's p is exact, as scipy's is where nothing is tied."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of quality labels with a metric.

    Attributes:
        rho: -1 to 1.
        p: two-sided: up to `MOST_ORDERS` episodes, the share of all orders of the labels with as large a |rho|; for
            more, by Student's t with n - 2 degrees of freedom.
        n: number of episodes.
        band: one of `CORRELATION_BANDS`, or None if n is too small for any order to have a p below `SIGNIFICANT`.
    """

    rho: float
    p: float
    n: int
    band: str | None


@dataclass(frozen=True)
class Discrimination:
    """A comparison of a metric's values between a group and another group.

    Attributes:
        a12: the probability that a value from the group is above one from the other, ties counting half; 0.5 means no
            difference.
        p: Mann-Whitney's, two-sided: up to `MOST_EXACT` in the smaller group and `MOST_BOTH` in both, the share of all
            splits into groups of these sizes that differ as much, with ties; for more, by the normal approximation.
        category: one of `EFFECT_BANDS`, or None if p is not below `SIGNIFICANT`.
        group: number of values in the group.
        other: number of values in the other group.
    """

    a12: float
    p: float
    category: str | None
    group: int
    other: int


def correlation(labels: ArrayLike, values: ArrayLike, sign: Sign = "metric") -> Correlation | None:
    """Compute Spearman's rank correlation of labels with a metric's episode means.

    Args:
        labels: (n,), a rank of quality for each episode, such as 1 low, 2 medium, 3 high.
        values: (n,), the metric's.
        sign: of rho.

    Returns:
        None if there are fewer than 3, or all are alike.

    Raises:
        VlaError: lengths differ, or a number is not finite.
    """
    ranks, numbers = _numbers(labels, "labels"), _numbers(values, "values")
    if len(ranks) != len(numbers):
        raise VlaError(f"{len(ranks)} labels and {len(numbers)} values: expected as many")
    if len(ranks) < FEWEST or np.ptp(ranks) == 0 or np.ptp(numbers) == 0:
        return None
    from scipy.stats import spearmanr

    rho = float(spearmanr(ranks, numbers).statistic) * (-1.0 if sign == "paper" else 1.0)
    n, band = len(ranks), correlation_band(rho)
    if n > MOST_ORDERS:
        return Correlation(rho, correlation_p(rho, n), n, band)
    p, least = _exact_p(ranks, numbers)
    return Correlation(rho, p, n, band if least < SIGNIFICANT else None)


def correlation_p(rho: float, n: int) -> float:
    """Two-sided p of Spearman's rho over n pairs, by Student's t with n - 2 degrees of freedom.

    Raises:
        VlaError: rho is not in -1..1, or n less than 3.
    """
    if not -1 <= rho <= 1 or n < FEWEST:
        raise VlaError(f"rho {rho} of {n}: expected -1..1, of 3 or more")
    if abs(rho) == 1:
        return 0.0
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * sqrt((n - 2) / (1 - rho * rho)), n - 2))


def _exact_p(labels: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Two-sided p of Spearman's rho over all orders, and the smallest that any order has."""
    from scipy.stats import rankdata

    x, y = rankdata(labels), rankdata(values)
    x, y = x - x.mean(), y - y.mean()
    sizes = np.abs(x[_orders(len(x))] @ y)
    at_least = [float((sizes >= size - 1e-9).mean()) for size in (abs(float(x @ y)), float(sizes.max()))]
    return at_least[0], at_least[1]


@cache
def _orders(n: int) -> NDArray[np.int_]:
    return np.array(list(permutations(range(n))))


def correlation_band(rho: float) -> str:
    """Return the name for a correlation of this size."""
    return next((name for most, name in CORRELATION_BANDS if abs(rho) <= most), STRONG)


def discrimination(group: ArrayLike, other: ArrayLike) -> Discrimination | None:
    """Compute Mann-Whitney's U and A12 of a metric between two groups, such as good successes and failures.

    A12 = (R - n (n + 1) / 2) / (n m), with R the sum of the group's ranks among both.

    Args:
        group: (n,), the metric's episode means.
        other: (m,), the metric's episode means.

    Returns:
        None if either has fewer than `FEWEST`.

    Raises:
        VlaError: a number is not finite.
    """
    x, y = _numbers(group, "group"), _numbers(other, "other")
    if min(len(x), len(y)) < FEWEST:
        return None
    from scipy.stats import mannwhitneyu

    found = mannwhitneyu(x, y, alternative="two-sided")
    a12 = float(found.statistic) / (len(x) * len(y))
    is_small = min(len(x), len(y)) <= MOST_EXACT and len(x) + len(y) <= MOST_BOTH
    p = _exact_rank_p(x, y) if is_small else float(found.pvalue)
    # All of both are alike.
    p = 1.0 if np.isnan(p) else p
    return Discrimination(a12, p, effect_category(a12) if p < SIGNIFICANT else None, len(x), len(y))


def _exact_rank_p(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Compute the share of all choices of the smaller group's size whose rank sum is as far from its expectation."""
    from scipy.stats import rankdata

    small, large = (x, y) if len(x) <= len(y) else (y, x)
    n = len(small)
    # Twice a rank is whole, also of ties.
    doubled = np.round(2 * rankdata(np.concatenate([small, large]))).astype(int)
    # ways[k, s]: so many choices of k episodes have the sum s.
    ways = np.zeros((n + 1, int(np.sort(doubled)[-n:].sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    apart = np.abs(np.arange(ways.shape[1]) - n * doubled.mean())
    far = apart >= abs(int(doubled[:n].sum()) - n * doubled.mean()) - 1e-6
    return min(float(ways[n, far].sum()) / comb(len(doubled), n), 1.0)


def effect_category(a12: float) -> str:
    """Return ``n``, ``s``, ``m`` or ``L``: the size of the effect by 2 |A12 - 0.5|."""
    size = 2 * abs(a12 - 0.5)
    return next((name for below, name in EFFECT_BANDS if size < below), LARGE)


def timings(seconds: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (ddof 1) of the times of steps, s, as table VIII has them. Raises VlaError."""
    times = _numbers(seconds, "seconds")
    if len(times) < 2:
        raise VlaError(f"{len(times)} times: expected 2 or more")
    return float(times.mean()), float(times.std(ddof=1))


def _numbers(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise VlaError(f"{what}: expected (n,) finite numbers, got {array.shape}")
    return array


# Human labels of episodes' quality, from a CSV file: agreement between people, and metrics that match the labels.

CLASSES = ("low", "medium", "high")
"""Of successes, as arXiv 2507.17049 has them; their ranks are 1, 2 and 3."""

CRITERIA = {
    "low": "done, but by luck or with harm: drops, hits or pushes of other things, several attempts, or an object that "
    "lies on its side",
    "medium": "done with a flaw: a detour, a hesitation, a shaky motion, or one more attempt",
    "high": "done as a careful person would: one direct and smooth motion, and the object ends upright where it should "
    "be",
}
"""What the labelling page says of each class. In our words, after what the paper's metrics rate and its Finding 5, on
the orientation of the object; its Table I can be given with ``--criteria``."""

FAILURES = "failures"
"""Beside the classes: the episodes that failed."""

COLUMNS = ("case", "label", "by", "digest", "run")
MOST_BYTES = 64 * 1024 * 1024
MOST_CRITERION = 1000

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


def read_criteria(file: Path) -> dict[str, str]:
    """Read what the labelling page says of each class. Raises VlaError if it is no TOML file with a text for each."""
    try:
        found = read_toml(file)
    except (OSError, ValueError) as error:
        raise VlaError(f'{file}: cannot be read as TOML: {error}. Write a line for each class: high = "..."') from error
    for name in CLASSES:
        text = found.get(name)
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_CRITERION:
            raise VlaError(
                f"{file}: {name}: expected a text of at most {MOST_CRITERION} characters, found "
                f'{printable(repr(text))[:80]}. Write {name} = "..."'
            )
    if others := [name for name in found if name not in CLASSES]:
        raise VlaError(f"{file}: {printable(others[0])[:80]} is no class. Classes: {', '.join(CLASSES)}")
    return {name: found[name] for name in CLASSES}


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


def gwet_ac1(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Compute the agreement of two raters' yes and no beyond chance: AC1, 1 for equal answers, 0 for chance.

    Cohen's kappa is low if nearly all answers are yes; AC1 is not (Gwet 2008, British Journal of Mathematical and
    Statistical Psychology 61, 29-48). LIBERO-Para reports it for its texts.

    Args:
        pairs: (n, 2), the answers of both raters, at least one pair.
    """
    observed = sum(one == other for one, other in pairs) / len(pairs)
    share = sum(one + other for one, other in pairs) / (2 * len(pairs))
    by_chance = 2 * share * (1 - share)
    return (observed - by_chance) / (1 - by_chance)


@dataclass(frozen=True)
class Labelled:
    """The relation between a metric and labels.

    Attributes:
        metric: its name.
        correlation: with the labels' ranks, over labelled episodes (the paper's table III); None if there are too few,
            or all are alike.
        against_failures: for each class in `CLASSES`, the metric compared with that of failures (tables V and VII);
            None if there are too few.
        values: of the episodes of each class in `CLASSES`, and of `FAILURES`.
    """

    metric: str
    correlation: Correlation | None
    against_failures: Mapping[str, Discrimination | None]
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)


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
        {**by_class, FAILURES: failures},
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
        by_task: successes with a label, by task and class.
        successes: with or without a label, by task; those of all tasks.
    """

    model: str
    suite: str
    episodes: tuple[int, ...]
    disagreed: int
    failures: int
    agreements: tuple[LabelAgreement, ...]
    metrics: tuple[Labelled, ...]
    left_out: tuple[str, ...]
    by_task: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    successes: Mapping[str, int] = field(default_factory=dict)


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


def label_report(
    records: Sequence[Record],
    file: Path,
    sign: Sign = "metric",
    is_judged: Callable[[Record], bool] = lambda record: True,
) -> LabelReport:
    """Compute what agrees with labels, for each model and suite that has some.

    A label is of the episode of its case and digest alone: of another policy, or another run of a policy that draws,
    nobody has said anything.

    Args:
        records: of any runs.
        file: the labels.
        sign: of the correlations.
        is_judged: whether the label of a success is used.

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
        judged = {episode for episode, one in by_episode.items() if one.outcome == "success" and is_judged(one)}
        here = [each for each in labels if each.episode in judged]
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
        by_class = _by_class(told.values())
        tasks = {by_episode[episode].task_key for episode in told}
        by_task = {
            task: _by_class(label for episode, label in told.items() if by_episode[episode].task_key == task)
            for task in sorted(tasks)
        }
        successes = Counter(record.task_key for record in by_episode.values() if record.outcome == "success")
        disagreed = sum(label is None for label in told.values())
        found.append(
            Labels(
                *(model, suite, by_class, disagreed, len(failed), agreements(here), metrics, selected.left_out),
                *(by_task, successes),
            )
        )
    return LabelReport(tuple(found), tuple(_left_out(labels, used, records)), sign)


def _by_class(labels: Iterable[str | None]) -> tuple[int, ...]:
    counts = Counter(labels)
    return tuple(counts[name] for name in CLASSES)


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
