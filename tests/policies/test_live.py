"""The kind ``live:NAME``: a policy that another process has, for as long as that process waits."""

import os
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.in_memory import (
    CALLER,
    Caller,
    LivePolicy,
    find_caller,
    live_policy,
    tell_run,
    told_run,
    write_caller,
)
from pytest_vla.policies.load import check_model, load_policy, may_batch, policy_digest
from pytest_vla.policies.spec import ModelSpec

LIVE = LivePolicy("step 3", "/nowhere/s", "00ff", {"digest": "of step 3", "replan": 4, "traits": {}, "most": 8})


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """This process, started by one that has a policy."""
    caller = Caller(tmp_path, os.getppid(), 5, LIVE)
    for name, value in write_caller(caller).items():
        monkeypatch.setenv(name, value)
    return caller


def spec(text: str) -> ModelSpec:
    return ModelSpec(text, Path())


def test_what_is_written_is_read(called: Caller, tmp_path: Path) -> None:
    assert find_caller() == called
    assert live_policy(spec("live:step 3")) == LIVE
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "00ff" not in os.environ[CALLER]
    assert told_run(tmp_path) is None
    tell_run(called, tmp_path / "a run")
    assert told_run(tmp_path) == tmp_path / "a run"


def test_the_kind(called: Caller) -> None:
    check_model(spec("live:step 3"))
    assert may_batch(spec("live:step 3"))
    assert policy_digest(spec("live:step 3")) == "of step 3"
    with pytest.raises(VlaError, match=r"is in another process, which answers workers only. Add -n 1"):
        load_policy(spec("live:step 3"))
    assert live_policy(spec("tiny")) is None


@pytest.mark.parametrize("text", ["live:step 4", "live:"])
@pytest.mark.usefixtures("called")
def test_another_name_is_none(text: str) -> None:
    with pytest.raises(VlaError, match="live"):
        check_model(spec(text))


def test_later_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = r"live:step 3: this policy was in the memory of a script that called pytest_vla\.evaluate"
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv(CALLER, raising=False)
    with pytest.raises(VlaError, match=told):
        check_model(spec("live:step 3"))
    monkeypatch.setenv(CALLER, str(tmp_path / "caller.json"))
    with pytest.raises(VlaError, match=told):
        check_model(spec("live:step 3"))
    # A worker's own pytest inherits the variable.
    write_caller(Caller(tmp_path, os.getpid(), 5, LIVE))
    assert find_caller() is None
