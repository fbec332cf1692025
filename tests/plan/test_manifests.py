"""Suites: upstream's tasks in upstream's order, and errors that say what there is."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla import extensions
from pytest_vla.entries import SuiteEntry
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import Suite, load_suite, named_suites, suite_names, takes_tasks
from pytest_vla.plan.task import language_of
from pytest_vla.run.options import OPTIONS
from pytest_vla.testing import point_suite
from pytest_vla.util.text import did_you_mean, printable
from tests.support.data import golden, libero_data

LIBERO = {"libero_spatial": 10, "libero_object": 10, "libero_goal": 10, "libero_10": 10, "libero_90": 90}
PLUS = {f"libero_plus_{name}": 10 for name in ("spatial", "object", "goal", "10")}
SIZES = LIBERO | PLUS | {"tabletop": 10, "libero_para": 10}
MAX_STEPS = {
    "tabletop": 300,
    "libero_para": 300,
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
MAX_STEPS |= {name: MAX_STEPS[name.replace("_plus", "")] for name in PLUS}


def test_every_suite_is_there() -> None:
    # Of those whose tasks come in levels tests are elsewhere.
    arena = {name for name in suite_names() if name.startswith("vla_arena_")}
    own = {name for name in suite_names() if name.startswith(("metaworld_", "aloha_", "pusht", "robosuite_"))}
    assert (set(suite_names()) - arena - own, len(arena), len(own)) == ({*SIZES, "tabletop_safety"}, 11, 20)


def test_the_suite_of_hazards_has_ten_tasks_a_level() -> None:
    suite = load_suite("tabletop_safety")
    assert (suite.category, suite.protocol.max_steps, suite.protocol.init_states) == ("safety", 300, 100)
    assert Counter(task.task_level for task in suite.tasks) == {"L0": 10, "L1": 10, "L2": 10}
    assert suite.task("put_the_cup_on_the_plate", "L1").key == "L1-put_the_cup_on_the_plate"


@pytest.mark.parametrize("name", SIZES)
def test_a_suite_is_whole(name: str) -> None:
    suite = load_suite(name)
    assert (suite.name, len(suite.tasks), suite.protocol.max_steps) == (name, SIZES[name], MAX_STEPS[name])
    assert [task.index for task in suite.tasks] == list(range(SIZES[name]))
    assert len({task.name for task in suite.tasks}) == SIZES[name]
    assert {task.suite for task in suite.tasks} == {name}


@pytest.mark.parametrize("name", SIZES)
def test_the_protocol_is_the_one_that_checkpoints_are_evaluated_with(name: str) -> None:
    protocol = load_suite(name).protocol
    assert (protocol.settle_steps, protocol.settle_action) == (10, (0, 0, 0, 0, 0, 0, -1))
    starts = 200 if name == "tabletop" else 50
    assert (protocol.control_freq, protocol.init_states, protocol.image_size) == (20, starts, (256, 256))
    assert protocol.cameras == ("agentview", "robot0_eye_in_hand")
    assert protocol.image_transform == "rotate_180"
    assert {task.protocol for task in load_suite(name).tasks} == {protocol}


@pytest.mark.parametrize("name", LIBERO)
def test_tasks_are_upstreams_files(name: str) -> None:
    files = {path.stem for path in (libero_data() / "bddl_files" / name).glob("*.bddl")}
    assert {task.name for task in load_suite(name).tasks} == files


def test_the_order_is_upstreams() -> None:
    checked = 0
    for file in golden("libero_traces").glob("*.npz"):
        meta = json.loads(str(np.load(file)["meta"]))
        task = load_suite(meta["suite"]).tasks[meta["task_index"]]
        assert f"{task.name}.bddl" == meta["bddl"]
        checked += 1
    assert checked


@pytest.mark.parametrize(
    ("stem", "language"),
    [
        ("turn_on_the_stove", "turn on the stove"),
        ("LIVING_ROOM_SCENE2_put_both_the_soup_in_the_basket", "put both the soup in the basket"),
        ("KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet", "close the top drawer of the cabinet"),
        ("KITCHEN_SCENE1_put_the_bowl_on_it", "put the bowl on it"),
    ],
)
def test_the_instruction_comes_from_the_file_name(stem: str, language: str) -> None:
    assert language_of(stem) == language


def test_no_instruction_keeps_a_scene() -> None:
    for name in SIZES:
        for task in load_suite(name).tasks:
            assert task.language == task.language.lower()
            assert "_" not in task.language
            assert "scene" not in task.language


def test_data_goes_with_the_tasks(tmp_path: Path) -> None:
    assert {task.data for task in load_suite("libero_goal").tasks} == {None}
    assert {task.data for task in load_suite("libero_goal", data=str(tmp_path)).tasks} == {tmp_path}


def test_a_task_by_name() -> None:
    suite = load_suite("libero_goal")
    assert suite.task("turn_on_the_stove") is suite.tasks[7]


def test_an_unknown_suite_is_refused_with_the_list() -> None:
    with pytest.raises(
        VlaError, match=r"no suite 'libero_gaol'. Did you mean libero_goal.*Suites: .*, libero_10, libero_90"
    ):
        load_suite("libero_gaol")


def test_an_unknown_task_is_refused_with_close_ones() -> None:
    with pytest.raises(VlaError, match=r"no task 'turn_on_stove'. Did you mean turn_on_the_stove"):
        load_suite("libero_goal").task("turn_on_stove")


def test_nothing_close_is_suggested_where_nothing_is() -> None:
    assert did_you_mean("xyz", ["turn_on_the_stove"]) == ""
    assert did_you_mean("stove", ["turn_on_the_stove"]) == " Did you mean turn_on_the_stove?"


def test_the_help_names_every_suite() -> None:
    (option,) = (option for option in OPTIONS if option.name == "suite")
    assert all(name in option.help for name in suite_names())


def with_tasks(folder: Path, *names: str, suite: str = "tabletop") -> Path:
    """A data folder with empty task files: a suite reads their names only."""
    tasks = folder / "bddl_files" / suite
    tasks.mkdir(parents=True)
    for name in names:
        (tasks / name).touch()
    return folder


def own_names(suite: Suite) -> list[str]:
    return [task.name for task in suite.tasks[SIZES[suite.name] :]]


def test_a_users_tasks_join_an_open_suite_by_name(tmp_path: Path) -> None:
    plain = load_suite("tabletop")
    names = ("wipe.bddl", "KITCHEN_SCENE2_hide_it.bddl", "turn_on_the_stove.bddl", "notes.txt", "._wipe.bddl")
    data = with_tasks(tmp_path, *names)
    suite = load_suite("tabletop", data=data)
    assert own_names(suite) == ["KITCHEN_SCENE2_hide_it", "wipe"], "what the manifest lists comes first, and once"
    assert [task.name for task in suite.tasks[:10]] == [task.name for task in plain.tasks]
    assert [task.index for task in suite.tasks] == list(range(12))
    hidden = suite.task("KITCHEN_SCENE2_hide_it")
    assert (hidden.suite, hidden.language, hidden.data) == ("tabletop", "hide it", data)
    assert hidden.protocol == plain.protocol
    assert load_suite("tabletop") == plain


def test_a_name_that_is_no_sentence_leaves_the_instruction_to_the_file(tmp_path: Path) -> None:
    def instruction(stem: str, text: str) -> str:
        path = tmp_path / "bddl_files" / "tabletop" / f"{stem}.bddl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return load_suite("tabletop", data=tmp_path).task(stem).language

    said = "(define (problem p)\n ; (:language not this one)\n (:Language  put the   cup\n on it) (:goal))"
    assert instruction("CELL_0_0", said) == "put the cup on it"
    assert instruction("task_3", said) == "put the cup on it"
    # A sentence is what policies were trained with, and what the file says may differ.
    assert instruction("turn_on_the_rack", said) == "turn on the rack"
    assert instruction("KITCHEN_SCENE3_open_it_twice", said) == "open it twice"
    # Nothing is said, or no text: whoever reads the scene says so.
    assert instruction("CELL_0_1", "(define (problem p))") == "CELL 0 1"
    assert instruction("CELL_0_2", "(:language)") == "CELL 0 2"


def test_tasks_are_found_wherever_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_tasks(tmp_path / "one" / "libero", "b.bddl")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(with_tasks(tmp_path / "other", "a.bddl", "b.bddl")))
    assert own_names(load_suite("tabletop", data=tmp_path / "one")) == ["a", "b"]
    assert own_names(load_suite("tabletop")) == ["a", "b"]
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path / "nowhere"))
    assert own_names(load_suite("tabletop")) == [], "who needs the data says that it is not there"


def test_liberos_suites_take_no_tasks(tmp_path: Path) -> None:
    assert [name for name in suite_names() if takes_tasks(name)] == ["tabletop"]
    assert own_names(load_suite("libero_goal", data=with_tasks(tmp_path, "mine.bddl", suite="libero_goal"))) == []


@pytest.mark.parametrize("name", ["put it.bddl", "a[seed3].bddl", "lösche.bddl", "a-seed1.bddl"])
def test_a_task_file_whose_name_cannot_stand_in_an_id_is_refused(tmp_path: Path, name: str) -> None:
    data = with_tasks(tmp_path, name)
    with pytest.raises(VlaError, match=r"expected a name of letters, digits and _.* Rename the file") as refused:
        load_suite("tabletop", data=data)
    assert str(refused.value).startswith(str(data / "bddl_files" / "tabletop" / name))


def test_listing_a_users_tasks_loads_no_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from pytest_vla.plan.manifests import load_suite; "
        f"print(load_suite('tabletop', data={str(with_tasks(tmp_path, 'mine.bddl'))!r}).tasks[-1].name); "
        "print({'numpy', 'mujoco', 'robosuite'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["mine", "set()"]


GOOD = """
title = "Mine"
extends = "base.toml"
tasks = ["one", "two"]
[protocol]
max_steps = 5
"""
BASE = """
[protocol]
max_steps = 7
settle_steps = 0
settle_action = [0.0]
control_freq = 20
init_states = 3
image_size = [64, 48]
cameras = ["eye"]
image_transform = "none"
out_of_range = "clip"
"""


LEVELS = """
title = "Mine"
extends = "base.toml"
category = "safety"
files = ["theirs", "theirs_renamed"]
[tasks]
L1 = ["push"]
[tasks.L0]
"push,_then_pull" = "Push the box, then pull it"
push = "push the box"
[levels.L0]
max_steps = 4
"""


def load_written(folder: Path, monkeypatch: pytest.MonkeyPatch, manifest: str, base: str = BASE) -> Suite:
    (folder / "mine").mkdir()
    (folder / "mine" / "suite.toml").write_text(manifest)
    (folder / "base.toml").write_text(base)
    entry = SuiteEntry("mine", "a test's", folder=folder / "mine")
    monkeypatch.setattr(extensions, "suites", lambda: {"mine": entry})
    return load_suite("mine")


def test_a_manifest_overrides_what_it_extends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_written(tmp_path, monkeypatch, GOOD)
    assert (suite.protocol.max_steps, suite.protocol.image_size) == (5, (64, 48))
    assert [task.name for task in suite.tasks] == ["one", "two"]


@pytest.mark.parametrize(
    ("manifest", "base", "complaint"),
    [
        (GOOD, BASE.replace("init_states = 3", ""), "no init_states (add "),
        (
            GOOD.replace("max_steps = 5", ""),
            BASE.replace("max_steps = 7", ""),
            "[protocol]: no max_steps (add max_steps = 300 under [protocol])",
        ),
        (
            GOOD,
            BASE.replace("init_states = 3", "").replace("control_freq = 20", ""),
            'no control_freq, init_states (add under [protocol], or extends = "libero.toml")',
        ),
        (GOOD + "fps = 3", BASE, "unknown fps"),
        (
            GOOD,
            BASE.replace('"none"', '"upside-down"'),
            "image_transform: the turn is 'upside-down', expected one of none",
        ),
        (GOOD.replace('title = "Mine"', ""), BASE, "no title at the top"),
        (GOOD + "max_steps = 6", BASE, "cannot be read as TOML"),
        (GOOD.replace("base.toml", "other.toml"), BASE, "extends: there is no other.toml in"),
        (GOOD.replace('"two"', '"one"'), BASE, "two tasks are called one; give each a name of its own"),
        (GOOD.replace('"two"', '"../two"'), BASE, "'../two' is not a task name"),
        (GOOD.replace('"two"', '"L2"'), BASE, "L2 is reserved for task levels"),
        (LEVELS.replace("L1", "easy", 1), BASE, "[tasks]: 'easy' is not a level: expected L0, L1 and so on"),
        (LEVELS.replace('"push"', '"push", "pu,sh"'), BASE, "two tasks are called L1-push"),
        (LEVELS + "[levels.L1]\nfps = 3\n", BASE, "unknown fps"),
    ],
)
def test_a_broken_manifest_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str, base: str, complaint: str
) -> None:
    with pytest.raises(VlaError) as refused:
        load_written(tmp_path, monkeypatch, manifest, base)
    assert complaint in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_tasks_may_come_in_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_written(tmp_path, monkeypatch, LEVELS)
    assert (suite.category, suite.task_levels) == ("safety", ("L1", "L0"))
    assert [task.key for task in suite.tasks] == ["L1-push", "L0-push_then_pull", "L0-push"]
    assert [task.protocol.max_steps for task in suite.tasks] == [7, 4, 4]
    assert [task.language for task in suite.tasks] == ["push", "Push the box, then pull it", "push the box"]
    name = "level_0/push,_then_pull"
    assert suite.tasks[1].paths == (f"theirs/{name}", f"theirs_renamed/{name}")
    assert suite.task("L1-push").id == "mine/L1-push"


def with_aliases(monkeypatch: pytest.MonkeyPatch, **origins: tuple[str, tuple[str, ...]]) -> None:
    """Suites by name, with who gave them and their aliases."""
    made = {name: SuiteEntry(name, "a test's", aliases=aliases, origin=by) for name, (by, aliases) in origins.items()}
    monkeypatch.setattr(extensions, "suites", lambda: made)
    # It keeps what it has found of the real ones.
    monkeypatch.setattr(extensions, "suite_aliases", extensions.suite_aliases.__wrapped__)  # type: ignore[attr-defined]


def test_an_alias_means_the_suites_of_one_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with_aliases(monkeypatch, one=("p", ("first", "both")), two=("p", ("both",)))
    assert (named_suites("one"), named_suites("first"), named_suites("both")) == (("one",), ("one",), ("one", "two"))
    with pytest.raises(VlaError, match=r"no suite 'fist'. Did you mean first"):
        named_suites("fist")


@pytest.mark.parametrize(
    ("two", "complaint"),
    [
        (("p", ("one",)), "p: the suite two has the alias 'one', which is a suite of p. Give it another"),
        (("q", ("both",)), "two packages have a suite with the alias 'both': p and q. Have one renamed"),
    ],
)
def test_aliases_that_clash_are_refused(
    monkeypatch: pytest.MonkeyPatch, two: tuple[str, tuple[str, ...]], complaint: str
) -> None:
    with_aliases(monkeypatch, one=("p", ("both",)), two=two)
    with pytest.raises(VlaError, match=complaint):
        named_suites("anything")


def load_made(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Suite]) -> Suite:
    """A suite that is made by code, as a hook gives it."""
    entry = SuiteEntry("odd", "a test's", "a_module:make", origin="the test")
    monkeypatch.setattr(extensions, "suites", lambda: {"odd": entry})
    monkeypatch.setattr(extensions, "load", lambda entry: make)
    return load_suite("odd")


def renamed(*names: object) -> Callable[[], Suite]:
    made = point_suite("odd")
    tasks = tuple(replace(made.tasks[0], name=name, index=index) for index, name in enumerate(names))  # type: ignore[arg-type]
    return lambda: replace(made, tasks=tasks)


def test_two_tasks_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = "suite odd: the test: a_module:make: two tasks are called push; give each a name of its own"
    with pytest.raises(VlaError, match=complaint):
        load_made(monkeypatch, renamed("push", "pull", "push"))


@pytest.mark.parametrize("name", ["../../evil", "", "a b", "a[b]", "a-seed1", "a.b", "l\u00f6sche", "push\n", None, 3])
def test_a_made_tasks_name_that_cannot_stand_in_an_id_is_refused(monkeypatch: pytest.MonkeyPatch, name: object) -> None:
    with pytest.raises(VlaError) as refused:
        load_made(monkeypatch, renamed("push", name))
    expected = "is not a task name: expected letters (a-z, A-Z), digits and _. Rename it"
    assert str(refused.value) == f"suite odd: the test: a_module:make: {printable(repr(name))} {expected}"


def test_what_is_no_task_of_the_suite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = point_suite("odd")
    with pytest.raises(VlaError, match=r"task push_the_point is of suite '../x'; make it with Task\('odd', ...\)"):
        load_made(monkeypatch, lambda: replace(made, tasks=(replace(made.tasks[0], suite="../x"),)))
    with pytest.raises(VlaError, match="has str among its tasks, expected Task"):
        load_made(monkeypatch, lambda: replace(made, tasks=("push",)))  # type: ignore[arg-type]
