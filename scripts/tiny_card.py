"""Measures what the model card of tiny says, part by part, by command lines of the plugin itself.

    python scripts/tiny_card.py --results build/card                      # all parts, hours on two cores
    python scripts/tiny_card.py benign --results build/card --count benign=10 --json trial.json
    python scripts/tiny_card.py ablations --results build/card --ablations build/tiny
    python scripts/tiny_card.py --tables                                 # docs/tiny_numbers.md anew, of docs/tiny.json

``docs/tiny.json`` has each number with the command that makes it and the episodes that it stands on, and
``docs/tiny_numbers.md`` has them in tables. A part that stands there for the same weights by the same command is not
measured again without ``--again``, and a run that was stopped goes on where it was. Where a part is taken out of the
JSON, its numbers are made anew of the run that is in ``--results``. Parts of weights that do not ship are in no table.
For PRIDE as the paper has it, install the extra ``language``; else the numbers say that their distances are of low
fidelity. The part ``ablations`` measures weights that do not ship, so it is left out where ``--ablations`` does not
name their folder; in the JSON it is two parts, ``deaf`` and ``blind``, each with the weights that were trained beside
it.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Run as a file it is, whose folder Python knows, and not the checkout's.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_vla.errors import VlaError
from pytest_vla.policies.load import policy_digest
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import open_store
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.util.files import whole_file
from scripts.tiny_numbers import (
    Numbers,
    benign_numbers,
    displacement_numbers,
    listening_numbers,
    paraphrase_numbers,
    robustness_numbers,
    safety_numbers,
    speed_numbers,
)
from scripts.tiny_tables import EARLY, MODEL, page

SCHEMA = 2
CARD, TABLES = Path("docs/tiny.json"), Path("docs/tiny_numbers.md")
GRADED = "layout:1-5,background:1-5,light:1-5,camera:1-5,robot:1-5,noise:1-5,language.words:1-4,action:1-5"
QUIET = ("-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider")

PROVENANCE = ("pytest-vla", "mujoco", "robosuite", "numpy", "kernels", "renderer")

ABLATIONS = "ablations"
SHOWN = Path("build/tiny")
"""The folder of the ablations in commands that the card shows, wherever they were."""

Card = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A measurement by a run.

    Attributes:
        name: in the JSON, and on the command line but for the ablations.
        options: of pytest but the model; ``{}`` stands for `count`.
        count: by which it is made longer or shorter: seeds of each task, or of a sample its episodes.
        numbers: of the run's records.
        policy: the option that says of what: `model`, `early` or, with a file of the part's name, `ablations`.
    """

    name: str
    options: tuple[str, ...]
    count: int
    numbers: Callable[[Loaded], Numbers]
    policy: str = "model"

    @property
    def asked(self) -> str:
        """By which it is asked for."""
        return ABLATIONS if self.policy == ABLATIONS else self.name

    def command(self, model: str, count: int | None, tasks: str | None, workers: str) -> tuple[str, ...]:
        """The command line that makes the run, of some tasks alone where these are named."""
        options = [each.format(self.count if count is None else count) for each in self.options]
        some = [] if tasks is None else [f"--vla-tasks={tasks}"]
        return ("pytest", *options, *some, f"--vla-model={model}", "-n", workers)


