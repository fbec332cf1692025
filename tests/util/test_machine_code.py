"""Machine code is made once, by one process, for any processor; what does not fit, or is not trusted, is not loaded."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.data import REPOSITORY
from tests.support.slow import slow
from tests.support.waiting import HANG

needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")

# Each compilation of `doubled`, in whatever process, leaves a file that names it, and the processor it was for.
TOY = """
import os
import sys
from pathlib import Path

import numba
from numba import types
from numba.core import config, event

from pytest_vla.util import machine_code
from toy_used import one

@numba.njit
def doubled(x):
    return 2 * x * one()

class Listener(event.Listener):
    def on_start(self, happened):
        if happened.data["dispatcher"] is doubled:
            kind = getattr(happened.data["args"][0], "name")
            Path(os.environ["COMPILED"], f"{kind}-{config.CPU_NAME}-{os.getpid()}").touch()
    def on_end(self, happened):
        pass

event.register("numba:compile", Listener())
machine_code.keep(__name__, doubled, [(types.int64,), (types.float64,)], about="doubling", uses=[one])
"""

USED = """
import numba

@numba.njit
def one():
    return 1
"""

CALL = "import os, toy; print(toy.doubled(21), os.getpid())"


class Toy:
    """A module with a kept function, in a folder of its own, and a machine whose cache is empty."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache, self.log = folder, folder / "cache", folder / "log"
        self.before: list[str] = []
        self.log.mkdir()
        (folder / "toy.py").write_text(TOY)
        (folder / "toy_used.py").write_text(USED)
        (folder / "temporary").mkdir()
        self.environ = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")} | {
            "COMPILED": str(self.log),
            "PYTEST_VLA_CACHE": str(self.cache),
            "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}",
            "TMPDIR": str(folder / "temporary"),
        }

    def start(self, code: str = CALL) -> "subprocess.Popen[str]":
        command = [*self.before, sys.executable, "-W", "error", "-c", code]
        return subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, text=True)

    def said(self, code: str = CALL) -> str:
        """What one process prints, but for its number."""
        process = self.start(code)
        text, _ = process.communicate(timeout=HANG)
        assert process.returncode == 0
        return text.split()[0]

    @property
    def compiled(self) -> list[str]:
        """For each compilation so far: type, processor, process."""
        return sorted(path.name for path in self.log.iterdir())

    @property
    def code(self) -> list[Path]:
        return sorted(self.folder.rglob("doubled-*.code"))


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.mark.slow
def test_of_many_processes_none_compiles_but_one_of_its_own_does(toy: Toy) -> None:
    processes = [toy.start() for _ in range(4)]
    said = [process.communicate(timeout=HANG)[0].split() for process in processes]
    assert [result for result, _ in said] == ["42"] * 4
    ((kind, processor, compiler),) = (name.split("-") for name in toy.compiled)
    assert (kind, processor) == ("int64", "generic"), "a process that asks has None: its own"
    assert compiler not in {process for _, process in said}
    (file,) = toy.code
    assert file.parent == toy.cache / "machine_code"
    assert toy.said() == "42"
    assert toy.said("import toy; print(toy.doubled(1.5))") == "3.0"
    assert [name.split("-")[0] for name in toy.compiled] == ["float64", "int64"]


def test_the_compiler_is_not_told_what_numba_is_told_here(toy: Toy) -> None:
    """Else the code of a name would be another one by whoever came first."""
    toy.environ |= {"NUMBA_OPT": "0", "NUMBA_CPU_NAME": "x86-64", "NUMBA_DEBUG_CACHE": "1", "PYTHONWARNINGS": "error"}
    code = f"import os; os.environ['NUMBA_CPU_NAME'] = 'nonsense'; {CALL}"
    assert toy.said(code) == "42"
    assert [name.split("-")[1] for name in toy.compiled] == ["generic"]


def test_another_type_of_argument_is_compiled_as_ever(toy: Toy) -> None:
    assert toy.said("import numpy, toy; print(toy.doubled(numpy.float32(1.5)))") == "3.0"
    assert [name.split("-")[:2] for name in toy.compiled] == [["float32", "None"]]
    assert toy.code == []


@pytest.mark.parametrize(
    ("source", "before", "after"), [slow("toy.py", "2 * x", "3 * x"), ("toy_used.py", "return 1", "return 1.5")]
)
def test_code_of_a_changed_source_is_not_found(toy: Toy, source: str, before: str, after: str) -> None:
    assert toy.said() == "42"
    path = toy.folder / source
    path.write_text(path.read_text().replace(before, after))
    assert float(toy.said()) == 63
    assert len(toy.compiled) == 2
    assert len(toy.code) == 2


