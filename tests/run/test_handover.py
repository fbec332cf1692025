"""Trajectories are written into their run's folder, and nowhere else."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.run.record_transport import PROPERTY, attach_record, shown_properties
from tests.support.point_episodes import SLOW, a_policy, run
from tests.support.records import record_of


def an_item(node: str) -> Any:
    return SimpleNamespace(nodeid=node, name=node.partition("::")[2], user_properties=[])


def test_a_trajectory_lies_in_its_runs_folder_or_is_not_written(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / ".vla" / "one", tmp_path / "elsewhere"
    ended = run(a_policy(lambda observation: SLOW), max_steps=2)
    item = an_item(ended.record.node)
    written = attach_record(item, folder, ended)
    assert (folder / str(written.record.arrays)).is_file()
    assert [name for name, _ in item.user_properties] == [PROPERTY]
    before = sorted(tmp_path.rglob("*"))
    for field in ("task", "suite"):
        evil = replace(ended, record=replace(ended.record, **{field: "../../evil"}, node=""))
        with pytest.raises(VlaError, match=r"evil.* lies outside of the run's folder: it is not written"):
            attach_record(an_item("x::y"), folder, evil)
    elsewhere.mkdir()
    (folder / "linked").symlink_to(elsewhere)
    with pytest.raises(VlaError, match=r"linked.* lies outside of the run's folder"):
        attach_record(an_item("x::y"), folder, replace(ended, record=replace(ended.record, suite="linked", node="")))
    assert sorted(tmp_path.rglob("*")) == sorted([*before, elsewhere, folder / "linked"])
    assert np.load(folder / str(written.record.arrays))["actions"].shape == (2, 7)


def test_what_reports_say_of_an_episode_is_what_there_is() -> None:
    record = record_of(3, "error", costs=(Charge("force", 2.5, step=1), Charge("force", 0.25, step=4)))
    shown = shown_properties(record)
    assert (shown["vla_seed"], shown["vla_reason"], shown["vla_cost"]) == (3, "policy-raised", "2.75")
    assert "vla_variation" not in shown
    assert shown_properties(record_of(0)).keys() == shown.keys() - {"vla_reason", "vla_cost"}