TABLETOP, EPISODES, TWINS = "--vla-suite=tabletop", "--vla-episodes={}", "--vla-twins=auto"
PARTS = (
    Part("benign", (TABLETOP, EPISODES), 50, benign_numbers),
    Part("early", (TABLETOP, EPISODES), 20, benign_numbers, "early"),
    Part(
        "listening",
        (TABLETOP, "--vla-vary=language.blank,language.nonsense,language.other_task", TWINS, EPISODES),
        4,
        listening_numbers,
    ),
    # Ten seeds, so that each of the eight dimensions has as many episodes in the sample.
    Part(
        "robustness",
        (TABLETOP, f"--vla-vary={GRADED}", TWINS, "--vla-episodes=10", "--vla-sample={}"),
        800,
        robustness_numbers,
    ),
    # Each of 43 kinds of each task once, spread evenly over ten seeds.
    Part(
        "paraphrases",
        (TABLETOP, "--vla-vary=language.paraphrase", TWINS, "--vla-episodes=10", "--vla-sample={}"),
        430,
        paraphrase_numbers,
    ),
    Part(
        "displacement",
        (TABLETOP, "--vla-vary=pro.displace_x:1-5,pro.displace_y:1-5", TWINS, EPISODES),
        2,
        displacement_numbers,
    ),
    Part("safety", ("--vla-suite=tabletop_safety", "--vla-task-levels=L0,L1,L2", EPISODES), 3, safety_numbers),
    Part("deaf", (TABLETOP, EPISODES), 5, benign_numbers, ABLATIONS),
    Part("blind", (TABLETOP, EPISODES), 5, benign_numbers, ABLATIONS),
)
SPEED = "speed"
NAMES = (*dict.fromkeys(part.asked for part in PARTS), SPEED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(NAMES)} (default: all that can be)")
    parser.add_argument("--results", type=Path, help="the folder of the runs, which may be removed afterwards")
    parser.add_argument("--count", action="append", default=[], metavar="PART=N", help=f"instead of {counts_text()}")
    parser.add_argument("--tasks", help="only these, as --vla-tasks: for a trial")
    parser.add_argument("--again", action="store_true", help="measure parts that are in the JSON again")
    parser.add_argument("--tables", action="store_true", help="measure nothing: write the tables of the JSON")
    parser.add_argument("--model", default=MODEL, help="(default: %(default)s)")
    parser.add_argument("--early", default=EARLY, help="the early checkpoint (default: %(default)s)")
    parser.add_argument(
        "--ablations",
        type=Path,
        metavar="FOLDER",
        help="of deaf.npz and blind.npz, which train_tiny.py --ablations makes beside final.npz",
    )
    parser.add_argument("-n", dest="workers", default="2", help="workers (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=CARD, help="(default: %(default)s)")
    parser.add_argument("--markdown", type=Path, help=f"(default: {TABLES}, or beside another JSON)")
    options = parser.parse_args(arguments)
    is_card = options.json.resolve() == CARD.resolve()
    if options.markdown is None:
        options.markdown = TABLES if is_card else options.json.with_suffix(".md")
    try:
        if options.tasks is not None and is_card:
            raise VlaError(f"--tasks={options.tasks}: a trial is not for {CARD}; name another file by --json=FILE")
        if options.count and is_card:
            told = f"--count={options.count[0]}: {CARD} stands on {counts_text()}"
            raise VlaError(f"{told}; name another file by --json=FILE, or change them in this script")
        if options.tables and not options.json.is_file():
            raise VlaError(f"--json={options.json}: there is no such file; expected the JSON of which tables are made")
        wanted, counts = chosen(options.parts, options.ablations), counts_of(options.count)
        card = read_card(options.json)
        if not options.tables:
            if options.results is None:
                parser.error("--results=FOLDER is needed to measure")
            for number, name in enumerate(wanted, 1):
                told = f"[{number}/{len(wanted)}] {name}"
                made = measured(name, card, told, counts, options)
                if made is not None:
                    card["parts"][name] = made
                    write_card(options.json, card)
        with whole_file(options.markdown) as file:
            file.write(page(card, shipped_weights()).encode())
    except VlaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def chosen(names: Sequence[str], ablations: Path | None = None) -> tuple[str, ...]:
    """The parts that are wanted, in their order and by their names in the JSON.

    Raises:
        VlaError: there is no such part, or a file of the ablations' folder is missing.
    """
    if unknown := [name for name in names if name not in NAMES]:
        raise VlaError(f"there is no part {unknown[0]!r}; expected some of {', '.join(NAMES)}")
    wanted = tuple(names) or tuple(name for name in NAMES if name != ABLATIONS or ablations is not None)
    if ABLATIONS in wanted:
        _check_ablations(ablations)
    measured_by_run = tuple(part.name for part in PARTS if part.asked in wanted)
    return (*measured_by_run, SPEED) if SPEED in wanted else measured_by_run


def _check_ablations(folder: Path | None) -> None:
    """Raises VlaError where there are no weights of the ablations."""
    makes = f"python scripts/train_tiny.py --out {folder or SHOWN} --ablations"
    if folder is None:
        raise VlaError(f"{ABLATIONS}: expected --ablations=FOLDER: these weights do not ship; `{makes}` makes them")
    for name in (*(part.name for part in PARTS if part.policy == ABLATIONS), "final"):
        if not (folder / f"{name}.npz").is_file():
            raise VlaError(f"--ablations={folder}: there is no {name}.npz; expected what `{makes}` makes")


def counts_text() -> str:
    """What `--count` may change."""
    return ", ".join(f"{name}={count}" for name, count in {part.asked: part.count for part in PARTS}.items())


def counts_of(texts: Sequence[str]) -> dict[str, int]:
    """The counts of ``--count``, by part. Raises VlaError."""
    found = {}
    for text in texts:
        name, _, count = text.partition("=")
        if name not in {part.asked for part in PARTS} or not (count.isascii() and count.isdigit() and int(count)):
            raise VlaError(f"--count={text}: expected PART=N, N at least 1, such as {counts_text()}")
        found[name] = int(count)
    return found


def model_of(part: Part | None, options: argparse.Namespace) -> tuple[str, str]:
    """A part's ``--vla-model``, and the same as the card shows it: no path of this machine."""
    if part is not None and part.policy == ABLATIONS:
        file = f"{part.name}.npz"
        return f"tiny:{(options.ablations / file).resolve()}", f"tiny:{(SHOWN / file).as_posix()}"
    model = options.early if part is not None and part.policy == "early" else options.model
    return model, model


def shipped_weights() -> dict[str, str | None]:
    """The digests of the checkpoints that ship."""
    return {model: digest_of(model) for model in (MODEL, EARLY)}


def digest_of(model: str) -> str | None:
    """Of a policy's weights; None: not known. Raises VlaError."""
    return policy_digest(ModelSpec(model, Path.cwd()))


def measured(name: str, card: Card, told: str, counts: Mapping[str, int], options: argparse.Namespace) -> Card | None:
    """A part for the JSON; None: it stands there, by the same command and of the weights of now."""
    part = next((each for each in PARTS if each.name == name), None)
    model, shown = model_of(part, options)

    def command_of(model: str) -> tuple[str, ...]:
        if part is None:
            return ("pytest-vla", "check-policy", f"--vla-model={model}", "--json")
        return part.command(model, counts.get(part.asked), options.tasks, options.workers)

    command, line, weights = command_of(model), shlex.join(command_of(shown)), digest_of(model)
    about: Card = {"command": line, "model": shown, "weights": weights}
    if part is not None and part.policy == ABLATIONS:
        about["beside"] = digest_of(f"tiny:{(options.ablations / 'final.npz').resolve()}")
    there = card["parts"].get(name)
    if there is not None and not options.again:
        if about == {key: there.get(key) for key in about}:
            print(f"{told}: is there, by {line}", flush=True)
            return None
        print(f"{told}: is there of another policy or by another command, and is measured again", flush=True)
    started = time.monotonic()
    records: Sequence[Record]
    if part is None:
        print(f"{told}: $ {line}", flush=True)
        numbers, records = speed_numbers(json.loads(output_of(command))), ()
    else:
        folder = options.results / f"{name}-{_mark(*command, str(weights))}"
        run = run_of(told, command, folder, again=options.again)
        loaded = load([run.name], folder)
        numbers, records = part.numbers(loaded), loaded.records
    print(f"{told}: {len(numbers)} numbers of {len(records)} episodes, {time.monotonic() - started:.0f} s", flush=True)
    return {
        **about,
        "episodes": len(records),
        "made under": common(records),
        "numbers": {key: {**number.table(), "command": line} for key, number in numbers.items()},
    }


def common(records: Sequence[Record]) -> dict[str, str]:
    """What made the numbers, as all records say it."""
    said = {name: {record.provenance.get(name) for record in records} for name in PROVENANCE}
    return {name: value for name, values in said.items() for value in values if value is not None and len(values) == 1}


def run_of(told: str, command: Sequence[str], folder: Path, *, again: bool) -> Run:
    """The newest run of a folder, made or gone on with where it is not whole. Raises VlaError where none comes."""
    before = newest(folder)
    program, *rest = command
    if before is not None and 0 < before.planned <= before.done and not again:
        print(f"{told}: was run, in {folder}", flush=True)
        return before
    workers = rest[rest.index("-n") : rest.index("-n") + 2]
    stopped = before is not None and before.planned > 0 and before.done < before.planned
    options = ["--vla-resume", *workers] if stopped and not again else rest
    print(f"{told}: $ {shlex.join([program, *options])}", flush=True)
    called = [sys.executable, "-m", "pytest", *options, f"--vla-results={folder}", *QUIET]
    ended = subprocess.run(called, env=_environ(), check=False).returncode
    after = newest(folder)
    if after is None or after.done < after.planned or not after.planned or (again and after == before):
        raise VlaError(f"{shlex.join(called)} ended with {ended} before all episodes had run; start again to go on")
    return after


def newest(folder: Path) -> Run | None:
    """The run of a folder that began last; None: there is none."""
    if not folder.is_dir():
        return None
    with open_store(folder, create=True) as store:
        runs = store.runs()
    return runs[0] if runs else None


def output_of(command: Sequence[str]) -> str:
    """What a command of pytest-vla writes. Raises VlaError where it fails."""
    called = [sys.executable, "-m", "pytest_vla.cli", *command[1:]]
    ended = subprocess.run(called, env=_environ(), check=False, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        raise VlaError(f"{shlex.join(command)} ended with {ended.returncode}")
    return ended.stdout


def read_card(path: Path) -> Card:
    """The JSON, empty where there is none. Raises VlaError."""
    if not path.exists():
        return {"schema": SCHEMA, "parts": {}}
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VlaError(f"{path}: {error}; expected what this script wrote; remove it to measure all") from error
    if not isinstance(card, dict) or card.get("schema") != SCHEMA or not isinstance(card.get("parts"), dict):
        raise VlaError(f"{path}: expected a table with schema {SCHEMA} and parts; remove it to measure all")
    return card


def write_card(path: Path, card: Mapping[str, Any]) -> None:
    """Writes the JSON, whole or not at all."""
    with whole_file(path) as file:
        file.write((json.dumps(card, indent=1) + "\n").encode())


def _mark(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}


if __name__ == "__main__":
    sys.exit(main())