@pytest.mark.slow
def test_a_source_that_is_only_touched_is_the_same(toy: Toy) -> None:
    assert toy.said() == "42"
    os.utime(toy.folder / "toy.py", (1, 1))
    assert toy.said() == "42"
    assert len(toy.compiled) == 1


def test_the_key_holds_all_that_code_depends_on(toy: Toy) -> None:
    others = (
        "numba.__version__ = '0.1'",
        "llvmlite.__version__ = '0.1'",
        "numpy.__version__ = '1.0.0'",
        "sys.implementation.cache_tag = 'cpython-399'",
        "sysconfig.get_config_var = lambda name: '.cpython-311t-x86_64-linux-gnu.so'",
        "machine_code._TARGET['NUMBA_CPU_NAME'] = 'x86-64-v9'",
        "llvmlite.binding.get_process_triple = lambda: 'riscv64-unknown-none'",
    )
    begin = (
        "import sys, sysconfig, numba, llvmlite.binding, numpy, toy; from pytest_vla.util import machine_code; "
        "(code, _) = machine_code.codes(toy.doubled); key = machine_code.MachineCode.key.func; "
        "keys = [code.key, key(code)]; "
    )
    steps = "; ".join(f"{other}; keys.append(key(code))" for other in others)
    first, again, *changed = toy.said(f"{begin}{steps}; print(','.join(keys))").split(",")
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first == again
    assert len({first, *changed}) == 1 + len(others)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut short", "a changed byte"])
def test_a_damaged_file_is_made_anew(toy: Toy, damage: str) -> None:
    assert toy.said() == "42"
    (file,) = toy.code
    content = file.read_bytes()
    file.write_bytes(content[:-10] if damage == "cut short" else content[:-1] + bytes([content[-1] ^ 1]))
    assert [toy.said(), toy.said()] == ["42", "42"]
    assert [name.split("-")[1] for name in toy.compiled] == ["generic"] * 2


@pytest.mark.slow
def test_code_under_the_name_of_other_code_is_refused(toy: Toy) -> None:
    """As a file that was renamed: what it says of itself counts."""
    toy.said()
    toy.said("import toy; print(toy.doubled(1.5))")
    of_ints, of_floats = toy.code
    of_ints.write_bytes(of_floats.read_bytes())
    assert toy.said() == "42"
    assert [name.split("-")[0] for name in toy.compiled] == ["float64", "int64", "int64"]


@needs_owners
@pytest.mark.parametrize("what", [slow("folder"), "file"])
def test_what_others_may_write_is_not_read(toy: Toy, what: str) -> None:
    assert toy.said() == "42"
    (file,) = toy.code
    (file.parent if what == "folder" else file).chmod(0o777)
    assert toy.said() == "42"
    assert len(toy.compiled) == 2
    expected = {"folder": {"machine_code", f"machine_code-{os.geteuid()}"}, "file": {"machine_code"}}
    assert {path.parent.name for path in toy.code} == expected[what]


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become somebody else, by setpriv",
)
def test_what_root_made_serves_another_user_who_can_write_nothing_there(toy: Toy) -> None:
    """As in a container's image; what that user lacks goes elsewhere."""
    temporary = Path(tempfile.gettempdir())
    # Under pytest-xdist there is one more above it.
    for folder in (toy.folder, *(parent for parent in toy.folder.parents if temporary in parent.parents)):
        folder.chmod(0o755)
    for folder in (toy.log, toy.folder / "temporary"):
        folder.chmod(0o777)
    assert toy.said() == "42"
    # Reads what root reads, writes nothing of root's.
    toy.before = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps", "+dac_read_search"]
    toy.before += ["--ambient-caps", "+dac_read_search"]
    assert toy.said() == "42"
    assert len(toy.compiled) == 1
    assert toy.said("import toy; print(toy.doubled(1.5))") == "3.0"
    assert {path.parent.name for path in toy.code} == {"machine_code", "pytest-vla-machine_code-54321"}


@pytest.mark.slow
@needs_owners
def test_a_link_to_a_folder_is_not_followed(toy: Toy) -> None:
    assert toy.said() == "42"
    (file,) = toy.code
    file.parent.rename(toy.folder / "elsewhere")
    file.parent.symlink_to(toy.folder / "elsewhere")
    assert toy.said() == "42"
    assert len(toy.compiled) == 2


@pytest.mark.slow
def test_where_the_cache_cannot_be_written_a_temporary_folder_of_this_user_holds_it(toy: Toy) -> None:
    toy.cache.write_text("no folder")
    assert [toy.said(), toy.said()] == ["42", "42"]
    assert len(toy.compiled) == 1
    (file,) = toy.code
    assert file.is_relative_to(toy.folder / "temporary")


