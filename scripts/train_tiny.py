"""Make tiny's weights from nothing: init states, demonstrations, rounds of takeovers, fits, and the two files.

    python scripts/train_tiny.py --out build/tiny [--workers=2] [--until=STAGE] [--eyes=FILE.npz]

Every stage leaves a file in the folder ``--out``. A stage whose file exists is skipped, so a run that was killed
resumes where it stopped. Training needs torch (`pip install torch==2.13.0`); the weights need numpy only.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import torch
    from torch import Tensor
except ImportError as error:
    sys.exit(f"scripts/train_tiny.py trains with torch ({error}): pip install torch==2.13.0")

# Run as a file it is, whose folder Python knows, and not the checkout's.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_vla.errors import VlaError
from pytest_vla.policies.tiny.weights import load_weights, numbered, places_of, save_weights, vocabulary_of
from pytest_vla.util.files import whole_file
from scripts.tiny_fit import Rows, fit_control, fit_perception, perceived_of, read_rows, read_words, without_waits
from scripts.tiny_network import Control, Perception, exported
from scripts.tiny_rounds import Round, collect, draw_pool, outcomes_of, task_names
from scripts.tiny_words import KEPT_OUT, training_texts

GIVEN = "given"
EYES = "view.", "wrist."

Stage = tuple[str, Callable[[], None]]
"""Its name, and what it does where its file is not there."""


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes:
        demonstrations: shards of the expert, ten episodes each.
        shown: the share of their labels with pictures.
        told: of each round in which the learner is told the scene, the share of labels with pictures.
        told_shards: of each of these.
        seen_rounds: how many rounds there are in which it sees, and from whose pictures it learns to see better.
        seen_shards: of each of these.
        acted: shards of each round after these, in which it sees and learns to act alone.
        control: steps of a fit of the network that acts; and of the last.
        early: of the early checkpoint's, which learns from the demonstrations alone.
        perception: steps of a fit of the network that sees; and of the last.
        pool: init states of each task.
    """

    demonstrations: int = 45
    shown: float = 0.15
    told: tuple[float, ...] = (0.3, 0.5)
    told_shards: int = 33
    seen_rounds: int = 1
    seen_shards: int = 30
    acted: tuple[int, ...] = (28, 18)
    control: tuple[int, int] = (3000, 16000)
    early: int = 800
    perception: tuple[int, int] = (2500, 8500)
    pool: int = 120


HANDS = Plan(demonstrations=32, shown=0.0, told=(0.0,), told_shards=28, seen_rounds=0, control=(3000, 14000))
"""With eyes that are trained already: no pictures are kept."""


