"""Visual grounding: sections on episodes with black pictures or without objects, and on where a policy looks."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.language_grounding import GroundingShare
from pytest_vla.metrics.rates import percents
from pytest_vla.metrics.visual_grounding import BLINDED, GONE, NEAR, Looked, Looking, looked
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Heading, Sentence, Table, cell_text, notes
from pytest_vla.reports.html.media import MediaShown, media_of
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.show.occlusion import GRID
from pytest_vla.util.text import counted

HALF = 0.5
"""An interval above or below this share allows a conclusion on the policy."""

_VIEWS = dict(zip(BLINDED, ("the pictures from outside", "the wrist's pictures", "all pictures"), strict=True))


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no episode is such a probe."""
    found = make_looking(loaded)
    if not found:
        return None
    models = {(model.model, model.suite, ""): j.written(_MODELS, model) for model in found}
    return Section(lambda: looking_blocks(found), j.written(_METHODS, None), models, title="Visual grounding")


def make_looking(loaded: Loaded) -> tuple[Looked, ...]:
    """Compute what the probes of `pytest_vla.metrics.visual_grounding` show, for each model and suite with probes."""
    troubles: dict[str, None] = {}

    def path(record: Record) -> "NDArray[Any] | None":
        try:
            found = loaded.trajectory(record)
        except VlaError as error:
            troubles[str(error)] = None
            return None
        path = None if found is None else found.eef_pos
        return path if path is not None and path.ndim == 2 and len(path) and path.shape[1] == 3 else None

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


# In JSON: percentages 0..100, differences in points, distances in m; see `pytest_vla.metrics.visual_grounding.Looking`.


def _scaled(unit: float) -> j.Shape:
    """Return the type of an estimate, or null."""
    keys = {
        "value": j.NUMBER.of(lambda estimate: unit * estimate.value),
        "interval": j.INTERVAL.of(
            lambda estimate: None if estimate.interval is None else [unit * bound for bound in estimate.interval]
        ),
    }
    return j.maybe(j.row(keys))


_SHARE = j.row({"count": j.COUNT, "of": j.COUNT, "interval": j.INTERVAL.of(lambda share: percents(share.interval))})
_METHODS = j.methods(
    "looking",
    {
        "confidence": CONFIDENCE,
        "over": "these tasks",
        "rates": "Wilson, pairs of one task and seed counted together",
        "differences": "Student's t over tasks and seeds, half a pair lost and half a pair won added",
        "distances": (
            "exact DTW of 50 points each, over 50, of the path as long as its twin's, m; Student's t over tasks "
            "and seeds"
        ),
        "near": j.NUMBER.always(NEAR),
    },
)
_PROBE: j.Keys = {
    "probe": j.TEXT, "pairs": j.COUNT, "right": _SHARE, "blind": _SHARE, "difference": _scaled(100.0), "lost": j.COUNT,
    "gained": j.COUNT, "apart": _scaled(1.0), "usual": j.maybe(j.NUMBER), "noise": j.maybe(j.NUMBER), "same": _SHARE,
    "went": _SHARE,
}  # fmt: skip
_MODELS: j.Keys = {"looking": j.listed(j.row(_PROBE)).of("probes")}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def looking_blocks(found: Sequence[Looked]) -> Iterator[Block]:
    """Yield the section's blocks."""
    yield Sentence(
        f"Visual grounding. In brackets: {CONFIDENCE:.0%} intervals over these tasks. Probes are in no success rate"
    )
    for model in found:
        yield Heading(f"{model.model}, {model.suite}", (model.model, model.suite, ""))
        yield from notes(model.left_out)
        yield from (Sentence(_sentence(probe)) for probe in model.probes)
        yield from _tables(model.probes)


