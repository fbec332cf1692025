"""Everything that is known to be wrong with VLA-Arena's 170 and LIBERO's 130 task files is found, and nothing else."""

from collections import Counter
from pathlib import Path

import pytest

from pytest_vla.episode.lint import lint_file
from pytest_vla.scene.lint.reading import CODES, NOTE
from tests.support.data import arena_data, libero_data

TABLE = Path(__file__).with_name("known_defects.txt")
FILES = {"vla_arena": 170, "libero": 130}


def known() -> Counter[tuple[str, str]]:
    """The table's (code, ``BENCHMARK PATH``), looked at by hand."""
    found: Counter[tuple[str, str]] = Counter()
    code = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        name, _, reason = line.partition(": ")
        if reason and name in CODES:
            code = name
        elif line and not line.startswith("#"):
            found[code, line] += 1
    return found


@pytest.mark.parametrize("benchmark", FILES)
def test_known_defects_are_found_and_nothing_else(benchmark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = (arena_data() if benchmark == "vla_arena" else libero_data()) / "bddl_files"
    # VLA-Arena's things are in part LIBERO's.
    monkeypatch.setenv("PYTEST_VLA_DATA", str(libero_data()))
    files = sorted(folder.rglob("*.bddl"))
    assert len(files) == FILES[benchmark]
    found: Counter[tuple[str, str]] = Counter()
    for file in files:
        for finding in lint_file(str(file)):
            assert finding.file == str(file)
            if finding.level != NOTE:
                found[finding.code, f"{benchmark} {file.relative_to(folder).with_suffix('')}"] += 1
    assert found == Counter({key: count for key, count in known().items() if key[1].startswith(f"{benchmark} ")})


def test_the_table_has_what_the_specification_counts() -> None:
    of_arena = Counter(code for code, file in known().elements() if file.startswith("vla_arena"))
    assert (of_arena["C001"], of_arena["G001"], of_arena["G002"], of_arena["O001"], of_arena["R001"]) == (9, 1, 2, 5, 5)
    of_libero = Counter(code for code, file in known().elements() if file.startswith("libero"))
    assert of_libero["P003"] + of_libero["P004"] == 29
    assert not {code for code in of_libero if CODES[code].level == "error"}
