"""robosuite's import is quiet, and its failure says what to install."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.util.extras import what_to_install


def test_a_missing_system_library_names_the_packages() -> None:
    reason = "libGL.so.1: cannot open shared object file"
    with pytest.raises(VlaError, match=r"libGL\.so\.1.*apt-get install .*libgl1"), quiet_robosuite():
        raise ImportError(reason)


def test_a_missing_module_names_its_package_and_no_system_library(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['PIL'] = None\n"
        "from pytest_vla.errors import VlaError\n"
        "try: import pytest_vla.sim.robosuite_control\n"
        "except VlaError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True)
    assert re.fullmatch(r"robosuite cannot be imported: .*PIL.*\. pip install pillow\.\n", said)


@pytest.mark.parametrize(
    ("module", "cure"),
    [
        ("PIL.Image", "pip install --force-reinstall pillow"),
        ("cv2", "pip install opencv-python"),
        ("robosuite", "pip install robosuite==1.4.0"),
        ("termcolor", "pip install termcolor"),
    ],
)
def test_the_cure_of_a_missing_module_is_its_package(module: str, cure: str) -> None:
    assert what_to_install(ModuleNotFoundError(f"No module named {module!r}", name=module)) == cure


def test_logging_is_left_as_it_was(tmp_path: Path) -> None:
    logger, before = logging.getLogger("robosuite_logs"), logging.FileHandler
    level = logger.level
    with quiet_robosuite():
        assert isinstance(logging.FileHandler(str(tmp_path / "robosuite.log")), logging.NullHandler)
        other = logging.FileHandler(tmp_path / "theirs.log")
        other.close()
    assert isinstance(other, before)
    assert logging.FileHandler is before
    assert logger.level == level
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.log"]


def test_the_import_says_nothing_even_where_warnings_are_errors(tmp_path: Path) -> None:
    code = "import pytest_vla.sim.robosuite_control"
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:robosuite", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