def _tables(probes: Sequence[Looking]) -> Iterator[Table]:
    if probes:
        yield Table(
            "Success with the probe, and of its twins that see",
            (
                *map(Column, ("probe", "pairs")),
                Column("seeing", ".0%"),
                Column("with it", ".0%"),
                Column("difference, points", "+.1f", 100),
            ),
            tuple((e.probe, e.pairs, e.right, e.blind, e.difference) for e in probes),
            "success",
        )
    if any(probe.apart is not None for probe in probes):
        yield Table(
            "Its hand's path and its twin's, apart on average; usual: of benign episodes of a task, from other seeds; "
            "noise: of one episode under other run seeds",
            (
                Column("probe"),
                Column("apart, cm", ".1f", 100),
                Column("usual", ".1f", 100),
                Column("noise", ".1f", 100),
                Column("as is usual", ".0%"),
                Column("went there", ".0%"),
            ),
            tuple((e.probe, e.apart, e.usual, e.noise, e.same, e.went) for e in probes),
            "paths",
        )


def _sentence(probe: Looking) -> str:
    if probe.probe != GONE:
        return _of_blackout(probe)
    told = []
    if probe.same.of:
        told.append(f"the hand took its usual path in {_share(probe.same)}")
    if probe.went.of:
        told.append(f"the hand went to the object's usual place in {_share(probe.went)}")
    if not told:
        return "With the target object removed: not determined, as no twin has a path to compare with"
    return f"With the target object removed, {' and '.join(told)}: {_conclusion(probe)}"


def _conclusion(probe: Looking) -> str:
    """Return the conclusion: from where the hand went if that is known, else from its path."""
    share = probe.went if probe.went.of else probe.same
    low, high = share.interval or (0.0, 1.0)
    if low > HALF:
        return "the policy mostly ignores whether it is there"
    return "the policy mostly checks whether it is there" if high < HALF else "not determined whether the policy looks"


def _of_blackout(probe: Looking) -> str:
    view, interval = _VIEWS[probe.probe], None if probe.difference is None else probe.difference.interval
    did = f"Without {view} the policy succeeded in {_share(probe.blind)}, with them in {_share(probe.right)}"
    if interval is not None and interval[1] < 0:
        return f"{did}: it needs them"
    if not probe.right.count:
        return f"{did}: not determined, as it never succeeded with them"
    return f"{did}: no evidence that it needs them"


def _share(share: GroundingShare) -> str:
    return cell_text(share, Column("", ".0%"))


# Where a policy looks: the numbers of the maps that ``--occlusion`` draws on a page (LIBERO-Plus, Fig. 12).


def occlusion_section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None without ``--occlusion``; a page draws the maps instead."""
    policy_of = getattr(options, "policy_of", None)
    if policy_of is None:
        return None
    runs = {run.name: run for _, some in open_runs(options.which, options.results) for run in some}
    most, of_failed = options.occlusion
    shown = MediaShown(0, data=options.data, occlusions=most, occluded_failed=of_failed, policy_of=policy_of)
    media, left_out = media_of(loaded.records, runs, loaded.folders, shown)
    maps = [
        {"model": record.policy, "case": record.case, **{name: look[name] for name in ("camera", "floor", "changes")}}
        for place, found in media.items()
        for record in [loaded.records[place]]
        for look in found.get("looks", ())
    ]
    return Section(lambda: _map_blocks(maps, left_out), {"occlusion": {"maps": maps, "left_out": left_out}}, {})


def _map_blocks(maps: Sequence[Mapping[str, Any]], left_out: Sequence[str]) -> Iterator[Block]:
    yield Sentence(
        "Where does the policy look? How much its first answer changes if a patch of a picture is covered in grey, by "
        "row and column of the patch from the top left; floor: how much it changes if nothing is covered"
    )
    yield from notes(left_out)
    columns = (*map(Column, ("model", "case", "camera", "row")), Column("floor", ".3g"))
    patches = (Column(str(number), ".3g") for number in range(1, GRID + 1))
    rows = tuple(
        (one["model"], one["case"], one["camera"], str(number), one["floor"], *row)
        for one in maps
        for number, row in enumerate(one["changes"], 1)
    )
    if rows:
        yield Table("Occlusion maps", (*columns, *patches), rows, "maps", names=4)


def occlusion_schema() -> j.SectionSchema:
    """Return the schema of the key ``occlusion``."""
    names: j.Keys = dict.fromkeys(("model", "case", "camera"), j.TEXT)
    one = j.row({**names, "floor": j.NUMBER, "changes": j.listed(j.listed(j.NUMBER))})
    return j.SectionSchema({"occlusion": j.row({"maps": j.listed(one), "left_out": j.listed(j.TEXT)})}, {})
