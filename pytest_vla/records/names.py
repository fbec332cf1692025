"""Names of results: the folder, the newest run, all runs. Light: every project's pytest reads them."""

import os
import time

DEFAULT_RESULTS = ".vla"
"""The results folder, relative to the rootdir."""

LAST_RUN = "last"
"""In place of a run's name: the run that began last."""

ALL_RUNS = "all"
"""In place of a run's name: every run of the results folder."""


def new_run_name() -> str:
    """Return a name for a new run: the local time, with a suffix that tells apart two runs of the same second."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
