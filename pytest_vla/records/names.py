"""What results are called: the folder, the newest run, all runs."""

DEFAULT_RESULTS = ".vla"

LAST_RUN = "last"
"""In the place of a run's name: the run that began last."""

ALL_RUNS = "all"
"""In the place of a run's name: every run of the results folder."""
