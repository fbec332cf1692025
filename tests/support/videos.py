"""Reading a video back."""

from pathlib import Path

import av
import numpy as np


def read(file: Path) -> tuple[np.ndarray, float]:
    """All frames (n, H, W, 3), red first, and the frames a second."""
    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        rate = stream.average_rate
        assert rate is not None
        return np.array([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]), float(rate)
