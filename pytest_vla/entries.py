"""What hooks give: declarations of suites, workspaces, policies, variations, metrics, sections and more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

MANIFEST = "suite.toml"
"""The manifest of a folder with one suite."""

NAMES = "letters, digits, _ - and ., with a letter or a digit first"
"""Of what the names of all entries are."""

LAST = 1000
"""The place in an order of what does not say one."""


@dataclass(frozen=True)
class SuiteEntry:
    """A suite.

    Attributes:
        name: as ``--vla-suite`` has it.
        about: one line.
        load: names a `pytest_vla.plan.manifests.Suite`, or what is called without arguments and returns one; empty: it
            is a folder.
        folder: with the suite's manifest, task files, init states and assets; None: it is loaded.
        manifest: the file's name in the folder; where it is another, several suites can have one folder, and share
            pytest-vla's module.
        aliases: further names that are accepted for it, such as a benchmark's own ids; one that several suites have
            means all of them.
        home: the folder in which its benchmark's checkout has the data, as ``libero`` in ``LIBERO/libero/libero``.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str = ""
    folder: Path | None = None
    manifest: str = MANIFEST
    aliases: tuple[str, ...] = ()
    home: str = ""
    origin: str = ""


@dataclass(frozen=True)
class WorkspaceEntry:
    """A problem class of task files: the table or floor, the robot and the categories that it stands for.

    Attributes:
        name: as task files have it in ``(problem NAME)``, in lower case.
        about: one line.
        load: names a `pytest_vla.scene.workspaces.Workspace`.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class PolicyEntry:
    """A kind of policy, ``--vla-model=NAME`` or ``--vla-model=NAME:TEXT``.

    Attributes:
        name: what stands before the colon.
        about: one line.
        load: names what is called with the text after the colon (empty where there is none) and with the arguments of
            ``NAME:TEXT?NAME=VALUE`` as keywords, and returns a policy; empty: `kind` says more.
        kind: names a `pytest_vla.policies.spec.PolicyType`, which can check and digest the text too.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str = ""
    kind: str = ""
    origin: str = ""


@dataclass(frozen=True)
class VariationEntry:
    """Kinds of variation that any task may have.

    Attributes:
        name: of the group, such as their dimension's.
        about: one line.
        load: names a sequence of `pytest_vla.vary.kind.VariationKind`.
        order: its place; the parts of a joint variation are done in this order. Ours are 10 (the scene) to 100
            (actions).
        files: of a user's data folder, which the kinds are read from: names, up to three folders deep; a pattern such
            as ``*.csv`` is of a file that is given by itself.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    order: int = LAST
    files: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class ListEntry:
    """What suites consist of that are varied by themselves: their manifest says ``varied = "NAME"``.

    Attributes:
        name: as manifests have it.
        about: one line.
        load: names a `pytest_vla.vary.kind.VariationListing`.
        graded: whether a variation's level is how much is varied, so that levels make a curve.
        files: as for `VariationEntry`.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    graded: bool = True
    files: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class MetricEntry:
    """A number of each episode, kept in `Record.metrics` under this name.

    Attributes:
        name: as records, exports and reports have it.
        about: one line, with the unit.
        load: names what is called with a `Record` and its `Trajectory` when the episode has ended, and returns a
            number, a `pytest_vla.records.record.MetricResult`, or None: there is none. Its records are compared by
            other means, so it must not change them.
        origin: who gave it; pytest-vla writes it.
        on_request: it is kept only where ``--vla-metrics`` names it, or says ``all``; else always.
        aliases: further names that ``--vla-metrics`` takes for it, such as a paper's.
        needs: what has to be recorded for it, of `NEEDS`: nothing of it costs time where no metric needs it.
        beside: names of metrics that are kept wherever this one is.
        looks_back: control steps whose actions and answers say what its series have of the last of them, so that
            ``--vla-stop-when`` can look at it while an episode runs; it is then called with None for the record. 0: it
            is known only when the episode is over.
        padding: of its series, by key (``""`` is its own), how many control steps at the beginning have a filler
            instead of a value, as in ``(("", 7),)``. To alarms and to what foretells failure they have none. Where nan
            stands it needs no saying.
        within: the least and the largest number that it can be, by what stands behind its name and a dot, such as
            ``paper`` of ``NAME.paper``; by the empty text its own. Intervals of means are within it; what is not
            declared may be any number.
    """

    name: str
    about: str
    load: str
    origin: str = ""
    on_request: bool = False
    aliases: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    looks_back: int = 0
    padding: tuple[tuple[str, int], ...] = ()
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)


TOKENS, SAMPLES, REMAINING, HANDLING = "token probabilities", "samples", "remaining distance", "joints and contacts"

NEEDS = (TOKENS, SAMPLES, REMAINING, HANDLING)
"""What a metric may need beside states and actions: the probabilities of a policy's tokens, further draws of its
actions, how far the object of the task is from where it is to be, and the arm's joint limits, what it holds and
touches."""


@dataclass(frozen=True)
class SectionEntry:
    """A part of ``pytest-vla report``.

    Attributes:
        name: of the part.
        about: what it is about, as in "the tables of LIBERO-Plus".
        load: names what is called with `pytest_vla.reports.loaded.Loaded` and the command's options, and returns a
            `pytest_vla.reports.sections.Section` or None: the records have nothing of it.
        order: its place.
        schema: names what is called without arguments, and returns a `pytest_vla.reports.json_schema.SectionSchema`:
            what the part has in JSON. Empty: any keys.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    order: int = LAST
    schema: str = ""
    origin: str = ""


@dataclass(frozen=True)
class ImporterEntry:
    """What ``pytest-vla import NAME`` does.

    Attributes:
        name: of what wrote the logs.
        about: one line.
        load: names a `pytest_vla.commands.import_.Importer`.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class Command:
    """What a `CommandEntry` names.

    Attributes:
        declare: called with the command's parser, which it gives its arguments and an epilog.
        run: called with what was parsed. What it prints is the command's output, and an int that it returns is the exit
            code, None is 0; a `pytest_vla.errors.VlaError` is told on standard error, and the exit code is then
            `trouble`.
        trouble: the exit code where it could not be done; another than 1 where 1 is an answer.
    """

    declare: "Callable[[ArgumentParser], None]"
    run: "Callable[[Namespace], int | None]"
    trouble: int = 1


@dataclass(frozen=True)
class CommandEntry:
    """What ``pytest-vla NAME`` does.

    Attributes:
        name: what is typed; pytest-vla's own commands cannot be replaced.
        about: one line.
        load: names a `Command`. Its module is imported when the command is typed.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class TrackerEntry:
    """A tracker of experiments, ``--vla-track=NAME``.

    Attributes:
        name: as it is typed.
        about: one line.
        load: names what is called with a `pytest_vla.track.tracker.TrackedRun` before the first episode, in the process
            that was started by hand, and returns a `pytest_vla.track.tracker.Tracker`. What it raises ends the run
            before it begins.
        module: that has to be installed; empty: none. Where it is missing pytest ends before anything runs.
        install: what installs it; empty: pytest-vla's extra of the entry's name.
        takes_files: whether it is given the run's reports at the end, which take time to make.
        origin: who gave it; pytest-vla writes it.
    """

    name: str
    about: str
    load: str
    module: str = ""
    install: str = ""
    takes_files: bool = True
    origin: str = ""
