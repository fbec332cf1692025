"""pytest-rerunfailures and pytest-repeat, as far as they run items again: for where they are not installed.

Loaded with ``-p fake_repeats``. ``make plugins`` runs the same tests with the plugins themselves.
"""

from typing import Any

import pytest
from _pytest.runner import runtestprotocol


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--reruns", type=int, default=0)
    parser.addoption("--count", type=int, default=1)


@pytest.fixture
def __pytest_repeat_step_number(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As pytest-repeat 0.9.4: a parameter more, after all others."""
    count = metafunc.config.option.count
    if count > 1:
        metafunc.fixturenames.append("__pytest_repeat_step_number")
        metafunc.parametrize(
            "__pytest_repeat_step_number", range(count), indirect=True, ids=lambda step: f"{step + 1}-{count}"
        )


def pytest_runtest_protocol(item: Any, nextitem: Any) -> bool | None:
    """As pytest-rerunfailures 16.7: the same item, whose failed report is a rerun; its teardown is still reported."""
    reruns = item.config.option.reruns
    if not reruns:
        return None
    for attempt in range(reruns + 1):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        again = False
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            report.rerun = attempt
            if report.failed and attempt < reruns:
                report.outcome, again = "rerun", True
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not again:
            break
        item._initrequest()
    return True
