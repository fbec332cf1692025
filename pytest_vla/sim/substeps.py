"""Contacts and motion within a control step: who touches whom in each of its 25 substeps, and how hard.

An impact lasts only a few substeps, so looking once per control step misses most impacts. `Substeps` is filled by the
native step (`pytest_vla.sim.native`), without Python in between; `Present` offers the same for the present moment.

MuJoCo's contact layout is measured once per process, on a scene of two geoms: no layout of its structures is written
down here, and an unexpected layout is an error, not a wrong number.
"""

import ctypes
from functools import cache
from typing import NamedTuple, Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.costs import Point
from pytest_vla.versions import SUPPORTED

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Pairs = npt.NDArray[np.int32]

SUBSTEPS = 25
"""Of 2 ms, in a control step."""

CENTRE, UPWARD, SPIN, VELOCITY = slice(0, 3), slice(9, 12), slice(12, 15), slice(15, 18)
"""Of what is followed of a body, in the world's frame: its centre of mass (m), how far each of its own axes points up,
its angular velocity (rad/s), and the velocity of its centre (m/s)."""

# The most contacts in a control step. The operating system allocates only memory that is written to.
_MOST = SUBSTEPS * 8192

FOLLOWED = 18
"""Numbers a body and substep: centre of mass, rotation matrix, angular velocity, velocity."""


class Press(NamedTuple):
    """The force and place of some contacts.

    Attributes:
        force: N, the sum of their normal forces; over several substeps, the largest sum in one substep.
        position: m, world frame, of the hardest contact of that substep.
        geoms: of the hardest contact, as MuJoCo orders them.
        impulse: N s, over the control step, or None for the present moment.
        substep: when the force was largest, from 1, or None for the present moment.
    """

    force: float
    position: Point
    geoms: tuple[int, int]
    impulse: float | None = None
    substep: int | None = None


class Contacts(Protocol):
    """Some contacts: of a moment, or of all substeps of a control step."""

    @property
    def last(self) -> int:
        """The last substep, from 0."""

    @property
    def pairs(self) -> Pairs:
        """The geoms that touch, (k, 2), in MuJoCo's order; -1 stands for something that is not a geom."""

    @property
    def geoms(self) -> Pairs:
        """The geoms of each single contact, (n, 2)."""

    @property
    def substeps(self) -> npt.NDArray[np.int32]:
        """The substep of each single contact, from 0, (n,)."""

    def press(self, contacts: Ids) -> Press:
        """Compute how hard one or more contacts press, given their indices in `geoms`."""

    def motion(self, body: int) -> Array:
        """Return a body's motion in each substep, (substeps, 18): see `CENTRE`."""


class Present:
    """The contacts of the present moment, that of the last mj_step1."""

    last = 0

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data

    @property
    def pairs(self) -> Pairs:
        """See `Contacts`."""
        found: Pairs = self._data.contact.geom
        return found

    @property
    def geoms(self) -> Pairs:
        """See `Contacts`."""
        return self.pairs

    @property
    def substeps(self) -> npt.NDArray[np.int32]:
        """See `Contacts`."""
        return np.zeros(len(self.pairs), dtype=np.int32)

    def press(self, contacts: Ids) -> Press:
        """See `Contacts`."""
        wrench, forces = np.zeros(6), np.zeros(len(contacts))
        for index, contact in enumerate(contacts):
            mujoco.mj_contactForce(self._model, self._data, int(contact), wrench)
            forces[index] = wrench[0]
        hardest = int(contacts[int(np.argmax(forces))])
        x, y, z = self._data.contact.pos[hardest].tolist()
        first, second = self._data.contact.geom[hardest].tolist()
        return Press(float(forces.sum()), (x, y, z), (first, second))

    def motion(self, body: int) -> Array:
        """See `Contacts`."""
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self._model, self._data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
        found: Array = np.concatenate([self._data.xipos[body], self._data.xmat[body], velocity])[None]
        return found


