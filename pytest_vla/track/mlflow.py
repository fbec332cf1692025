"""The MLflow tracker, by MLflow's own client: params describe the run, and each episode is one metric step."""

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.track.tracker import PROJECT, Ending, Point, TrackedRun, without_password
from pytest_vla.util.extras import is_installed, required

INSTALL = "pip install 'pytest-vla[mlflow]'"
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Our defaults of MLflow's variables, so that an episode does not wait minutes for a missing server."""

_MOST_METRICS, _MOST_PARAMS = 1000, 100
"""The most entries of one request, by MLflow's limits."""

_LONGEST_PARAM, _LONGEST_TAG = 6000, 5000


def begin(run: TrackedRun) -> "Mlflow":
    """Start a new MLflow run, or continue this run's earlier one. Raises VlaError, and any error of MLflow's."""
    for name, value in {**_PATIENCE, "MLFLOW_LOGGING_LEVEL": "WARNING"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = required("mlflow", INSTALL)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    uri = str(mlflow.get_tracking_uri())
    if not uri.startswith(("http", "file", "databricks")) and not is_installed("sqlalchemy"):
        raise VlaError(f"{without_password(uri)} is a database, and sqlalchemy is not installed: {INSTALL}")
    return Mlflow(required("mlflow.tracking", INSTALL).MlflowClient(), uri, run)


class Mlflow:
    """A run in MLflow; see `pytest_vla.track.tracker.Tracker`."""

    def __init__(self, client: Any, uri: str, run: TrackedRun) -> None:
        self._client, self._uri, self._name = client, uri, run.name
        self._entities = required("mlflow.entities", INSTALL)
        self._params: dict[str, str] = {}
        found = self._found(run.kept) if run.kept else None
        if found is None:
            tags = {"mlflow.source.name": run.texts.get("command", PROJECT), "mlflow.source.type": "LOCAL"}
            tags = {name: text[:_LONGEST_TAG] for name, text in tags.items()}
            found = client.create_run(_experiment(client), run_name=run.name, tags=tags)
        self._id, self._experiment = str(found.info.run_id), str(found.info.experiment_id)
        self._params.update(found.data.params)
        self.about(run.texts)

    @property
    def kept(self) -> str:
        return self._id

    @property
    def place(self) -> str:
        uri = without_password(self._uri)
        if uri.startswith("http"):
            return f"{uri.rstrip('/')}/#/experiments/{self._experiment}/runs/{self._id}"
        return f"run {self._name} in {uri}"

    def about(self, texts: Mapping[str, str]) -> None:
        # MLflow's params cannot be changed: changed values become tags.
        texts = {_name(name): text for name, text in texts.items()}
        new = {name: text[:_LONGEST_PARAM] for name, text in texts.items() if name not in self._params}
        tags = {
            name: text
            for name, text in texts.items()
            if name not in new and self._params[name] != text[:_LONGEST_PARAM]
        }
        params = [self._entities.Param(name, text) for name, text in new.items()]
        for some in _pages(params, _MOST_PARAMS):
            self._client.log_batch(self._id, params=some)
        self._params |= new
        self._tag(tags)

    def episode(self, point: Point) -> None:
        self._log(point.numbers, point.step)

    def end(self, ending: Ending) -> None:
        self._log(ending.numbers, 0)
        self._tag(ending.texts)
        for file in ending.files:
            self._client.log_artifact(self._id, str(file))
        self._client.set_terminated(self._id, "FINISHED" if ending.finished else "KILLED")

    def _found(self, kept: str) -> Any:
        """Return the run of an earlier invocation, or None if it no longer exists."""
        try:
            found = self._client.get_run(kept)
            if found.info.lifecycle_stage != "active":
                return None
            self._client.update_run(kept, status="RUNNING")
        except required("mlflow.exceptions", INSTALL).MlflowException as error:
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return found

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(_name(name), value, now, step) for name, value in numbers.items()]
        for some in _pages(metrics, _MOST_METRICS):
            self._client.log_batch(self._id, metrics=some)

    def _tag(self, texts: Mapping[str, str]) -> None:
        tags = [self._entities.RunTag(_name(name), text[:_LONGEST_TAG]) for name, text in texts.items()]
        for some in _pages(tags, _MOST_PARAMS):
            self._client.log_batch(self._id, tags=some)


def _experiment(client: Any) -> str:
    """Return the id of the experiment that MLflow's variables name, or of ours, which is created if missing."""
    if found := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return found
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)


def _name(name: str) -> str:
    """Return a name with MLflow's permitted characters only."""
    return re.sub(r"[^\w./: -]", "_", name, flags=re.ASCII)[:250]


def _pages(all_of_them: Sequence[Any], most: int) -> list[Sequence[Any]]:
    return [all_of_them[start : start + most] for start in range(0, len(all_of_them), most)]
