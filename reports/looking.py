"""Does a policy look? Black pictures, and objects that are not there: for people in words, for programs as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.listening import Estimate, Share
from pytest_vla.metrics.looking import BLINDED, GONE, NEAR, Looked, Looking, looked
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

HALF = 0.5
"""What is sure of more, or of less, than half of the episodes is said of the policy."""

_VIEWS = dict(zip(BLINDED, ("the pictures from outside", "the wrist's pictures", "all pictures"), strict=True))


def make_looking(loaded: Loaded) -> tuple[Looked, ...]:
    """What such probes tell, of each model and suite that has any; see `pytest_vla.metrics.looking`."""
    troubles: dict[str, None] = {}

    def path(record: Record) -> "NDArray[Any] | None":
        if record.arrays is None:
            return None
        try:
            found = load_trajectory(trajectory_file(loaded.folders[record.run], record.arrays)).eef_pos
        except VlaError as error:
            troubles[str(error)] = None
            return None
        return found if found.ndim == 2 and len(found) and found.shape[1] == 3 else None

    found = looked(loaded.records, path)
    unread = f"{counted(len(troubles), 'trajectory file')} cannot be read: {next(iter(troubles), '')}"
    return tuple(
        Looked(
            model.model,
            model.suite,
            model.probes,
            (*model.left_out, *unfinished_of(model.records, loaded), *([unread] if troubles else [])),
            model.records,
        )
        for model in found
    )


# For programs


def methods_table() -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "over": "these tasks",
        "rates": "Wilson, pairs of one task and seed counted together",
        "differences": "Student's t over tasks and seeds, half a pair lost and half a pair won added",
        "distances": "exact DTW of 50 points each, over 50, of the path as long as its twin's, m; Student's t over "
        "tasks and seeds",
        "near": NEAR,
    }


def looking_table(found: Looked) -> list[dict[str, Any]]:
    """``looking`` of a model and suite in JSON, one for each probe: percentages 0..100, differences in points, m.

    ``probe``, ``pairs``, ``right``, ``blind``, ``same`` and ``went`` (``count``, ``of``, ``interval``), ``difference``
    and ``apart`` (``value``, ``interval``; null), ``lost``, ``gained``, ``usual`` and ``noise`` (null): see
    `pytest_vla.metrics.looking.Looking`.
    """
    return [
        {
            "probe": probe.probe,
            "pairs": probe.pairs,
            "right": _share_table(probe.right),
            "blind": _share_table(probe.blind),
            "difference": _estimate_table(probe.difference, 100.0),
            "lost": probe.lost,
            "gained": probe.gained,
            "apart": _estimate_table(probe.apart, 1.0),
            "usual": probe.usual,
            "noise": probe.noise,
            "same": _share_table(probe.same),
            "went": _share_table(probe.went),
        }
        for probe in found.probes
    ]


def _share_table(share: Share) -> dict[str, Any]:
    interval = None if share.interval is None else [100 * bound for bound in share.interval]
    return {"count": share.count, "of": share.of, "interval": interval}


def _estimate_table(estimate: Estimate | None, unit: float) -> dict[str, Any] | None:
    if estimate is None:
        return None
    interval = None if estimate.interval is None else [unit * bound for bound in estimate.interval]
    return {"value": unit * estimate.value, "interval": interval}


# For people


def looking_lines(found: Sequence[Looked]) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found))


def _lines(found: Sequence[Looked]) -> Iterator[str]:
    yield f"Does it look? In brackets: {CONFIDENCE:.0%} intervals over these tasks. Probes are in no success rate"
    for model in found:
        yield ""
        yield f"=== {model.model}, {model.suite} ==="
        yield from notes(model.left_out)
        for probe in model.probes:
            yield from wrapped(_sentence(probe))
        if model.probes:
            yield ""
            yield from _table(model.probes)


def _table(probes: Sequence[Looking]) -> Iterator[str]:
    done: list[tuple[str, ...]] = [("probe", "pairs", "seeing", "with it", "difference, points")]
    paths: list[tuple[str, ...]] = [("probe", "apart, cm", "usual", "noise", "as is usual", "went there")]
    for probe in probes:
        difference = "-"
        if probe.difference is not None:
            difference = f"{100 * probe.difference.value:+.1f}{_bounds(probe.difference, '+.1f')}"
        apart = "-" if probe.apart is None else f"{100 * probe.apart.value:.1f}{_bounds(probe.apart, '.1f')}"
        usual, noise = ("-" if value is None else f"{100 * value:.1f}" for value in (probe.usual, probe.noise))
        done.append((probe.probe, str(probe.pairs), _share(probe.right), _share(probe.blind), difference))
        paths.append((probe.probe, apart, usual, noise, _share(probe.same), _share(probe.went)))
    yield from aligned(done, 1)
    if any(probe.apart is not None for probe in probes):
        yield ""
        yield from wrapped(
            "Its hand's path and its twin's, apart on average; usual: of benign episodes of a task, from other seeds; "
            "noise: of one episode under other run seeds"
        )
        yield from aligned(paths, 1)


def _sentence(probe: Looking) -> str:
    if probe.probe != GONE:
        return _of_blackout(probe)
    told = []
    if probe.same.of:
        told.append(f"its path was the usual one in {_share(probe.same)}")
    if probe.went.of:
        told.append(f"its hand went where that would have been in {_share(probe.went)}")
    if not told:
        return "With what it should fetch taken away: not determined, as no twin has a path to compare with"
    return f"With what it should fetch taken away, {' and '.join(told)}: {_conclusion(probe)}"


def _conclusion(probe: Looking) -> str:
    """Of where the hand went, where that is known, else of the path: what is sure of more or of less than half."""
    share = probe.went if probe.went.of else probe.same
    low, high = share.interval or (0.0, 1.0)
    if low > HALF:
        return "mostly it does not look whether it is there"
    return "mostly it looks whether it is there" if high < HALF else "whether it looks is not determined"


def _of_blackout(probe: Looking) -> str:
    view, interval = _VIEWS[probe.probe], None if probe.difference is None else probe.difference.interval
    did = f"Without {view} it did the task in {_share(probe.blind)}, and seeing them in {_share(probe.right)}"
    if interval is not None and interval[1] < 0:
        return f"{did}: it needs them"
    if not probe.right.count:
        return f"{did}: there was nothing to lose, so that nothing is known"
    return f"{did}: that it needs them is not shown"


def _share(share: Share) -> str:
    if share.interval is None:
        return "-"
    return "{}/{} [{:.0%}, {:.0%}]".format(share.count, share.of, *share.interval)


def _bounds(estimate: Estimate, how: str) -> str:
    """Of a share in points, or of m in cm."""
    if estimate.interval is None:
        return ""
    low, high = (format(100 * bound, how) for bound in estimate.interval)
    return f" [{low}, {high}]"
