"""Measures what the model card of tiny says: runs pytest-vla's own command lines, and writes tables with these in them.

A part that was run is not run again: its run is found by its name. Each takes minutes on two cores.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.metrics.rates import percents_text, reasons_text
from pytest_vla.metrics.robustness import difference_between, rate_of, twin_pairs, varied_models
from pytest_vla.records.record import ASKED_DONE, Record
from pytest_vla.records.store import open_store
from scripts.tiny_words import KEPT_OUT

DIMENSIONS = ("layout", "background", "light", "camera", "robot", "noise", "action")
ORIGINAL, KEPT = "trained kinds", "kinds kept out"


@dataclass(frozen=True)
class Part:
    """A measurement.

    Attributes:
        name: of it, and of its folder of results.
        title: above its table.
        options: of pytest.
        table: rows of records; the first is the head.
    """

    name: str
    title: str
    options: tuple[str, ...]
    table: Callable[[Sequence[Record]], list[list[str]]]


def by_task(records: Sequence[Record]) -> list[list[str]]:
    """Success by task, and of all."""
    rows = [["task", "episodes", "success, % [95%]"]]
    tasks = list(dict.fromkeys(record.task for record in records))
    for task in [*tasks, None]:
        chosen = [record for record in records if task in (None, record.task)]
        rate = rate_of("", chosen)
        rows.append([task or "**all**", str(len(chosen)), percents_text(rate) + (reasons_text(rate) and " *")])
    return rows


def by_probe(records: Sequence[Record]) -> list[list[str]]:
    """What is done under no text, and under another task's."""
    rows = [["the instruction", "episodes", "did the task of the scene, %", "did what it was told, %"]]
    kinds = {"language.blank": "blank", "language.other_task": "another task's"}
    for kind, name in kinds.items():
        chosen = [record for record in records if record.variation.get("kind") == kind]
        done = sum(record.outcome == "success" for record in chosen)
        asked = sum(record.metrics.get(ASKED_DONE, 0.0) == 1.0 for record in chosen)
        followed = share(asked, len(chosen)) if kind == "language.other_task" else "-"
        rows.append([name, str(len(chosen)), share(done, len(chosen)), followed])
    return rows


def by_level(records: Sequence[Record]) -> list[list[str]]:
    """The change of success of each dimension and level against the benign twins."""
    (varied,) = varied_models(records)
    pairs, _ = twin_pairs(varied)
    rows = [["dimension", *(f"L{level}" for level in range(1, 6)), "all levels: points [95%], pairs"]]
    for dimension in DIMENSIONS:
        own = [pair for pair in pairs if str(pair.episode.variation.get("kind", "")).split(".")[0] == dimension]
        if not own:
            continue
        cells = []
        for level in range(1, 6):
            at = [pair for pair in own if pair.episode.variation.get("level") == level]
            cells.append(share(sum(pair.episode.outcome == "success" for pair in at), len(at)))
        found = difference_between(own)
        ends = "" if found.interval is None else " [{:+.0f}, {:+.0f}]".format(*found.interval)
        rows.append([dimension, *cells, f"{found.value:+.0f}{ends}, {found.pairs}"])
    return rows


def by_cell(records: Sequence[Record]) -> list[list[str]]:
    """Success under paraphrases, of trained kinds and of those that were kept out."""
    kept = {".".join(cell) for cell in KEPT_OUT}
    rows = [["paraphrases", "episodes", "success, % [95%]"]]
    for name, inside in ((ORIGINAL, False), (KEPT, True)):
        chosen = [record for record in records if cell_of(record) and (cell_of(record) in kept) == inside]
        rows.append([name, str(len(chosen)), percents_text(rate_of("", chosen))])
    chosen = [record for record in records if not record.variation]
    rows.append(["the task's own words", str(len(chosen)), percents_text(rate_of("", chosen))])
    return rows


def cell_of(record: Record) -> str | None:
    """The kind of a paraphrase; None: it is none."""
    params = record.variation.get("params", {})
    return f"{params['object_type']}.{params['action_type']}" if "object_type" in params else None


def share(part: int, whole: int) -> str:
    """In percent."""
    return f"{100 * part / whole:.0f}" if whole else "-"


def parts(scale: float) -> tuple[Part, ...]:
    """All measurements; `scale` makes those with samples shorter."""

    def sample(count: int) -> str:
        return f"--vla-sample={max(20, round(count * scale))}"

    episodes = f"--vla-episodes={max(1, round(50 * scale))}"
    benign = ("--vla-suite=tabletop", "--vla-model=tiny")
    return (
        Part("benign", "Benign success", (*benign, episodes), by_task),
        Part("early", "Benign success of `tiny@early`", (benign[0], "--vla-model=tiny@early", episodes), by_task),
        Part(
            "listening",
            "Does it listen?",
            (*benign, "--vla-vary=language.blank,language.other_task", f"--vla-episodes={max(1, round(10 * scale))}"),
            by_probe,
        ),
        Part(
            "robustness",
            "Success under variations, %",
            (*benign, f"--vla-vary={','.join(DIMENSIONS)}", "--vla-twins=auto", sample(700)),
            by_level,
        ),
        Part(
            "paraphrases",
            "Paraphrases",
            (*benign, "--vla-vary=language.paraphrase", "--vla-twins=auto", sample(430)),
            by_cell,
        ),
        Part(
            "safety",
            "Success among the hazards of `tabletop_safety`, which it never saw",
            ("--vla-suite=tabletop_safety", "--vla-model=tiny", "--vla-episodes=1"),
            by_task,
        ),
    )


def measured(part: Part, results: Path, workers: str) -> list[Record]:
    """The part's records, of a run that is made where there is none."""
    folder = results / part.name
    if not folder.is_dir() or not _records(folder):
        line = command(part, folder, workers)
        print("$", shlex.join(line), flush=True)
        subprocess.run([sys.executable, "-m", *line], check=False, env=dict(os.environ))
    return _records(folder)


def command(part: Part, folder: Path, workers: str) -> list[str]:
    """The part's command line."""
    quiet = ["-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider"]
    return ["pytest", *part.options, f"--vla-results={folder}", "-n", workers, *quiet]


def _records(folder: Path) -> list[Record]:
    with open_store(folder, create=True) as store:
        return [record for run in store.runs()[:1] for record in store.records(run.name)]


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    first, *others = rows
    lines = [first, ["---"] * len(first), *others]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/explanation/tiny_numbers.md"), help="the file of tables")
    parser.add_argument("--results", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of episodes")
    parser.add_argument("--parts", help="only these, by comma; the tables of others stay away")
    parser.add_argument("-n", "--workers", default="2", help="of pytest")
    options = parser.parse_args()
    wanted = None if options.parts is None else options.parts.split(",")
    texts = []
    for part in parts(options.scale):
        if wanted is not None and part.name not in wanted:
            continue
        rows = part.table(measured(part, options.results, options.workers))
        texts.append(f"## {part.title}\n\n```bash\npytest {shlex.join(part.options)} -n 2\n```\n\n{markdown(rows)}\n")
        print(markdown(rows), flush=True)
    options.out.write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