class Training:
    """The stages, over a folder of their files.

    Args:
        out: the folder.
        plan: how much of everything.
        workers: processes that collect.
        tasks: of the suite, for a trial; the first begins with closed drawers. None: all.
        eyes: a checkpoint whose eyes are taken as they are; None: they are trained.

    Raises:
        VlaError: the folder's files follow from another plan, from other tasks or from other eyes; or there is no
            such checkpoint.
    """

    def __init__(
        self, out: Path, plan: Plan, workers: int, tasks: tuple[str, ...] | None = None, eyes: Path | None = None
    ) -> None:
        self.out, self.plan, self.workers = out, plan, workers
        self.tasks = task_names() if tasks is None else tasks
        self.eyes = None if eyes is None else load_weights(eyes, EYES)
        out.mkdir(parents=True, exist_ok=True)
        self._keep_plan()

    def _keep_plan(self) -> None:
        """Keep the plan and the tasks beside what follows from them. Raises VlaError where others are kept."""
        path, mend = self.out / "plan.json", "name another folder with --out, or delete this folder to begin anew"
        eyes = {} if self.eyes is None else {"eyes": self.eyes.digest}
        plan = json.loads(json.dumps({**asdict(self.plan), "tasks": self.tasks, **eyes}))
        if not path.exists():
            with whole_file(path) as stream:
                stream.write(json.dumps(plan, indent=1).encode())
            return
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise VlaError(f"{path}: expected the plan of the files beside it, JSON ({error}); {mend}") from error
        if not isinstance(kept, dict):
            raise VlaError(f"{path}: expected the plan of the files beside it, a table; {mend}")
        if kept != plan:
            names = [name for name in {**plan, **kept} if kept.get(name) != plan.get(name)]
            others = "; ".join(f"{name} {kept.get(name)}, not {plan.get(name)}" for name in names)
            raise VlaError(f"{path}: the files beside it follow from another plan: {others}; {mend}")

    def words(self) -> None:
        """The instructions, as numbers of words."""
        path = self.out / "words.npz"
        if path.exists():
            return
        texts = training_texts()
        vocabulary = vocabulary_of((text for rows in texts.values() for _, text in rows), least=2)
        places = places_of(vocabulary)
        rows = [(number, text) for number, name in enumerate(self.tasks) for _, text in texts[name]]
        arrays: dict[str, Any] = {
            "words": np.array([numbered(text, places) for _, text in rows]),
            "tasks": np.array([number for number, _ in rows]),
            "vocabulary": np.array(vocabulary),
        }
        with whole_file(path) as stream:
            np.savez(stream, **arrays)

    def vocabulary(self) -> tuple[str, ...]:
        """The words, by their numbers."""
        with np.load(self.out / "words.npz") as found:
            return tuple(str(word) for word in found["vocabulary"])

    def keep_seconds(self, stage: str, seconds: float) -> None:
        """Add how long a stage took, where it did something, to `times.json`."""
        times = self.times()
        if seconds > 1.0 and stage not in times:
            times[stage] = round(seconds, 1)
            with whole_file(self.out / "times.json") as stream:
                stream.write(json.dumps(times, indent=1).encode())

    def times(self) -> dict[str, float]:
        """How long stages took, s."""
        path = self.out / "times.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    def rows(self, last: int, *, pictures: bool) -> Rows:
        """All rows of the rounds up to one."""
        paths = [
            path for number in range(last + 1) for path in sorted((self.out / f"round-{number}").glob("shard-????.npz"))
        ]
        return read_rows(paths, pictures=pictures)

    def control(self, name: str, last: int, steps: int, begun: str | None = None, sees: str | None = None) -> None:
        """Fit the network that acts to the rounds up to one; with the output of perception `sees` if it is named."""
        path = self.out / f"{name}.pt"
        if path.exists():
            return
        rows = without_waits(self.rows(last, pictures=sees is not None))
        words = read_words(self.out / "words.npz")
        perceived = None if sees is None else self.perceived(rows, sees)
        start = None if begun is None else torch.load(self.out / f"{begun}.pt", weights_only=True)
        network = fit_control(rows, words, len(self.vocabulary()), steps, begun=start, perceived=perceived)
        with whole_file(path) as stream:
            torch.save(network.state_dict(), stream)

    def perceived(self, rows: Rows, sees: str) -> tuple[Tensor, Tensor]:
        """Some of the rows (n,), and what a network tells of them (n, 40): of their pictures where these were kept.

        Where they were not, what the learner saw as it drove stands for it: with those eyes, which are the same since.
        """
        if not len(rows.rows):
            return rows.seen_rows, rows.seen
        told = perceived_of(self.perception_of(sees), rows, torch.arange(len(rows.rows)))
        alone = ~torch.isin(rows.seen_rows, rows.rows)
        return torch.cat([rows.rows, rows.seen_rows[alone]]), torch.cat([told, rows.seen[alone]])

    def perception(self, name: str, last: int, steps: int, begun: str | None = None) -> None:
        """Fit the network that sees to the rounds up to one."""
        path = self.out / f"{name}.pt"
        if path.exists():
            return
        rows = self.rows(last, pictures=True)
        start = None if begun is None else torch.load(self.out / f"{begun}.pt", weights_only=True)
        network = fit_perception(rows, steps, begun=start)
        with whole_file(path) as stream:
            torch.save(network.state_dict(), stream)

    def perception_of(self, name: str) -> Perception:
        """A network that sees, from its file."""
        network = Perception()
        network.load_state_dict(torch.load(self.out / f"{name}.pt", weights_only=True))
        network.eval()
        return network

    def seeing(self, perception: str | None) -> dict[str, npt.NDArray[np.float32]]:
        """The weights of a network that sees, as numpy has them: of `GIVEN` those of the checkpoint."""
        if perception is None:
            return {}
        if perception == GIVEN:
            assert self.eyes is not None
            return dict(self.eyes.weights)
        return exported(self.perception_of(perception), None)

    def driver(self, control: str, perception: str | None) -> str:
        """The npz of weights that drive a round."""
        path = self.out / f"{control}-{perception}.npz"
        if not path.exists():
            network = Control(len(self.vocabulary()))
            network.load_state_dict(torch.load(self.out / f"{control}.pt", weights_only=True))
            weights: dict[str, Any] = {**exported(None, network), **self.seeing(perception)}
            with whole_file(path) as stream:
                np.savez(stream, **weights)
        return str(path)

    def ship(self, name: str, control: str, perception: str, rounds: int, target: Path) -> None:
        """Write a checkpoint, with what it was trained on."""
        if target.exists():
            return
        rows = self.rows(rounds, pictures=True)
        network = Control(len(self.vocabulary()))
        network.load_state_dict(torch.load(self.out / f"{control}.pt", weights_only=True))
        about = {
            "name": name,
            "rounds": rounds,
            "labels": len(rows.tasks),
            "pictures": len(rows.rows),
            # Round 0 is the teacher's; in the others the learner drives, and the teacher relieves it.
            "outcomes": [outcomes_of(self.out, number, self.tasks) for number in range(rounds + 1)],
            "kept_out": [".".join(cell) for cell in KEPT_OUT],
            "plan": asdict(self.plan),
            "seconds": self.times(),
            "torch": torch.__version__,
        }
        if perception == GIVEN and self.eyes is not None:
            about["eyes"] = {"digest": self.eyes.digest, **self.eyes.about}
        weights = {**self.seeing(perception), **exported(None, network)}
        save_weights(target, weights, self.vocabulary(), about)
        print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")

    def round(
        self, number: int, shards: int, pictures: float, control: str | None, perception: str | None = None
    ) -> None:
        """Collect a round."""
        learner = None if control is None else self.driver(control, perception)
        words = str(self.out / "words.npz")
        wanted = Round(number, shards, pictures, self.tasks, learner, perception is not None, words)
        collect(self.out, wanted, self.workers)


