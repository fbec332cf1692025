"""The Weights & Biases tracker, by its client. WANDB_MODE=offline writes to a folder, which `wandb sync` sends."""

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.track.tracker import PROJECT, Ending, Point, TrackedRun, without_password
from pytest_vla.util.extras import required

INSTALL = "pip install 'pytest-vla[wandb]'"
LONGEST_SENDING = 120.0
"""Seconds that a run's end waits for the upload; the rest stays in the folder."""


def begin(run: TrackedRun) -> "Wandb":
    """Start a new run, or continue the earlier one of this name. Raises VlaError, and any error of wandb's."""
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        # In these modes wandb must not send its own error reports either.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    # Seconds to wait for the server; wandb's default is 90.
    os.environ.setdefault("WANDB_INIT_TIMEOUT", "20")
    wandb = required("wandb", INSTALL)
    found = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        id=os.environ.get("WANDB_RUN_ID") or run.kept or run.name,
        name=os.environ.get("WANDB_NAME") or run.name,
        resume="allow",
        config=dict(run.texts),
        # pytest owns the terminal, and a run must not stop to ask for a key.
        settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
    )
    return Wandb(found)


class Wandb:
    """A run in Weights & Biases; see `pytest_vla.track.tracker.Tracker`."""

    def __init__(self, run: Any) -> None:
        self._run, self._folder = run, Path(str(run.dir))
        # Read now, because a finished run no longer has it.
        url = None if getattr(run, "offline", False) else run.url
        self._place = without_password(str(url)) if url else f"wandb sync {self._folder.parent}"

    @property
    def kept(self) -> str:
        return str(self._run.id)

    @property
    def place(self) -> str:
        return self._place

    def about(self, texts: Mapping[str, str]) -> None:
        self._run.config.update(dict(texts), allow_val_change=True)

    def episode(self, point: Point) -> None:
        self._run.log({**point.numbers, **point.texts}, step=point.step)

    def end(self, ending: Ending) -> None:
        self._run.summary.update({**ending.numbers, **ending.texts})
        for file in ending.files:
            # Files in the run's folder are uploaded with it, now or by `wandb sync`.
            shutil.copy(file, self._folder / file.name)
        self._send(0 if ending.finished else 1)

    def _send(self, code: int) -> None:
        raised: list[BaseException] = []

        def finish() -> None:
            try:
                self._run.finish(exit_code=code)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=finish, name="wandb-finish", daemon=True)
        thread.start()
        thread.join(LONGEST_SENDING)
        if thread.is_alive():
            raise VlaError(
                f"upload not finished after {LONGEST_SENDING:g} s. Upload the rest by `wandb sync "
                f"{self._folder.parent}`"
            )
        for error in raised:
            raise error