class Substeps:
    """The contacts, and the motion of some bodies, of the last control step.

    Call `watch` and `follow` beforehand: only requested contacts and bodies are recorded.
    """

    last = SUBSTEPS - 1

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        self._followed: dict[int, int] = {}
        self._watched = np.zeros((model.ngeom + 1,) * 2, dtype=np.int64)
        self._native: NativeSubsteps | None = None
        self._is_wanted = False

    def watch(self, one: Mask, other: Mask) -> None:
        """Record contacts of a geom of `one` with one of `other`, in either order, from now on.

        Args:
            one, other: (ngeom + 1,); the last entry stands for a contact without a geom.
        """
        both = np.outer(one, other)
        self.watch_pairs(both | both.T)

    def watch_pairs(self, pairs: Mask) -> None:
        """Record contacts of these pairs of geoms, (ngeom + 1, ngeom + 1) in MuJoCo's order, from now on."""
        self._watched[pairs] = 1
        self._native, self._is_wanted = None, True

    def follow(self, body: int) -> None:
        """Record the motion of this body from now on."""
        self._followed.setdefault(body, len(self._followed))
        self._native, self._is_wanted = None, True

    @property
    def native(self) -> "NativeSubsteps | None":
        """The arrays that the native step fills, or None if nothing is to be recorded."""
        return self._of() if self._is_wanted else None

    @property
    def pairs(self) -> Pairs:
        """See `Contacts`; each pair once."""
        return self._of().pairs[: self._of().tally[1]]

    @property
    def geoms(self) -> Pairs:
        """See `Contacts`."""
        return self._of().rows[: self._of().tally[0], 1:]

    @property
    def substeps(self) -> npt.NDArray[np.int32]:
        """See `Contacts`."""
        return self._of().rows[: self._of().tally[0], 0]

    def press(self, contacts: Ids) -> Press:
        """See `Contacts`."""
        native = self._of()
        return strongest(native.rows[contacts], native.measured[contacts], self._model.opt.timestep)

    @property
    def approaches(self) -> Array:
        """The speeds at which the two geoms of each contact came together along its normal, m/s, (n,).

        Bodies that are not followed count as standing still.
        """
        return self._of().measured[: self._of().tally[0], 4]

    def motion(self, body: int) -> Array:
        """Return a followed body's motion, (25, 18): see `CENTRE`."""
        return self._of().motion[:, self._followed[body]]

    def _of(self) -> "NativeSubsteps":
        if self._native is None:
            # Its control steps are counted from the beginning.
            self._watched[self._watched > 0] = 1
            self._native = NativeSubsteps(self._model, self._data, self._watched, tuple(self._followed))
        return self._native


def strongest(rows: npt.NDArray[np.int32], measured: Array, timestep: float) -> Press:
    """Return the press of some contacts in several substeps.

    Args:
        rows: (n, 3) substep from 0, and geoms, of each.
        measured: (n, 4 or more) each one's normal force (N) and place (m).
        timestep: s, of a substep.
    """
    sums = np.bincount(rows[:, 0], weights=measured[:, 0])
    # The first of equals; if nothing presses, the first with a contact.
    peak = int(np.argmax(sums)) if sums.any() else int(rows[0, 0])
    there = np.flatnonzero(rows[:, 0] == peak)
    hardest = int(there[int(np.argmax(measured[there, 0]))])
    x, y, z = measured[hardest, 1:4].tolist()
    _, first, second = rows[hardest].tolist()
    return Press(float(sums[peak]), (x, y, z), (first, second), float(sums.sum() * timestep), peak + 1)


