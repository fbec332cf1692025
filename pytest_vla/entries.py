"""Entries, which hooks return: declarations of suites, workspaces, policies, variations, metrics, sections and more."""

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
    """The declaration of a suite.

    Attributes:
        name: the name for ``--vla-suite``.
        about: one line.
        load: names a `pytest_vla.plan.manifests.Suite`, or a function without arguments that returns one; empty if the
            suite is a folder.
        folder: the folder with the suite's manifest, task files, init states and assets; None if the suite is loaded.
        manifest: the manifest's name in the folder. With another name than the default, several suites can have one
            folder; they share pytest-vla's module.
        aliases: other accepted names, such as a benchmark's own ids; an alias of several suites means all of them.
        home: the folder in which the benchmark's checkout has the data, as ``libero`` in ``LIBERO/libero/libero``.
        origin: the package or module that declares it; set by pytest-vla.
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
    """The declaration of a problem class of task files: its table or floor, robot and categories.

    Attributes:
        name: the name in ``(problem NAME)`` of task files, in lower case.
        about: one line.
        load: names a `pytest_vla.scene.workspaces.Workspace`.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class PolicyEntry:
    """The declaration of a kind of policy, ``--vla-model=NAME`` or ``--vla-model=NAME:TEXT``.

    Attributes:
        name: the part before the colon.
        about: one line.
        load: names a function that returns a policy. It is called with the text after the colon (empty if there is
            none) and with the arguments of ``NAME:TEXT?NAME=VALUE`` as keywords. Empty if `kind` is given.
        kind: names a `pytest_vla.policies.spec.PolicyType`, which can also check and digest the text.
        evaluator: the evaluator (`pytest_vla.plan.evaluators`) of its episodes where the options give none.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str = ""
    kind: str = ""
    evaluator: str = ""
    origin: str = ""


@dataclass(frozen=True)
class VariationEntry:
    """The declaration of kinds of variation that any task may have.

    Attributes:
        name: the group's name, such as the dimension of its kinds.
        about: one line.
        load: names a sequence of `pytest_vla.vary.kind.VariationKind`.
        order: its place; the parts of a joint variation are made in this order. Ours are 10 (the scene) to 100
            (actions).
        files: files of a user's data folder that the kinds read: names, up to three folders deep; a pattern such as
            ``*.csv`` means a file that is given by itself.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    order: int = LAST
    files: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class ListEntry:
    """The declaration of a list of varied tasks, for suites whose manifest says ``varied = "NAME"``.

    Attributes:
        name: the name in manifests.
        about: one line.
        load: names a `pytest_vla.vary.kind.VariationListing`.
        graded: whether a variation's level is the amount of change, so that levels form a curve.
        files: as for `VariationEntry`.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    graded: bool = True
    files: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class MetricEntry:
    """The declaration of a metric: a number of each episode, kept in `Record.metrics` under this name.

    Attributes:
        name: the name in records, exports and reports.
        about: one line, with the unit.
        load: names a function of a `Record` and its `Trajectory`, called when the episode has ended. It returns a
            number, a `pytest_vla.records.record.MetricResult`, or None if there is no value. It must not change the
            record, which is compared by other means.
        origin: the package or module that declares it; set by pytest-vla.
        on_request: whether it is kept only if ``--vla-metrics`` names it or is ``all``; else it is always kept.
        aliases: other names that ``--vla-metrics`` accepts, such as a paper's.
        needs: the recordings that it needs, of `NEEDS`; a recording that no metric needs costs no time.
        beside: names of metrics that are kept whenever this one is.
        looks_back: the number of control steps whose actions and answers determine the latest value of its series, so
            that ``--vla-stop-when`` can use it while an episode runs; it is then called with None for the record. 0 if
            it is known only when the episode is over.
        padding: by key of its series (``""`` is its own), the number of control steps at the beginning that have a
            filler instead of a value, as in ``(("", 7),)``. Alarms and failure prediction skip these steps. Steps with
            nan need no padding.
        within: the least and the largest possible number, by the part of the name after a dot, such as ``paper`` for
            ``NAME.paper``; the empty text is the metric itself. Intervals of means stay within it. A number that is not
            declared is unbounded.
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
    """The declaration of a part of ``pytest-vla report``.

    Attributes:
        name: the part's name.
        about: its topic, as in "the tables of LIBERO-Plus".
        load: names a function of `pytest_vla.reports.loaded.Loaded` and the command's options. It returns a
            `pytest_vla.reports.sections.Section`, or None if the records have nothing for it.
        order: its place.
        schema: names a function without arguments that returns a `pytest_vla.reports.json_schema.SectionSchema`, the
            part's schema in JSON; empty to allow any keys.
        origin: the package or module that declares it; set by pytest-vla.
        on_request: whether it is made only if ``--section`` names it or is ``all``.
    """

    name: str
    about: str
    load: str
    order: int = LAST
    schema: str = ""
    origin: str = ""
    on_request: bool = False


@dataclass(frozen=True)
class PaperEntry:
    """The declaration of a paper for ``pytest-vla report --paper=NAME`` and ``pytest-vla reproduce NAME``.

    Attributes:
        name: the paper's short name.
        about: its topic, in one line.
        load: names a `pytest_vla.reports.papers.Paper`.
        has_models: whether some of its tables are about policies, so that ``--paper`` prints them.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    has_models: bool = True
    origin: str = ""


@dataclass(frozen=True)
class ImporterEntry:
    """The declaration of ``pytest-vla import NAME``.

    Attributes:
        name: the name of the program that wrote the logs.
        about: one line.
        load: names a `pytest_vla.records.load.Importer`.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class Command:
    """A subcommand of ``pytest-vla``, which a `CommandEntry` names.

    Attributes:
        declare: called with the command's parser, to which it adds its arguments and an epilog.
        run: called with the parsed arguments. Its prints are the command's output; it returns the exit code, or None
            for 0. A `pytest_vla.errors.VlaError` is printed on standard error, and the exit code is then `trouble`.
        trouble: the exit code of a failed command; other than 1 if 1 is a result.
    """

    declare: "Callable[[ArgumentParser], None]"
    run: "Callable[[Namespace], int | None]"
    trouble: int = 1


@dataclass(frozen=True)
class CommandEntry:
    """The declaration of ``pytest-vla NAME``.

    Attributes:
        name: the subcommand's name; pytest-vla's own commands cannot be replaced.
        about: one line.
        load: names a `Command`. Its module is imported when the command is run.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    origin: str = ""


@dataclass(frozen=True)
class TrackerEntry:
    """The declaration of an experiment tracker, ``--vla-track=NAME``.

    Attributes:
        name: its name.
        about: one line.
        load: names a function that is called with a `pytest_vla.track.tracker.TrackedRun` before the first episode, in
            the process that was started by hand, and returns a `pytest_vla.track.tracker.Tracker`. Its exceptions end
            the run before it begins.
        module: the module that has to be installed; empty for none. If it is missing pytest ends before anything runs.
        install: the command that installs the module; empty for pytest-vla's extra of the entry's name.
        takes_files: whether it is given the run's reports at the end, which take time to make.
        origin: the package or module that declares it; set by pytest-vla.
    """

    name: str
    about: str
    load: str
    module: str = ""
    install: str = ""
    takes_files: bool = True
    origin: str = ""
