"""An option more in the table is all that it takes: pytest's options, Settings, resumed runs and the reference page."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import run_names

pytestmark = pytest.mark.usefixtures("own_processes")

Run = Callable[..., pytest.RunResult]

REPOSITORY = Path(__file__).parents[2]
TABLE = Path("run", "options.py")
ENTRY = """
    shake: int = option(
        "how much the table shakes",
        "N",
        step_count,
        default=1,
        belongs="case",
        topic="episodes",
        ini="0 is calm",
    )
    hush: int | None = option("how quiet it is", "N", step_count, default=None, belongs="resumption", topic="output")


_FIRST = """
SHOWS = """
from pytest_vla.run.context import context_of

def pytest_report_header(config):
    settings = context_of(config).settings
    return f"shakes {settings.shake}, hushed {settings.hush}"
"""
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=policies:broken")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package lies with two options more in its table, and not a line elsewhere."""
    site = tmp_path_factory.mktemp("site")
    package = site / "pytest_vla"
    files = [file for pattern in ("*.py", "*.toml", "*.gz") for file in (REPOSITORY / "pytest_vla").rglob(pattern)]
    for file in files:
        copy = package / file.relative_to(REPOSITORY / "pytest_vla")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    for folder in "fixtures", "reports", "suites":
        (package / folder).symlink_to(REPOSITORY / folder)
    text = (package / TABLE).read_text()
    assert text.count("\n\n_FIRST = ") == 1
    (package / TABLE).write_text(text.replace("\n\n_FIRST = ", ENTRY))
    return site


@pytest.fixture(autouse=True)
def extended(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(site))
    project.makeconftest(SHOWS)


@pytest.mark.slow
def test_one_entry_is_enough(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_shake = 5\n")
    vla(*STOVE, "--collect-only").stdout.fnmatch_lines(["shakes 5, hushed None"])
    result = vla(*STOVE, "--vla-shake=3", "--vla-hush=2", "--vla-run-seed=5")
    result.stdout.fnmatch_lines(["shakes 3, hushed 2"])
    result.assert_outcomes(errors=1)
    (run,) = run_names(project.path / ".vla")
    # A resumed run is the same, but for what may be said anew.
    result = vla("--vla-resume", "--vla-shake=4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*run {run} was started with --vla-shake=3, not with 4: leave --vla-shake out*"])
    # 0 is something.
    assert vla("--vla-resume", "--vla-run-seed=0").ret == pytest.ExitCode.USAGE_ERROR
    vla("--vla-resume", "--vla-hush=7").stdout.fnmatch_lines(["shakes 3, hushed 7"])
    project.makeini("[pytest]\nvla_shake = much\n")
    result = vla(*STOVE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*tox.ini: vla_shake: 'much' is not a number of steps, 1 or more"])


def test_where_no_episode_is_collected_it_changed_nothing(vla: Run) -> None:
    result = vla("test_mine.py", "--vla-shake=3")
    result.stdout.fnmatch_lines(["vla: --vla-shake had no effect: no episode was collected. *"])


def test_it_is_on_the_reference_page(site: Path, tmp_path: Path) -> None:
    script = REPOSITORY / "scripts" / "reference_pages.py"
    subprocess.run([sys.executable, script, tmp_path], cwd=tmp_path, check=True)
    page = (tmp_path / "options.md").read_text()
    assert "### --vla-shake\n\n`--vla-shake=N`\n\nHow much the table shakes. A resumed run keeps it.\n" in page
    assert "Ini key `vla_shake`: default of --vla-shake; 0 is calm." in page
    assert "How quiet it is. A resumed run keeps it unless it is given again.\n" in page
