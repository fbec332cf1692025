"""What results are called: the folder, the newest run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

DEFAULT_RESULTS = ".vla"

LAST_RUN = "last"
"""In the place of a run's name: the run that began last."""
