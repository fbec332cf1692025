"""What a benchmark ran on, in words."""

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

NO_GPU = "no GPU here"


@cache
def gpu() -> str | None:
    """The name of the first GPU that NVIDIA's driver or torch knows; None: there is none."""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        if not ended.returncode and ended.stdout.strip():
            return ended.stdout.splitlines()[0].strip()
    try:
        import torch
    except ImportError:
        return None
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


def processor() -> str:
    """The processor's name, as the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine() -> str:
    """Cores, processor, GPU or none, and Python."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({processor()}), {gpu() or NO_GPU}, Python {platform.python_version()}"
