"""Kinds of variation, and the draws that a variation is made from."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pytest_vla.errors import VARIATION_BROKEN, EpisodeError, VlaError
from pytest_vla.plan.case import chosen_name, dimension_of, level_of, levelled, part_of, parted, within
from pytest_vla.plan.task import NEEDS_STATE, Task
from pytest_vla.scene.variation import INSTRUCTION, Edits, ModelEdit, Params, Variation, varied
from pytest_vla.util.warnings import describe, ends_episode
from pytest_vla.vary.space import Parameter, Space, complaints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVELS = (1, 2, 3, 4, 5)
"""Of every kind of ours, even steps, see `Draw.share`; what is not even about them, `VariationKind.uneven` says."""

AMOUNT, PICTURE = "the amount", "the picture"
"""Quantities that may grow evenly from level to level."""

SHARE = "share"
"""The parameter of kinds that go so much of the way to level 5."""


LIBERO_SCENE = "a scene of LIBERO's kind"
"""What a kind needs that reads the task's file, or compiles the scene anew."""

MOST_DRAWS = 10
"""How often a variation is drawn until the task's objects are in sight and in reach."""


@dataclass(frozen=True)
class Draw:
    """The input of a variation: equal draws give equal variations, on any machine.

    Attributes:
        task: in any suite.
        label: the variation's label.
        seed: the case's seed.
        level: the strength, from 1; 0 if the kind has no levels.
        part: one of the kind's parts, or empty if it has none.
        time: 0, or the number of earlier draws that could not be used.
    """

    task: Task
    label: str
    seed: int
    level: int = 0
    part: str = ""
    time: int = 0

    def generator(self) -> random.Random:
        """Return a new generator, the same for equal draws."""
        again = f"/{self.time}" if self.time else ""
        text = f"{self.task.files}/{self.task.key}/{self.label}/{self.seed}{again}"
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))

    def shared(self, name: str) -> random.Random:
        """Return a generator seeded by `name` instead of the label.

        With the name of a kind, all its levels share their draws and differ only in strength.
        """
        return replace(self, label=name).generator()

    @property
    def share(self) -> float:
        """This level's fraction of the highest of `LEVELS`, in (0, 1]."""
        return self.level / LEVELS[-1]

    def numbers(self) -> "np.random.Generator":
        """Return a numpy generator, the same for equal draws."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(self.generator().getrandbits(128)))

    def again(self, time: int) -> "Draw":
        """Return this draw with another `time`."""
        return replace(self, time=time)


def never(task: Task, params: Params) -> bool:
    """`VariationKind.again` for kinds whose draw never needs to be repeated."""
    return False


def always(task: Task, params: Params) -> bool:
    """`VariationKind.again` for kinds whose draw may not fit a scene, so that another one is tried."""
    return True


@dataclass(frozen=True)
class VariationKind:
    """A kind of variation that any task may have; drawing its parameters is separate from applying them.

    Parameters are plain data, which a record keeps: `given` makes the variation from them again, without drawing.

    Attributes:
        name: ``DIMENSION.KIND``, as in ``--vla-vary``, and the beginning of its labels.
        about: one line.
        source: the origin of the kind, such as a benchmark.
        sample: draws the parameters; equal draws give equal ones. ``instruction`` is the text given to the policy.
            Entries that are not in `space` are facts recorded with the parameters. Raises VlaError if the task cannot
            have the kind.
        apply: makes a task's edits from parameters; draws nothing. Raises VlaError if they cannot be had.
        space: a task's parameters, with bounds and benign values; empty if there is nothing to choose.
        levels: the levels in order, or empty.
        grades: the meaning of the levels in a line, such as ``0.1 to 0.5 rad``; empty without levels.
        needs_files: whether it reads files that the user provides; such a kind runs only if it is named.
        parts: further names in a label, one for each variation; empty if the kind is a single variation.
        scene: whether it changes the problem, so that the scene has to be compiled anew.
        alone: whether it cannot be combined, because it changes the task that is asked for.
        published: whether it is a benchmark's own, with the benchmark's parameters; it then runs only if it is named,
            and not with its dimension.
        by_name: whether it runs only if it is named, though it is ours: a probe, which counts in no rate, or a change
            of how the policy is run.
        as_published: for a kind that follows a benchmark with our changes, the name of the kind without them, which
            ``--vla-protocol=paper`` uses instead; empty if there is none.
        as_upstream: for a kind that follows a paper whose code differs, the name of the kind that follows the code,
            which ``--vla-protocol=upstream`` uses instead; empty if there is none.
        uneven: quantities that do not grow evenly from level to level: `AMOUNT` is the quantity in `grades`, `PICTURE`
            the grey-level difference between camera pictures and benign ones, as measured by
            ``tests/support/levels.py``. Empty if both grow evenly.
        probe: see `Variation.probe`.
        in_sight: see `Variation.in_sight`.
        again: whether another draw may help if a scene cannot have this one.
        recorded: its name in records, without the dimension, if different; ``{part}`` is the label's part.
        part_is: the parameter that the label's part gives, or empty.
        needs: what it needs of a suite's own world: nothing, if it changes only pictures, words or actions; parts of a
            MuJoCo model, of `pytest_vla.plan.task.PARTS`, and `NEEDS_STATE` if it changes where an episode starts; or
            `LIBERO_SCENE`, which no such world has.
        modules: what its edits import beside numpy, such as ``cv2``; a run with such a kind is refused without them.
    """

    name: str
    about: str
    source: str
    sample: Callable[[Draw], Params]
    apply: Callable[[Task, Params], Edits]
    space: Space = lambda task: ()
    levels: tuple[int, ...] = ()
    grades: str = ""
    needs_files: bool = False
    parts: Callable[[], tuple[str, ...]] = lambda: ()
    scene: bool = False
    alone: bool = False
    published: bool = False
    by_name: bool = False
    as_published: str = ""
    as_upstream: str = ""
    uneven: tuple[str, ...] = ()
    probe: bool = False
    in_sight: bool = False
    again: Callable[[Task, Params], bool] = never
    recorded: str = ""
    part_is: str = ""
    needs: tuple[str, ...] = (LIBERO_SCENE,)
    modules: tuple[str, ...] = ()

    def misfit(self, task: Task) -> str:
        """Return why the world that a task's suite brings cannot have the kind, or "" if it can."""
        if task.world is None or not self.needs:
            return ""
        if LIBERO_SCENE in self.needs:
            return "it changes a scene of LIBERO's kind, and the suite has its own simulator"
        if task.scene is None:
            return "it changes a MuJoCo model, and the suite's world shows none"
        if lacks := [part for part in self.needs if part != NEEDS_STATE and not task.scene.has(part)]:
            return f"it needs {' and '.join(lacks)}, which the suite's scene does not have (gym.suite(..., scene=))"
        if task.scene.fixed and NEEDS_STATE in self.needs:
            return "it changes the state, and the suite's world cannot observe it again (gym.suite(..., observe=))"
        return ""

    def make(self, draw: Draw) -> Variation:
        """Return the variation for a draw, with its redraw function. Raises VlaError if the task cannot have it."""
        params = self.sample(draw)
        made = self.given(draw.task, draw.label, params)
        again = self.again(draw.task, params)
        return replace(made, redraw=lambda time: self.make(draw.again(time))) if again else made

    def given(self, task: Task, label: str, params: Params) -> Variation:
        """Return the variation for given parameters, without drawing.

        Raises:
            VlaError: the task cannot have it.
        """
        edits = self.apply(task, params)
        told = params if edits.told is None else edits.told
        parameters = {name: value for name, value in told.items() if name != INSTRUCTION}
        kind = self.recorded_name(label)
        level = level_of(label) or None if self.levels else None
        return varied(label, self.dimension, kind, level, parameters, edits, probe=self.probe, in_sight=self.in_sight)

    def recorded_name(self, label: str) -> str:
        """Return the name used in records, without the dimension."""
        return self.recorded.format(part=part_of(label, self.name)) or within(self.dimension, self.name)

    def implied(self, label: str) -> dict[str, Any]:
        """Return the parameters that a label implies, which older records do not name."""
        if chosen_name(label):
            return {}
        by_level = {SHARE: level_of(label) / LEVELS[-1]} if self.levels else {}
        return by_level | ({self.part_is: part_of(label, self.name)} if self.part_is else {})

    @property
    def dimension(self) -> str:
        """The dimension that it varies."""
        return dimension_of(self.name)

    @property
    def evenness(self) -> str:
        """A note on the quantity in which levels grow evenly; empty if they grow evenly in both."""
        even = [each for each in (AMOUNT, PICTURE) if each not in self.uneven]
        if not self.uneven:
            return ""
        return f"level steps are even in {even[0]}, not in {self.uneven[0]}" if even else "level steps are not even"

    def labels(self, levels: Sequence[int] = ()) -> tuple[str, ...]:
        """Return the labels of all variations, or of some levels."""
        if self.levels:
            return tuple(levelled(self.name, level) for level in levels or self.levels)
        return tuple(parted(self.name, part) for part in self.parts()) or (self.name,)


