"""What a policy observes, and the observations of a batch: each by itself, or one array of all."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError

Observation = Mapping[str, NDArray[Any]]
"""`agentview_image`, `robot0_eye_in_hand_image`: (H, W, 3) uint8, drawn when read, in the form that the suite's
checkpoints were trained on (`Protocol.image_transform`); `state`: (8,) end effector position in m, axis-angle in rad,
two finger positions in m; `robot0_eef_pos`, `robot0_eef_quat` (xyzw), `robot0_gripper_qpos`, `robot0_joint_pos`.
World frame, SI units."""


class Observations(Sequence[Observation]):
    """A batch's, in the order of its questions.

    What they give may be kept. In the policy's process `stacked` gives memory that the next batches would lie in: it is
    not used again while somebody holds a part of it, which takes the memory of a whole batch. An index gives a copy.
    """

    def __init__(self, observations: Sequence[Observation], stacks: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Observations one by one.

        Args:
            observations: of each question.
            stacks: what is stacked already.
        """
        self._observations, self._stacks = observations, dict(stacks or {})

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> "Observations": ...
    def __getitem__(self, index: int | slice) -> "Observation | Observations":
        if isinstance(index, slice):
            return Observations(self._observations[index], {name: all_[index] for name, all_ in self._stacks.items()})
        return self._observations[index]

    def __len__(self) -> int:
        return len(self._observations)

    def stacked(self, name: str) -> NDArray[Any]:
        """One array of a batch of n, contiguous: (n, H, W, 3) of pictures, (n, 8) of ``state``.

        In the policy's process nothing is copied for it, and where the policy uses a CUDA device, `torch.from_numpy` of
        it is pinned: ``.to(device, non_blocking=True)`` goes at once.

        Raises:
            EpisodeError: the policy does not read it, or the questions' arrays differ in shape, as suites with other
                picture sizes in one run do.
        """
        if name not in self._stacks:
            if self._observations and name not in (there := self._observations[0]):
                told = f"{name} is no observation that the policy reads ({', '.join(there)}): add it to its `reads`"
                raise EpisodeError("policy-protocol", told)
            arrays = [observation[name] for observation in self._observations]
            shapes = sorted({array.shape for array in arrays})
            if len(shapes) > 1:
                told = ", ".join(map(str, shapes))
                raise EpisodeError("policy-protocol", f"{name} of a batch cannot be stacked: its shapes are {told}")
            self._stacks[name] = np.stack(arrays)
        return self._stacks[name]


def as_observations(observations: Sequence[Observation]) -> Observations:
    """A batch's observations, of which each may be had stacked."""
    return observations if isinstance(observations, Observations) else Observations(observations)


class Lent(Sequence[Observation]):
    """Observations in memory that others will write to again: each is copied when it is asked for, once."""

    def __init__(self, views: Sequence[Observation]) -> None:
        """`views`: into that memory."""
        self._views = views
        self._copies: dict[int, Observation] = {}

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Observation]: ...
    def __getitem__(self, index: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        if number not in self._copies:
            self._copies[number] = {name: array.copy() for name, array in self._views[number].items()}
        return self._copies[number]

    def __len__(self) -> int:
        return len(self._views)