@pytest.mark.parametrize(
    "trouble",
    [
        "import sys; sys.executable = '/nowhere/python'",
        "from pytest_vla.util import machine_code; machine_code._COMPILE = 'raise SystemExit(1)'",
        "from pytest_vla.util import machine_code; machine_code._folders = lambda: iter(())",
    ],
    ids=["no process", "it fails", "no folder"],
)
def test_where_none_can_be_made_the_process_itself_compiles(toy: Toy, trouble: str) -> None:
    assert toy.said(f"{trouble}; {CALL}") == "42"
    assert [name.split("-")[:2] for name in toy.compiled] == [["int64", "None"]]
    assert toy.code == [], "made for this processor, it is not kept"


@pytest.mark.slow
def test_those_who_waited_for_a_failure_do_not_try_in_turn(toy: Toy) -> None:
    """Each compiles for itself then, at once; whoever comes later tries."""
    assert toy.said(f"import sys; sys.executable = '/nowhere/python'; {CALL}") == "42"
    waited = (
        "import contextlib, os, time\n"
        "from pytest_vla.util import machine_code\n"
        "@contextlib.contextmanager\n"
        "def exclusive(path):\n"
        "    os.utime(path.with_name('failed'), (time.time() + 60,) * 2)\n"
        "    yield\n"
        "    os.utime(path.with_name('failed'), (0, 0))\n"
        "machine_code.exclusive, machine_code._start_compiler = exclusive, None\n"
    )
    assert toy.said(waited + CALL) == "42"
    assert toy.code == []
    assert toy.said() == "42"
    assert sorted(name.split("-")[1] for name in toy.compiled) == ["None", "None", "generic"]


@pytest.mark.slow
def test_code_that_numba_refuses_is_compiled(toy: Toy) -> None:
    toy.said()
    refuse = "from numba.core.compiler import CompileResult; CompileResult._rebuild = None; "
    assert toy.said(refuse + CALL) == "42"
    assert len(toy.compiled) == 2


def test_code_that_was_shipped_is_loaded_and_nothing_is_written(toy: Toy) -> None:
    ship = (
        "import toy; from pathlib import Path; from pytest_vla.util import machine_code as m; "
        "m.ship(m.codes(toy.doubled), Path('{}')); print('shipped')"
    )
    shipped = toy.folder / "shipped"
    shipped.mkdir()
    (shipped / "of-an-older-source.code").touch()
    assert toy.said(ship.format(shipped)) == "shipped"
    assert len(list(shipped.iterdir())) == len(toy.compiled) == 2
    toy.environ["PYTEST_VLA_CACHE"] = str(toy.folder / "fresh")
    # As pip and a group's umask leave it.
    shipped.chmod(0o775)
    use = f"from pathlib import Path; from pytest_vla.util import machine_code as m; m.SHIPPED = Path('{shipped}'); "
    assert toy.said(use + CALL) == "42"
    assert len(toy.compiled) == 2
    assert not (toy.folder / "fresh").exists()


def test_without_numbas_compiler_there_is_nothing_to_keep(toy: Toy) -> None:
    toy.environ["NUMBA_DISABLE_JIT"] = "1"
    code = "import toy; from pytest_vla.util import machine_code as m; print(toy.doubled(21), m.codes(toy.doubled))"
    assert toy.said(code) == "42"
    assert toy.compiled == []


def test_a_target_that_is_not_the_pinned_one_is_refused() -> None:
    code = (
        "from pytest_vla.util.machine_code import compile_here; from pytest_vla.errors import VlaError\n"
        "try: compile_here('/nowhere', 'a:b:0')\n"
        "except VlaError as error: print(error)"
    )
    environ = os.environ | {"NUMBA_CPU_NAME": "skylake", "PYTHONPATH": str(REPOSITORY)}
    said = subprocess.check_output([sys.executable, "-c", code], env=environ, text=True)
    assert said == "numba compiles for 'skylake' with None: expected generic\n"


def test_what_is_compiled_says_who_waits_for_what(toy: Toy) -> None:
    code = (
        "import logging, sys; logging.basicConfig(stream=sys.stdout, level='INFO', format='%(message)s'); import toy; "
        "from pytest_vla.util import machine_code as m; m.make_ready(m.codes(toy.doubled))"
    )
    process = toy.start(code)
    text, _ = process.communicate(timeout=HANG)
    begun, ended = text.splitlines()
    assert begun == "compiling doubling, once on this machine"
    assert ended.startswith(f"{begun}: ")


@needs_owners
def test_old_code_of_a_function_goes(toy: Toy) -> None:
    folder = toy.cache / "machine_code"
    folder.mkdir(parents=True, mode=0o755)
    old = [folder / f"doubled-0-{number:032x}.code" for number in range(9)]
    for number, path in enumerate(old):
        path.touch()
        os.utime(path, (number, number))
    other = folder / "another-0-0.code"
    other.touch()
    assert toy.said() == "42"
    assert [path.exists() for path in old] == [False] * 2 + [True] * 7
    assert other.exists()
