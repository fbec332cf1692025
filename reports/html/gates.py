"""The gates of runs: what was agreed before the first episode, judged again as ``pytest-vla gate`` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.manifest import Manifest, manifest_text, read_manifest
from pytest_vla.gate.manifest import baseline_digest as digest_of
from pytest_vla.gate.measured import Measured
from pytest_vla.gate.verdicts import Judgement
from pytest_vla.records.load import open_runs
from pytest_vla.reports.agreed import judged_as_agreed
from pytest_vla.reports.baseline_runs import baseline_named, baseline_of_runs
from pytest_vla.reports.gates import verdict_line


@dataclass(frozen=True)
class GateTold:
    """What a run's gate says.

    Attributes:
        run: its name.
        line: the verdict, or why there is none.
        about: what was agreed.
        passed: whether what was required is shown.
        judgement: with the groups; None: it was not judged.
        measured: what is judged beside success; likewise.
        baseline: with which it was compared; None likewise.
        new: the run, as it was compared; None likewise.
    """

    run: str
    line: str
    about: str
    passed: bool
    judgement: Judgement | None = None
    measured: tuple[Measured, ...] = ()
    baseline: Baseline | None = None
    new: Baseline | None = None


def gates_told(texts: Sequence[str], results: Path) -> tuple[GateTold, ...]:
    """Of all runs that agreed on a gate.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found = []
    for store, runs in open_runs(texts, results):
        for run in runs:
            try:
                manifest = read_manifest(run.invocation)
            except VlaError as error:
                found.append(GateTold(run.name, f"{run.name}: gate: not judged: {error}", "", False))
                continue
            if manifest is not None:
                nodes = [item.node for item in store.items(run.name) if item.episode]
                found.append(_told(run.name, manifest, nodes, store.results))
    return tuple(found)


def _told(run: str, manifest: Manifest, nodes: Sequence[str], results: Path) -> GateTold:
    about = f"agreed before the first episode: {manifest_text(manifest, Path(manifest.baseline).name)}"
    try:
        baseline = baseline_named(manifest.baseline, results)
        new, _ = baseline_of_runs(
            [run], results, allow_broken=True, own_process=True, allow_decided=manifest.is_sequential
        )
        judged = judged_as_agreed(manifest, baseline, new, nodes)
    except VlaError as error:
        return GateTold(run, f"{run}: gate: not judged: {error}", about, False)
    # Terms, rule and measures are the manifest's; of the rest the baseline alone can have changed.
    if (digest := digest_of(baseline)) != manifest.baseline_digest:
        about += f"; not as agreed: the baseline's content is {digest[:8]} now"
    failed = f"failed by {', '.join(judged.against)}" if judged.against else "passed"
    line = f"{run}: {verdict_line(judged.judgement)}: {failed}, {manifest.required} is required"
    return GateTold(run, line, about, not judged.against, judged.judgement, judged.measured, baseline, new)
