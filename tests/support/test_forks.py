"""A fork is what the process that it stands for would be."""

import pytest

from tests.support.forks import forked

QUIET = ("-p", "no:hypothesispytest", "-p", "no:cacheprovider")


@pytest.fixture
def told(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose test writes down what its process is."""
    monkeypatch.setenv("TOLD", "to the fork")
    pytester.makepyfile(
        test_it="""
        import os, random, sys

        def test_it():
            about = os.getcwd(), os.environ["TOLD"], sys.path[:2], sys.argv[0], random.random(), os.getpid()
            with open("told", "a") as file:
                print(*about, sep="\\n", file=file)
            assert "mine" not in sys.modules
            import mine
        """,
        mine="",
    )
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "worker"])
def test_it_has_its_folder_environment_and_path_and_leaves_nothing(
    told: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    def tell() -> list[str]:
        (told.path / "told").unlink(missing_ok=True)
        told.runpytest_subprocess(*QUIET, *workers).assert_outcomes(passed=1)
        return (told.path / "told").read_text().splitlines()

    real = tell()
    with forked():
        first, second = tell(), tell()
    *about, drawn, pid = real
    for forks_about, forks_drawn, forks_pid in ((each[:-2], *each[-2:]) for each in (first, second)):
        assert forks_about == about
        assert forks_drawn != drawn
        assert forks_pid != pid
    assert first[-2:] != second[-2:]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("pass", 0), ("assert 0", 1), ("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("sys.exit(3)", 1)],
)
def test_it_ends_as_a_process_does(pytester: pytest.Pytester, ending: str, code: int) -> None:
    pytester.makepyfile(f"import os, sys\n\ndef test_it():\n    {ending}\n")
    with forked():
        assert pytester.runpytest_subprocess(*QUIET).ret == code
