"""``--vla-model=expert`` in real pytest runs of the built-in suite, where no data of LIBERO's is."""

from pathlib import Path

import pytest

from tests.support.runs import records_of

pytestmark = pytest.mark.usefixtures("own_processes")

TASKS = "--vla-tasks=turn_on_the_stove,close"
RUN = ("-p", "no:hypothesispytest", "--vla-suite=tabletop", "--vla-model=expert", TASKS, "--vla-seeds=0")


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path))


@pytest.mark.usefixtures("without_data")
def test_the_expert_passes_and_its_records_repeat_whatever_the_workers(pytester: pytest.Pytester) -> None:
    digests = []
    for number, workers in enumerate(("-n0", "-n2")):
        results = f"--vla-results={pytester.path / str(number)}"
        pytester.runpytest_subprocess(*RUN, results, workers).assert_outcomes(passed=2)
        records = records_of(pytester.path / str(number))
        assert {record.outcome for record in records} == {"success"}
        assert {record.policy for record in records} == {"expert"}
        assert all(record.policy_digest for record in records)
        digests.append({record.case: record.digest for record in records})
    assert digests[0] == digests[1]
