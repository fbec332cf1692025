"""LIBERO-Plus's list: whole, as published, and nothing else is taken for it."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.suites.libero_plus.listing import FILE, LIST, entries_of, find_checkout, find_list, read_list
from pytest_vla.suites.libero_plus.names import SUITES, PlusTask
from pytest_vla.suites.libero_plus.report import task_counts
from tests.support.data import data_root

STOVE = "turn_on_the_stove"


@pytest.fixture
def published() -> dict[str, tuple[PlusTask, ...]]:
    root = data_root()
    if root is None or not (root / "libero_plus" / FILE).is_file():
        pytest.skip(f"needs LIBERO-Plus's {FILE} in the data folder")
    return dict(read_list(root / "libero_plus" / FILE))


def row(
    name: str = f"{STOVE}_light_3", category: object = "Light Conditions", difficulty: object = 2
) -> dict[str, Any]:
    return {"id": 1, "name": name, "category": category, "difficulty_level": difficulty}


def test_every_entry_is_read_with_its_difficulty(published: dict[str, tuple[PlusTask, ...]]) -> None:
    assert {suite: len(entries) for suite, entries in published.items()} == {
        "libero_spatial": 2402,
        "libero_object": 2518,
        "libero_goal": 2591,
        "libero_10": 2519,
    }
    entries = [entry for found in published.values() for entry in found]
    assert Counter(entry.difficulty for entry in entries) == {1: 1644, 2: 2202, 3: 2094, 4: 1886, 5: 2083, None: 121}
    assert {(e.suite, e.dimension) for e in entries if e.difficulty is None} == {("libero_goal", "light")}
    assert len({(entry.base, entry.label) for entry in entries}) == 10_030
    assert {entry.base: entry.suite for entry in entries} == {
        task.name: suite for suite in SUITES for task in load_suite(suite).tasks
    }


# Of each sub-dimension: how many in each suite, and of each difficulty; the last is of no difficulty.
SUB_DIMENSIONS = """
B1-scene-and-surface 118 101 123 121  112 115 105 76 55 0
B2-surface           140 147 158 168  121 156 158 87 91 0
C1-distance          76 82 78 77      23 70 74 60 86 0
C2-azimuth           108 105 113 117  68 88 85 52 150 0
C2-azimuth-elevation 130 132 146 141  42 111 124 77 195 0
C3-orientation       62 77 71 84      66 91 42 39 56 0
norm-0.1             26 34 51 45      74 39 30 11 2 0
norm-0.2             71 77 86 73      83 85 78 39 22 0
norm-0.3             77 92 94 87      53 68 100 69 60 0
norm-0.4             87 98 83 98      29 50 91 80 116 0
norm-0.5             89 97 95 90      9 50 75 86 151 0
R-rewrite            390 354 410 383  328 280 259 328 342 0
L-light              292 297 279 274  111 197 244 242 227 121
O1-add               208 208 240 173  282 228 166 119 34 0
O2-level             177 195 185 139  66 74 163 138 255 0
N1-motion            76 90 80 90      24 123 67 81 41 0
N2-gaussian          82 88 82 89      12 77 54 98 100 0
N3-zoom              56 77 67 88      64 87 48 54 35 0
N4-fog               52 71 60 89      51 95 42 59 25 0
N5-glass             85 96 90 93      26 118 89 91 40 0
"""

# Of each suite and dimension: how many of each difficulty; the last is of none.
SUITES_BY_LEVEL = """
libero_spatial background 99 87 55 16 1 0
libero_spatial camera     67 133 114 40 22 0
libero_spatial language   115 100 58 82 35 0
libero_spatial light      52 104 92 38 6 0
libero_spatial layout     6 40 141 153 45 0
libero_spatial robot      90 69 75 46 70 0
libero_spatial noise      51 136 95 57 12 0
libero_object  background 76 59 82 26 5 0
libero_object  camera     63 71 58 58 146 0
libero_object  language   103 67 72 63 49 0
libero_object  light      2 9 71 110 105 0
libero_object  layout     76 78 63 33 153 0
libero_object  robot      50 70 90 87 101 0
libero_object  noise      40 157 71 104 50 0
libero_goal    background 34 69 73 60 45 0
libero_goal    camera     53 109 98 72 76 0
libero_goal    language   45 49 52 79 185 0
libero_goal    light      46 49 28 21 14 121
libero_goal    layout     116 110 60 51 88 0
libero_goal    robot      44 76 109 69 111 0
libero_goal    noise      59 110 53 98 59 0
libero_10      background 24 56 53 61 95 0
libero_10      camera     16 47 55 58 243 0
libero_10      language   65 64 77 104 73 0
libero_10      light      11 35 53 73 102 0
libero_10      layout     150 74 65 20 3 0
libero_10      robot      64 77 100 83 69 0
libero_10      noise      27 97 81 124 120 0
"""
LEVELS = (1, 2, 3, 4, 5, None)


def test_sub_dimensions_are_as_many_as_published(published: dict[str, tuple[PlusTask, ...]]) -> None:
    entries = [entry for found in published.values() for entry in found]
    by_suite = Counter((entry.sub_dimension, entry.suite) for entry in entries)
    by_level = Counter((entry.sub_dimension, entry.difficulty) for entry in entries)
    rows = [line.split() for line in SUB_DIMENSIONS.strip().splitlines()]
    assert {entry.sub_dimension for entry in entries} == {name for name, *_ in rows}
    for name, *counts in rows:
        assert [by_suite[name, suite] for suite in SUITES] == [int(text) for text in counts[:4]], name
        assert [by_level[name, level] for level in LEVELS] == [int(text) for text in counts[4:]], name


def test_suites_and_dimensions_are_as_many_as_published(published: dict[str, tuple[PlusTask, ...]]) -> None:
    found = Counter((e.suite, e.dimension, e.difficulty) for entries in published.values() for e in entries)
    rows = [line.split() for line in SUITES_BY_LEVEL.strip().splitlines()]
    assert len(rows) == 28
    for suite, dimension, *counts in rows:
        assert [found[suite, dimension, level] for level in LEVELS] == [int(text) for text in counts], (
            suite,
            dimension,
        )
    totals = Counter((e.dimension, e.suite) for entries in published.values() for e in entries)
    assert task_counts() == totals


def test_parameters_are_those_published(published: dict[str, tuple[PlusTask, ...]]) -> None:
    entries = [entry for found in published.values() for entry in found]
    camera = [entry for entry in entries if entry.dimension == "camera"]
    # 3 degrees is the one angle of which no task was kept.
    assert {entry.h for entry in camera} == {*range(76), *range(285, 360)} - {3}
    assert {entry.v for entry in camera} == {0, 15}
    assert {round(entry.scale * 100) for entry in camera} == {100, 115, *range(119, 201)}
    turned = [entry for entry in camera if entry.r or entry.e]
    angles = {2, 4, 6, 8, 10, 350, 352, 354, 356, 358}
    assert {entry.r for entry in turned} == {entry.e for entry in turned} == angles
    assert all((entry.h, entry.v, entry.scale) == (0, 0, 1.0) for entry in turned)
    assert len({entry.initstate for entry in entries if entry.dimension == "robot"}) == 450
    per_task = Counter(entry.base for entry in entries)
    assert (min(per_task.values()), max(per_task.values())) == (156, 324)
    files = [entry for entry in entries if entry.name == entry.file]
    assert Counter(entry.dimension for entry in files) == {"layout": 1525, "light": 1142, "background": 1076}


# Mean difficulty by severity, 1 to 10, as the specification has it.
SEVERITIES = {
    "N1-motion": (1.78, 2.08, 2.06, 2.44, 2.58, 3.00, 3.18, 3.64, 3.91, 4.33),
    "N2-gaussian": (1.83, 2.30, 2.76, 3.13, 3.62, 3.88, 4.26, 4.27, 4.41, 4.33),
    "N3-zoom": (1.85, 1.81, 1.79, 1.50, 2.00, 2.00, 2.27, 3.10, 3.97, 4.43),
    "N4-fog": (2.18, 1.94, 1.94, 2.17, 1.93, 1.91, 2.18, 2.92, 3.82, 4.41),
    "N5-glass": (1.79, 2.17, 2.64, 2.46, 3.10, 2.83, 3.62, 3.59, 3.52, 3.60),
}


def test_difficulty_grows_with_the_noises_severity_as_published(published: dict[str, tuple[PlusTask, ...]]) -> None:
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for entry in (entry for entries in published.values() for entry in entries if entry.noise):
        assert entry.noise is not None
        assert entry.difficulty is not None
        found[entry.sub_dimension, (entry.noise - 1) % 10].append(entry.difficulty)
    for name, means in SEVERITIES.items():
        for severity, value in enumerate(means):
            assert mean(found[name, severity]) == pytest.approx(value, abs=0.00501), (name, severity)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "line 1, column 2 is not JSON: Expecting property name"),
        ("[]", "expected suites, each with a list of tasks"),
        ({"libero_goal": 3}, "expected suites, each with a list of tasks"),
        ({"libero_90": []}, "its suite 'libero_90' is not one of libero_spatial, "),
        ({"libero_goal": [3]}, "libero_goal, entry 1: expected name, category and difficulty_level, found 3"),
        ({"libero_goal": [row(), {"name": "x"}]}, "libero_goal, entry 2 has no 'category'"),
        ({"libero_goal": [{**row(), "name": 3}]}, "libero_goal, entry 1: expected a text as its name, found 3"),
        ({"libero_goal": [row(f"{STOVE}_light_x")]}, f"entry 1: '{STOVE}_light_x' is not a LIBERO-Plus name"),
        ({"libero_goal": [row(f"{STOVE}_light_99")]}, "light is 99, expected 1 to 50"),
        ({"libero_10": [row()]}, "libero_10, entry 1: 'turn_on_the_stove_light_3' is of libero_goal"),
        ({"libero_goal": [row(category="Sensor Noise")]}, "is 'Sensor Noise', expected Light Conditions"),
        ({"libero_goal": [row(category=["Light Conditions"])]}, "expected Light Conditions"),
        (
            {"libero_goal": [row(difficulty=6)]},
            f"the difficulty_level of '{STOVE}_light_3' is 6, expected 1 to 5 or null",
        ),
        ({"libero_goal": [row(difficulty=True)]}, "is True, expected 1 to 5 or null"),
        ({"libero_goal": [row(), row()]}, f"libero_goal, entries 1 and 2 are both '{STOVE}_light_3'"),
        ("[" * 100_000, "its lists are too deep"),
        (b"\xff", "it is not UTF-8"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: Any, why: str) -> None:
    file = tmp_path / FILE
    if isinstance(content, dict):
        content = json.dumps(content)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(VlaError, match=re.escape(f"{file} is not LIBERO-Plus's list of tasks: ")) as raised:
        read_list(file)
    assert why in str(raised.value)


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="cannot be read: No such file"):
        read_list(tmp_path / FILE)


@pytest.mark.parametrize(
    ("place", "checkout"),
    [
        (FILE, None),
        (f"libero_plus/{FILE}", None),
        (LIST, "."),
        (f"libero/libero/{LIST}", "libero/libero"),
        (f"libero_plus/libero/libero/{LIST}", "libero_plus/libero/libero"),
        (f"LIBERO-plus/libero/libero/{LIST}", "LIBERO-plus/libero/libero"),
    ],
)
def test_the_list_is_found_where_users_have_it(
    tmp_path: Path, place: str, checkout: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(json.dumps({"libero_goal": [row()]}))
    found = find_list(tmp_path)
    assert found.file == tmp_path / place
    assert found.package == (None if checkout is None else tmp_path / checkout)
    assert [e.light for e in entries_of(found, load_suite("libero_goal").task(STOVE))] == [3]
    assert entries_of(found, load_suite("libero_goal").task("put_the_bowl_on_the_plate")) == ()
    if checkout is None:
        alone = re.escape(f"{tmp_path / place} is LIBERO-Plus's list of tasks alone: its rewritten instructions are in")
        with pytest.raises(VlaError, match=alone):
            find_checkout(tmp_path)
    else:
        assert find_checkout(tmp_path) == found


def test_a_checkout_goes_before_a_list_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, checkout = tmp_path / "alone", tmp_path / "checkout"
    for file in (alone / FILE, checkout / "libero" / "libero" / LIST):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(checkout))
    assert find_list(alone).package == checkout / "libero" / "libero"
    monkeypatch.delenv("PYTEST_VLA_DATA")
    assert find_list(alone).package is None
    with pytest.raises(VlaError, match=r"task_classification.json was not found: give a checkout of LIBERO-Plus"):
        find_list(tmp_path / "nowhere")
