"""One recorded run for all tests of data sets, and what its policy saw."""

from typing import Any

import pytest

from tests.support.dataset_runs import PLATE, STEPS, STOVE, Kept, record_run


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Return a run with a text that is hard to write, a variation, a recorded success, and an episode that broke."""
    results = tmp_path_factory.mktemp("kept") / ".vla"
    cases = [(PLATE, 1, ""), (STOVE, 3, ""), (STOVE, 0, "camera.azimuth-L2"), (STOVE, 2, "")]
    changes: dict[int, dict[str, Any]] = {
        0: {"instruction": 'turn\non, "the" \x00 stove\r\n=1+1 \ud800 ü'},
        1: {"outcome": "success", "success_step": STEPS},
    }
    return Kept(results, record_run(results, cases, STEPS, changes=changes))
