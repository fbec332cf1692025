"""Where things are kept on machines without a home or with read-only packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scene import robosuite_import as quiet
from pytest_vla.util.files import cache_folder, expanded


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_VLA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home(path: Path) -> Path:
        if str(path).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return path

    monkeypatch.setattr(Path, "expanduser", no_home)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert expanded("~/x") is None
    with pytest.raises(VlaError, match="Set PYTEST_VLA_CACHE or HOME"):
        cache_folder()
    monkeypatch.setenv("PYTEST_VLA_CACHE", "there")
    assert cache_folder() == Path("there")


@pytest.mark.parametrize("writable", [True, False])
def test_numba_gets_our_cache_where_it_cannot_write_beside_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writable: bool
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: writable)
    # It may have been imported before.
    numba = SimpleNamespace(config=SimpleNamespace(CACHE_DIR=None))
    monkeypatch.setitem(sys.modules, "numba", numba)
    quiet._give_numba_a_cache()
    expected = None if writable else str(tmp_path / "numba")
    assert [os.environ.get("NUMBA_CACHE_DIR"), *vars(numba.config).values()] == [expected, expected]
    # Undone by monkeypatch only if it knows of it.
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become somebody else, by setpriv",
)
def test_a_foreign_user_without_a_home_can_import_the_simulator(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    # Reads what root reads, writes nothing of root's.
    capability = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    code = "import pytest_vla.sim.robosuite_control, os; print(os.environ['NUMBA_CACHE_DIR'])"
    environ = {name: value for name, value in os.environ.items() if name not in ("HOME", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", *capability, sys.executable, "-c", code],
        env=environ | {"PYTEST_VLA_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "cache" / "numba")]
