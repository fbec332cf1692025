"""Episodes an hour that ``check-policy`` foresees: the costs that it assumes, and what it cannot know."""

import argparse
import json
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla import load_suite
from pytest_vla.commands.check_policy import (
    Machines,
    declare_hourly,
    forecast_hourly,
    hourly_table,
    hourly_text,
    machines_of,
)
from pytest_vla.policies.trial import Latency

SUITE = load_suite("tabletop")
GIVEN = {"step": 0.005, "picture": 0.005, "reset": 0.05}
MACHINES = Machines((1, 8), (2, 16), GIVEN)


class Batched:
    max_batch, reads, device = 32, ("agentview_image", "state"), "cuda:0"

    def begin(self, episode: Any) -> None: ...

    def act(self, states: Any, observations: Any) -> None: ...


def plain(episode: Any) -> None: ...


def latency(batch: int = 1, median: float = 0.06, slowest: float = 0.07, mean: float = 0.06) -> Latency:
    return Latency(batch, median, slowest, 10 / mean, mean, 10.0)


LATENCIES = [latency(), latency(16)]


def told(
    policy: object, latencies: list[Latency] = LATENCIES, machines: Machines = MACHINES, served: bool = False
) -> str:
    found = forecast_hourly(policy, SUITE, latencies, machines, is_served=served)
    return "\n".join(hourly_text(found, machines.costs))


def test_a_row_for_each_number_of_workers() -> None:
    head, costs, names, *rows = told(Batched()).splitlines()
    assert f"{head} {costs.strip()}" == (
        "tabletop: forecast of episodes per hour, for 300 steps, 30 questions, 1 picture each; a step 5 ms, a "
        "picture 5 ms, a reset 50 ms"
    )
    assert names.split() == ["workers", "2", "cores", "scarce", "16", "cores", "scarce"]
    (one, here, scarce, there, _), eight = (row.split() for row in rows)
    assert (one, scarce) == ("1", "workers")
    assert here == there, "one worker has use for one core"
    # 30 answers of 60 ms, 30 times 55 ms of thinking, and a reset.
    assert float(here) == pytest.approx(3600 / (30 * 0.115 + 0.05), rel=0.03)
    assert eight[2] == "cores"
    assert float(eight[3]) > 4 * float(here)


def test_costs_that_are_assumed_are_marked() -> None:
    text = told(Batched(), machines=Machines((1,), (2,), {"picture": 0.004}))
    assert "a step 5.5 ms*, a picture 4 ms, a reset 55 ms*" in " ".join(text.split())
    assert text.endswith("* measured on another machine. Set your own by --step-ms, --picture-ms and --reset-ms")


def test_a_policy_of_each_workers_own() -> None:
    text = told(plain)
    assert text.endswith("each worker has its own policy, which computes on the worker's core")
    assert "2 pictures each" in text, "it may look at all of them"
    plain.device = "cuda:0"  # type: ignore[attr-defined]
    try:
        assert told(plain) == ("tabletop: no forecast: each worker loads the policy to cuda:0, where they compete")
    finally:
        del plain.device  # type: ignore[attr-defined]


def test_a_server_of_its_own_is_not_foreseen() -> None:
    assert (
        told(plain, served=True) == "tabletop: no forecast: the server's throughput with several workers is not known"
    )


def test_time_that_depends_on_the_question_is_said() -> None:
    text = told(Batched(), [latency(), latency(4, 0.06, 0.4, 0.1)])
    assert "\n4 at once took 60 to 400 ms. If the time depends on the question, the forecast is rough" in text
    assert "at once took" not in told(Batched(), [latency(1, 1e-5, 1e-3, 1e-5)]), "nothing that anybody waits for"


def test_a_policy_that_is_too_slow_is_said() -> None:
    text = told(Batched(), [latency(1, 70.0, 71.0, 70.0)])
    assert "\nslow: an episode of 30 questions takes 35 min\n" in text
    assert text.endswith("\nslower than --vla-policy-timeout (60 s): episodes would end as errors")


def test_a_world_of_its_own_has_costs_of_its_own() -> None:
    suite: Any = SimpleNamespace(name="mine", protocol=SUITE.protocol, tasks=[SimpleNamespace(world="mine:World")])
    found = forecast_hourly(Batched(), suite, LATENCIES, Machines((1,), (2,), {"step": 0.1}), is_served=False)
    assert "\n".join(hourly_text(found, {})) == (
        "mine: no forecast: the times of its own world are not known. Give --step-ms, --picture-ms and\n  --reset-ms"
    )
    assert forecast_hourly(Batched(), suite, LATENCIES, MACHINES, is_served=False).forecasts


def test_for_programs() -> None:
    table = hourly_table(forecast_hourly(Batched(), SUITE, LATENCIES, MACHINES, is_served=False), GIVEN)
    assert json.loads(json.dumps(table)) == table
    assert table["assumed"] == {
        "steps": 300,
        "questions": 30,
        "pictures": 1,
        "step_ms": 5.0,
        "picture_ms": 5.0,
        "reset_ms": 50.0,
        "given": ["picture", "reset", "step"],
    }
    assert [(each["cores"], each["workers"]) for each in table["foreseen"]] == [(2, 1), (2, 8), (16, 1), (16, 8)]
    assert {each["scarce"] for each in table["foreseen"]} <= {"device", "cores", "workers"}


@pytest.mark.parametrize(
    ("arguments", "machines"),
    [
        (["--cores=4"], Machines((1, 8, 16, 32), (4,), {})),
        (["--workers=3,2", "--cores=4,2", "--step-ms=8"], Machines((2, 3), (2, 4), {"step": 0.008})),
    ],
)
def test_options(arguments: list[str], machines: Machines) -> None:
    parser = argparse.ArgumentParser()
    declare_hourly(parser)
    assert machines_of(parser.parse_args(arguments)) == machines
    assert 16 in machines_of(parser.parse_args([])).cores


@pytest.mark.parametrize("argument", ["--workers=0", "--workers=x", "--cores=2000", "--step-ms=-1", "--reset-ms=nan"])
def test_options_that_are_no_numbers(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    declare_hourly(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([argument])
    assert argument.partition("=")[0] in capsys.readouterr().err
