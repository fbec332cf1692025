"""Makes tests/policies/golden/openvla_pictures.npz with TensorFlow, as OpenVLA's evaluation calls it.

In an environment of its own: ``pip install tensorflow-cpu==2.21.0``, ``python tests/support/openvla_pictures.py FILE``.
"""

import sys
from typing import Any

import numpy as np

SMALLER, LARGER = (18, 18), (35, 32)


def pictures() -> dict[str, Any]:
    """A smooth picture with an edge, and noise: 24 x 30 pixels, neither a multiple of JPEG's blocks of 16."""
    y, x = np.mgrid[0:24, 0:30] / 24
    smooth = np.stack([y * 200, x * 180, (np.sin(9 * x) * np.cos(7 * y) + 1) * 120], axis=-1)
    smooth[6:15, 10:20] = (220, 30, 30)
    noise = np.random.default_rng(7).integers(0, 256, (24, 30, 3))
    return {"smooth": smooth.astype(np.uint8), "noise": noise.astype(np.uint8)}


def main() -> None:
    import tensorflow as tf

    def coded(picture: Any) -> Any:
        return tf.io.decode_image(tf.io.encode_jpeg(picture), expand_animations=False, dtype=tf.uint8)

    def resized(picture: Any, size: tuple[int, int]) -> Any:
        floats = tf.image.resize(picture, size, method="lanczos3", antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(floats), 0, 255), tf.uint8)

    def cropped(picture: Any) -> Any:
        floats = tf.image.convert_image_dtype(picture, tf.float32)
        side = tf.sqrt(tf.constant([0.9]))
        begin = (1 - side) / 2
        boxes = tf.stack([begin, begin, begin + side, begin + side], axis=1)
        cut = tf.image.crop_and_resize(floats[None], boxes, [0], picture.shape[:2])[0]
        return tf.image.convert_image_dtype(tf.clip_by_value(cut, 0, 1), tf.uint8, saturate=True)

    made = {}
    for name, picture in pictures().items():
        made[name] = picture
        made[f"{name}_coded"] = coded(picture).numpy()
        made[f"{name}_smaller"] = resized(picture, SMALLER).numpy()
        made[f"{name}_larger"] = resized(picture, LARGER).numpy()
        made[f"{name}_cropped"] = cropped(picture).numpy()
        made[f"{name}_shown"] = cropped(resized(coded(picture), SMALLER)).numpy()
    np.savez_compressed(sys.argv[1], **made)


if __name__ == "__main__":
    main()