class NativeSubsteps:
    """The arrays that the native step fills, and those in which it finds MuJoCo's contacts.

    Attributes:
        watched: (ngeom+1, ngeom+1) by a contact's geoms: 0 if it is not recorded, else the last control step in
            which it occurred, counted from 2.
        bodies: ids of the followed bodies.
        columns: (ngeom+1,) index in `bodies` of each geom's body, -1 if it is not followed.
        rows: (n, 3) substep from 0, and geoms, of each contact.
        measured: (n, 5) each contact's normal force (N), place (m), and its geoms' closing speed (m/s).
        pairs: (n, 2) geoms that touched, each once.
        motion: (25, bodies, 18).
        tally: rows, pairs, and control steps so far.
    """

    def __init__(
        self, model: mujoco.MjModel, data: mujoco.MjData, watched: npt.NDArray[np.int64], bodies: tuple[int, ...]
    ) -> None:
        layout = contact_layout()
        self.watched, self.bodies = watched, np.array(bodies, dtype=np.int64)
        of_body = {body: column for column, body in enumerate(bodies)}
        self.columns = np.array([*(of_body.get(int(body), -1) for body in model.geom_bodyid), -1], dtype=np.int64)
        self.rows, self.pairs = np.empty((_MOST, 3), dtype=np.int32), np.empty((_MOST, 2), dtype=np.int32)
        self.measured = np.empty((_MOST, 5))
        self.motion = np.zeros((SUBSTEPS, len(bodies), FOLLOWED))
        self.tally = np.array([0, 0, 1], dtype=np.int64)
        self.structure = _seen(data._address, max(layout.number, layout.first) + 8)
        first = int(self.structure.view(np.uint64)[layout.first // 8])
        self.arena = _seen(first, int(data.narena))
        self.layout = np.array([layout.number // 4, *layout.strides], dtype=np.int64)
        self._data, self._begins = data, first + layout.position

    def check(self) -> None:
        """Check that all contacts of the last step were recorded.

        Raises:
            VlaError: they are not where they were looked for.
            EpisodeError: ``physics-contacts-full``.
        """
        if self.tally[0] == _MOST:
            raise EpisodeError("physics-contacts-full", f"more than {_MOST} contacts in a control step")
        if self._data.ncon and _address(self._data.contact.pos) != self._begins:
            raise _misplaced()

    def arguments(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Return the recording's arguments of the native step (`pytest_vla.sim.native.control_step`)."""
        return (
            *(self.layout, self.structure.view(np.int32)),
            *(self.arena.view(np.int32), self.arena.view(np.float64)),
            *(self.watched, self.bodies, self.columns),
            *(self.rows, self.measured, self.pairs, self.motion, self.tally),
        )


@cache
def nothing_recorded() -> tuple[npt.NDArray[np.generic], ...]:
    """Return the arguments of a native step that records nothing."""
    integers, table = np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.int64)
    return (
        *(np.zeros(0, dtype=np.int64), integers, integers, np.zeros(0)),
        *(table, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
        *(np.zeros((0, 3), dtype=np.int32), np.zeros((0, 5))),
        *(np.zeros((0, 2), dtype=np.int32), np.zeros((0, 0, FOLLOWED)), np.zeros(3, dtype=np.int64)),
    )


class ContactLayout(NamedTuple):
    """The positions of contacts in MuJoCo's structures, in bytes.

    Attributes:
        number: offset in mjData of the number of contacts.
        first: offset in mjData of the address of the first contact, which is the arena's.
        size: of a contact.
        geoms, position, frame: offsets in a contact of its two geoms, its position and its axes, the normal first.
    """

    number: int
    first: int
    size: int
    geoms: int
    position: int
    frame: int

    @property
    def strides(self) -> tuple[int, ...]:
        """Contact to contact and offsets: in numbers of 4 bytes for geoms, of 8 bytes for positions and frames."""
        return self.size // 4, self.geoms // 4, self.size // 8, self.position // 8, self.frame // 8


_BALLS = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 0.09"><freejoint/><geom size="0.1"/></body><body pos="0.5 0 0.09"><freejoint/><geom size="0.1"/></body>
</worldbody></mujoco>"""
_MOST_BYTES = 1 << 24


@cache
def contact_layout() -> ContactLayout:
    """Return where this MuJoCo keeps contacts, found on a scene of its own.

    Raises:
        VlaError: not found as expected.
    """
    model = mujoco.MjModel.from_xml_string(_BALLS)
    data, other = mujoco.MjData(model), mujoco.MjData(model)
    for each in (data, other):
        mujoco.mj_step1(model, each)
    one, two = data.contact[0], data.contact[1]
    place, size = _address(one.pos), _address(two.pos) - _address(one.pos)
    # A contact begins with its distance, a double; its place is next.
    start = place - 8
    geoms = _address(one.geom) - start
    # Set a number that occurs nowhere else, and search for it.
    data.ncon = 0x5EA5
    number = _found(data, np.int32, 0x5EA5)
    first = _found(data, np.uint64, start)
    data.ncon = 2
    layout = ContactLayout(number, first, size, geoms, 8, _address(one.frame) - start)
    begins = int(_seen(other._address, first + 8).view(np.uint64)[first // 8])
    is_right = (
        size % 8 == geoms % 4 == layout.frame % 8 == 0
        and _address(other.contact[0].pos) == begins + 8
        and int(_seen(other._address, number + 4).view(np.int32)[number // 4]) == other.ncon == 2
    )
    if not is_right:
        raise _misplaced()
    return layout


def _misplaced() -> VlaError:
    return VlaError(
        f"mujoco {mujoco.__version__} keeps its contacts where they are not looked for: nothing can be charged for "
        f"them; expected one of {', '.join(SUPPORTED['mujoco'])}"
    )


def _found(data: mujoco.MjData, kind: type[np.generic], number: int) -> int:
    """Return the offset in bytes at which mjData first holds a number."""
    size = np.dtype(kind).itemsize
    # Read in pieces: the structure's end is unknown, but the number is known to be inside it.
    for begin in range(0, _MOST_BYTES, 4096):
        piece = _seen(data._address + begin, 4096).view(kind)
        if (places := np.flatnonzero(piece == number)).size:
            return begin + int(places[0]) * size
    raise _misplaced()


def velocities_at(motion: Array, point: npt.ArrayLike) -> Array:
    """Return the velocities (substeps, 3), m/s, of a point of a body that moved so.

    Args:
        motion: (substeps, 18), see `CENTRE`.
        point: (3,) m from its centre of mass, in the axes of its own frame.
    """
    arms = motion[:, 3:12].reshape(-1, 3, 3) @ np.asarray(point)
    return np.asarray(motion[:, VELOCITY] + np.cross(motion[:, SPIN], arms))


def _address(array: npt.NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


def _seen(address: int, size: int) -> npt.NDArray[np.uint8]:
    """Return MuJoCo's memory as bytes, to read and never write; whole words."""
    memory = (ctypes.c_uint8 * (size + -size % 8)).from_address(address)
    return np.ctypeslib.as_array(memory)