# A kind from outside: its mistakes are told by its name, and are neither the policy's nor the world's.

_T = TypeVar("_T")

_EDITS = (("problem", "ProblemEdit"), ("state", "StateEdit"), ("pictures", "PictureEdit"), ("actions", "ActionEdit"))
"""Fields of `Edits` with functions, and their types in `pytest_vla.scene.variation`."""


def guarded(kind: VariationKind, origin: str) -> VariationKind:
    """Return a kind whose functions and edits return what `VariationKind` and `Edits` say, or raise VlaError.

    Any other exception, and any other result, is an EpisodeError, ``variation-broken``, that names origin, kind and
    function. VlaError is passed on.

    Args:
        kind: of another package or a project.
        origin: of its entry.
    """
    refuse = partial(_refuse, f"{origin}: the kind {kind.name}")

    def call(name: str, function: Callable[..., _T], *given: Any) -> _T:
        try:
            return function(*given)
        except BaseException as error:
            if isinstance(error, VlaError) or not ends_episode(error):
                raise
            raise refuse(f"{name} raised {describe(error)}") from error

    def space(task: Task) -> tuple[Parameter, ...]:
        found = call("space", kind.space, task)
        if not isinstance(found, (list, tuple)) or not all(isinstance(each, Parameter) for each in found):
            raise refuse(f"space returned {found!r:.60}, expected pytest_vla.vary.space.Parameter in a tuple")
        return tuple(found)

    def sample(draw: Draw) -> Params:
        found = call("sample", kind.sample, draw)
        _check_plain(found, "sample", refuse)
        allowed = space(draw.task)
        if wrong := complaints(allowed, found):
            names = {each.name for each in allowed}
            strange = ", ".join(name for name in found if name not in names)
            raise refuse(
                f"sample drew for {draw.label} and seed {draw.seed} what its space excludes: {wrong[0]}"
                + f"; not in its space: {strange}" * bool(strange)
            )
        return found

    def apply(task: Task, params: Params) -> Edits:
        return _guarded_edits(call("apply", kind.apply, task, dict(params)), call, refuse)

    def parts() -> tuple[str, ...]:
        found = call("parts", kind.parts)
        if not isinstance(found, (list, tuple)) or not all(isinstance(each, str) for each in found):
            raise refuse(f"parts returned {found!r:.60}, expected texts in a tuple")
        return tuple(found)

    def again(task: Task, params: Params) -> bool:
        return bool(call("again", kind.again, task, params))

    return replace(kind, sample=sample, apply=apply, space=space, parts=parts, again=again)