def train(training: Training, until: str | None = None) -> None:
    """Run all stages in order; `until` names the last to run."""
    plan = training.plan
    told = len(plan.told)
    stages: list[Stage] = [
        ("states", lambda: draw_pool(training.out, training.workers, plan.pool, training.tasks)),
        ("words", training.words),
        ("round-0", lambda: training.round(0, plan.demonstrations, plan.shown, None)),
        ("control-0", lambda: training.control("control-0", 0, plan.control[0])),
    ]

    def tell(number: int) -> None:
        before, now = f"control-{number - 1}", f"control-{number}"
        stages.append(
            (f"round-{number}", lambda: training.round(number, plan.told_shards, plan.told[number - 1], before))
        )
        stages.append((now, lambda: training.control(now, number, plan.control[0], begun=before)))

    def see(number: int) -> None:
        ends, closes = number == seen, number == last
        control, eyes = f"control-{number - 1}", f"perception-{1 if number == told + 1 else number - 1}"
        now, sees = f"control-{number}", f"perception-{number}"
        stages.append((f"round-{number}", lambda: training.round(number, plan.seen_shards, 1.0, control, eyes)))
        stages.append((sees, lambda: training.perception(sees, number, plan.perception[ends], begun=eyes)))
        stages.append((now, lambda: training.control(now, number, plan.control[closes], begun=control, sees=sees)))

    def act(number: int, eyes: str) -> None:
        before, now = f"control-{number - 1}", f"control-{number}"
        shards, steps = plan.acted[number - seen - 1], plan.control[number == last]
        stages.append((f"round-{number}", lambda: training.round(number, shards, 0.0, before, eyes)))
        stages.append((now, lambda: training.control(now, number, steps, begun=before, sees=eyes)))

    seen = told + plan.seen_rounds
    last = seen + len(plan.acted)
    for number in range(1, told + 1):
        tell(number)
        if number == 1 and training.eyes is None:
            stages.append(("perception-1", lambda: training.perception("perception-1", 1, plan.perception[0])))
    for number in range(told + 1, seen + 1):
        see(number)
    first, eyes = ("perception-1", f"perception-{seen}") if training.eyes is None else (GIVEN, GIVEN)
    for number in range(seen + 1, last + 1):
        act(number, eyes)
    stages.append(("control-early", lambda: training.control("control-early", 0, plan.early)))
    stages.append(("early", lambda: training.ship("early", "control-early", first, 0, training.out / "early.npz")))
    final = training.out / "final.npz"
    stages.append(("final", lambda: training.ship("final", f"control-{last}", eyes, last, final)))
    for name, stage in stages:
        started = time.monotonic()
        print(f"{name} ...", flush=True)
        stage()
        training.keep_seconds(name, time.monotonic() - started)
        if name == until:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the stages' files")
    parser.add_argument("--workers", type=int, default=2, help="processes that collect, and threads that fit")
    parser.add_argument("--until", help="the last stage to do, such as control-1")
    parser.add_argument(
        "--eyes", type=Path, metavar="FILE.npz", help="a checkpoint whose eyes are taken: the hands alone are trained"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.workers)
    try:
        plan = Plan() if options.eyes is None else HANDS
        training = Training(options.out, plan, options.workers, eyes=options.eyes)
        train(training, options.until)
    except VlaError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
