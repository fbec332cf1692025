"""Where tests have an environment of their own, none is skipped: tests/support/no_skips.py."""

from pathlib import Path

import pytest

from tests.support import no_skips


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(no_skips=Path(no_skips.__file__).read_text())
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no_skips", "-p", "no:hypothesispytest")


def test_a_skipped_test_fails_with_its_reason(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        def test_skips():
            pytest.importorskip("not_installed", reason="it is not installed")

        @pytest.mark.skipif(True, reason="not here")
        def test_never(): pass

        @pytest.mark.xfail(reason="known")
        def test_known(): assert False

        def test_runs(): pass
        """
    )
    result = run(project)
    result.assert_outcomes(passed=1, xfailed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "test_mine.py::test_never must not be skipped here: *not here",
            "test_mine.py::test_skips must not be skipped here: *it is not installed",
        ]
    )


def test_a_module_that_is_skipped_as_a_whole_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine="import pytest\n\npytest.importorskip('not_installed')\n\ndef test_one(): pass\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["test_mine.py must not be skipped here: *not_installed*"])
