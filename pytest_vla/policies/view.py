"""A policy's view of the world: the world's observation with the suite's image transform, evaluated lazily."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.policies.base import Observation

Picture = NDArray[Any]

# The world's pictures are upright (raw[::-1]). Raw turned by 180 degrees, raw[::-1, ::-1], is upright mirrored.
_TRANSFORMS: Mapping[str, Callable[[Picture], Picture]] = {
    "none": lambda upright: upright,
    "rotate_180": lambda upright: upright[:, ::-1],
}


def policy_view(observation: Observation, image_transform: str) -> Observation:
    """Return the observation with pictures that are rendered and transformed only when they are read.

    Args:
        observation: the world's, pictures upright.
        image_transform: the protocol's; "rotate_180" is named after its effect on MuJoCo's raw picture.
    """
    return _View(observation, _TRANSFORMS[image_transform])


def resize_with_padding(picture: Picture, height: int, width: int) -> Picture:
    """Resize a picture (h, w, 3) uint8 to (height, width, 3), keeping its aspect ratio, with black borders.

    Bilinear interpolation by Pillow: bit for bit the same as in openpi's and vla-eval's clients.
    """
    if picture.shape[:2] == (height, width):
        return picture
    from PIL import Image

    ratio = max(picture.shape[1] / width, picture.shape[0] / height)
    inner_height, inner_width = int(picture.shape[0] / ratio), int(picture.shape[1] / ratio)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    resized = Image.fromarray(picture).resize((inner_width, inner_height), resample=Image.Resampling.BILINEAR)
    padded = np.zeros((height, width, 3), dtype=np.uint8)
    padded[top : top + inner_height, left : left + inner_width] = np.asarray(resized)
    return padded


class _View(Mapping[str, NDArray[Any]]):
    def __init__(self, observation: Observation, transform: Callable[[Picture], Picture]) -> None:
        self._observation = observation
        self._transform = transform
        self._pictures: dict[str, Picture] = {}

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self:
            raise KeyError(f"an observation has no {key!r}; it has {', '.join(self)}")
        if not key.endswith("_image"):
            return self._observation[key]
        if key not in self._pictures:
            self._pictures[key] = np.ascontiguousarray(self._transform(self._observation[key]))
        return self._pictures[key]

    def __contains__(self, key: object) -> bool:
        # Mapping's default is to get the value, which would render a picture.
        return key in tuple(self._observation)

    def __iter__(self) -> Iterator[str]:
        return iter(self._observation)

    def __len__(self) -> int:
        return len(self._observation)
