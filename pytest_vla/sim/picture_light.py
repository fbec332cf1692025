"""The light of a picture, adjusted after it was drawn, as VLA-Arena does it. Imports no numpy before it is used."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vla.sim.pixels import Picture

NEUTRAL_TEMPERATURE = 6500.0
TEMPERATURE_GAIN = 0.4


@dataclass(frozen=True)
class PictureLight:
    """How the light of a picture is adjusted: brightness, contrast and saturation in [-1, 1], temperature in K."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    temperature: float = NEUTRAL_TEMPERATURE


def adjusted(picture: "Picture", light: PictureLight) -> "Picture":
    """A picture (H, W, 3) in another light: Pillow's brightness, contrast and colour, in this order; then temperature.

    Warmer than 6500 K, with k = 0.4 |6500 - T| / 6500: red is multiplied by 1 + k and blue by 1 - k; colder, the other
    way round; clipped to 0..255, fractions dropped. What is zero, or 6500 K, is left out.
    """
    import numpy as np
    from PIL import Image, ImageEnhance

    image = Image.fromarray(picture)
    for enhance, amount in (
        (ImageEnhance.Brightness, light.brightness),
        (ImageEnhance.Contrast, light.contrast),
        (ImageEnhance.Color, light.saturation),
    ):
        if amount:
            image = enhance(image).enhance(1 + amount)
    pixels = np.array(image)
    if light.temperature != NEUTRAL_TEMPERATURE:
        warmth = (NEUTRAL_TEMPERATURE - light.temperature) / NEUTRAL_TEMPERATURE * TEMPERATURE_GAIN
        pixels[..., 0] = np.clip(pixels[..., 0] * (1 + warmth), 0, 255)
        pixels[..., 2] = np.clip(pixels[..., 2] * (1 - warmth), 0, 255)
    return pixels