def _refuse(whose: str, what: str) -> EpisodeError:
    return EpisodeError(VARIATION_BROKEN, f"{whose}: {what}")


def _check_plain(found: object, name: str, refuse: Callable[[str], EpisodeError]) -> None:
    """Check that a result is a mapping of JSON values by name, which records can keep. Raises EpisodeError."""
    if not isinstance(found, Mapping):
        raise refuse(f"{name} returned {found!r:.60}, expected parameters by name")
    for key, value in found.items():
        if not isinstance(key, str) or not _is_plain(value):
            raise refuse(f"{name} gives {key}={value!r:.60}, expected a text, a finite number, a list or a mapping")


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return isinstance(value, (str, int)) or value is None or (isinstance(value, float) and isfinite(value))


def _guarded_edits(edits: Edits, call: Callable[..., Any], refuse: Callable[[str], EpisodeError]) -> Edits:
    """Return edits whose functions are called and checked as in `guarded`. Raises EpisodeError."""

    def expected(field: str, what: str) -> NoReturn:
        raise refuse(f"apply returned Edits with {field}={getattr(edits, field)!r:.60}, expected {what}")

    if not isinstance(edits, Edits):
        raise refuse(f"apply returned {edits!r:.60}, expected pytest_vla.scene.variation.Edits")
    for field, what in _EDITS:
        found = getattr(edits, field)
        if not isinstance(found, (list, tuple)) or not all(map(callable, found)):
            expected(field, f"a tuple of functions ({what})")
    if not isinstance(edits.model, (list, tuple)) or not all(isinstance(each, ModelEdit) for each in edits.model):
        expected("model", "a tuple of pytest_vla.scene.variation.ModelEdit")
    for field in ("init_states", "asked"):
        if getattr(edits, field) is not None and not callable(getattr(edits, field)):
            expected(field, "a function or None")
    if edits.instruction is not None and not isinstance(edits.instruction, str):
        expected("instruction", "a text or None")
    if not isinstance(edits.removed, (list, tuple)) or not all(isinstance(each, str) for each in edits.removed):
        expected("removed", "a tuple of names")
    if edits.rest_joints is not None and not (_is_plain(edits.rest_joints) and len(edits.rest_joints) == 7):
        expected("rest_joints", "7 numbers, rad, or None")
    seconds = edits.latency
    if seconds is not None and not (isinstance(seconds, int | float) and isfinite(seconds) and seconds >= 0):
        expected("latency", "seconds, 0 or more, or None")
    if edits.told is not None:
        _check_plain(edits.told, "Edits.told", refuse)

    def problem(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def changed(before: Any) -> Any:
            found = call("a problem edit", edit, before)
            if not isinstance(found, type(before)):
                raise refuse(f"a problem edit returned {type(found).__name__}, expected a Problem")
            return found

        return changed

    def state(edit: Callable[..., None]) -> Callable[..., None]:
        def changed(model: Any, scene: Any, written: "NDArray[np.float64]") -> None:
            call("a state edit", edit, model, scene, written)
            if not all(map(isfinite, written)):
                raise refuse("a state edit wrote NaN or infinity")

        return changed

    def model(edit: ModelEdit) -> ModelEdit:
        textures = None if edit.textures is None else partial(call, "textures of a model edit", edit.textures)
        return replace(edit, apply=partial(call, "a model edit", edit.apply), textures=textures)

    def begun(name: str, begin: Callable[[], Any]) -> Any:
        change = call(name, begin)
        if not callable(change):
            raise refuse(f"{name} returned {change!r:.60} at the start of an episode, expected a function")
        return change

    def picture(begin: Callable[[], Any]) -> Callable[[], Any]:
        def begin_episode() -> Any:
            change = begun("a picture edit", begin)

            def changed(before: "NDArray[np.uint8]", camera: str, step: int) -> Any:
                # It may change the picture in place.
                shape = before.shape
                found = call("a picture edit", change, before, camera, step)
                form = f"{getattr(found, 'shape', '')} {getattr(found, 'dtype', type(found).__name__)}".strip()
                if form != f"{shape} uint8":
                    raise refuse(f"a picture edit made {form} of camera {camera}, expected {shape} uint8")
                return found

            return changed

        return begin_episode

    def action(begin: Callable[[], Any]) -> Callable[[], Any]:
        def begin_episode() -> Any:
            change = begun("an action edit", begin)

            def changed(before: "NDArray[np.float64]") -> Any:
                import numpy as np

                shape = before.shape
                found = call("an action edit", change, before)
                numbers = np.asarray(found)
                if numbers.shape != shape or numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
                    raise refuse(f"an action edit made {found!r:.60}, expected {shape} finite numbers")
                return numbers

            return changed

        return begin_episode

    return replace(
        edits,
        problem=tuple(map(problem, edits.problem)),
        model=tuple(map(model, edits.model)),
        init_states=None if edits.init_states is None else partial(call, "init_states", edits.init_states),
        state=tuple(map(state, edits.state)),
        removed=tuple(edits.removed),
        pictures=tuple(map(picture, edits.pictures)),
        actions=tuple(map(action, edits.actions)),
        asked=None if edits.asked is None else problem(edits.asked),
    )


@dataclass(frozen=True)
class VariationListing:
    """The contents of suites that list their own variations.

    Attributes:
        variations: a task's variations by label, in order, per the paper (`PAPER`) or per upstream's code (`UPSTREAM`);
            raises VlaError if they cannot be read.
        two_protocols: whether paper and code differ.
        unavailable: the number of these tasks' variations that are missing here, by requirement.
        by_lot: whether a sample is balanced over dimensions and kinds only, and drawn by lot within a kind: levels and
            tasks then occur in the proportions of the list.
    """

    variations: Callable[[Task, str], Mapping[str, Variation]]
    two_protocols: bool = False
    unavailable: Callable[[Sequence[Task]], Mapping[str, int]] = lambda tasks: {}
    by_lot: bool = False
