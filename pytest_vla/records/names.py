"""Names of results: the folder, the newest run, all runs. Light: every project's pytest reads them."""

DEFAULT_RESULTS = ".vla"
"""The results folder, relative to the rootdir."""

LAST_RUN = "last"
"""In place of a run's name: the run that began last."""

ALL_RUNS = "all"
"""In place of a run's name: every run of the results folder."""
