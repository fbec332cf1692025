"""Evaluators as values: the built-in ones against the facts of their sources, and a user's own files."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import MOST_IN_STREAM, picture_steps, scene_draw, steps_to_hold
from pytest_vla.plan.evaluators import (
    SEEDS,
    built_in_evaluators,
    deviations,
    evaluator_names,
    load_evaluator,
    longest_steps,
)
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Protocol, recorded_protocol
from pytest_vla.run.options import OPTIONS
from tests.support.data import REPOSITORY

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")
# As the sources print them; GR00T N1.5's 1,000 steps of libero_10 end at its environment's horizon.
BUDGETS = {
    "openpi": (220, 280, 300, 520, 400),
    "openvla": (220, 280, 300, 520, 400),
    "openvla-oft": (220, 280, 300, 520, 400),
    "lerobot": (280, 280, 300, 520, 400),
    "groot-n1.5": (220, 280, 600, 1000 - 10, 400),
    "groot-n1.7": (720, 720, 720, 720, 720),
    "x-vla": (800, 800, 800, 900, 800),
    "vla-eval": (220, 280, 300, 520, 400),
}
CHUNKS = {"openpi": 5, "openvla": 1, "openvla-oft": 8, "groot-n1.5": 1, "groot-n1.7": 8}
MINE = """
extends = "openpi"
about = "ours with more steps"
replan = 10

[max_steps]
libero_10 = 600

[protocol]
image_size = [128, 128]
"""


def protocol_of(evaluator: str, suite: str = "libero_goal") -> Protocol:
    return load_evaluator(evaluator).task(load_suite(suite).tasks[0]).protocol


def test_step_budgets_and_chunks_are_the_sources() -> None:
    assert set(BUDGETS) == {each.name for each in built_in_evaluators()}
    for name, budgets in BUDGETS.items():
        assert tuple(protocol_of(name, suite).max_steps for suite in SUITES) == budgets
        assert load_evaluator(name).replan == CHUNKS.get(name)
        assert load_evaluator(name).commit


def test_ours_changes_nothing() -> None:
    task = load_suite("tabletop").tasks[0]
    assert load_evaluator("ours").task(task) is task
    assert deviations(task, task.protocol, load_evaluator("ours")) == {}
    assert evaluator_names()[0] == "ours"


def test_records_of_a_suites_own_protocol_are_as_before() -> None:
    table = load_suite("libero_goal").protocol.table()
    assert set(table) == {
        *("max_steps", "settle_steps", "settle_action", "control_freq", "init_states", "image_size", "cameras"),
        *("image_transform", "out_of_range", "init_state", "textures"),
    }
    assert protocol_of("openpi").table() == {
        **table,
        "evaluator": "openpi",
        "scenes": "stream 7",
        "image_transform": "rotate_180 > pad 224",
    }


@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_a_records_protocol_gives_the_task_back(name: str) -> None:
    task = load_suite("libero_goal").tasks[0]
    then = load_evaluator(name).task(task)
    found = recorded_protocol(task, then.protocol.table())
    # The number of init states is the data's.
    assert dataclasses.replace(found.protocol, init_states=then.protocol.init_states) == then.protocol
    assert recorded_protocol(then, task.protocol.table()).protocol.evaluator == "ours"


def test_it_is_for_suites_with_libero_s_tasks() -> None:
    openpi = load_evaluator("openpi")
    assert openpi.task(load_suite("libero_para").tasks[0]).protocol.max_steps == 300
    assert openpi.task(load_suite("libero_plus_10").tasks[0]).protocol.max_steps == 520
    for suite in ("tabletop", "vla_arena_static_obstacles"):
        task = load_suite(suite).tasks[0]
        assert not openpi.knows(task)
        with pytest.raises(VlaError, match=f"openpi has no protocol for {suite}: it is for libero_spatial, .*ours"):
            openpi.task(task)


def test_drawn_starts_have_one_for_each_seed() -> None:
    protocol = protocol_of("groot-n1.7")
    assert (protocol.starts, protocol.init_states, protocol.settle_steps) == ("drawn", SEEDS, 0)


def test_the_longest_budget_is_of_all() -> None:
    longest = [longest_steps(load_suite(suite).tasks[0]) for suite in SUITES]
    assert longest == [max(budgets) for budgets in zip(*BUDGETS.values(), strict=True)]
    tabletop = load_suite("tabletop").tasks[0]
    assert longest_steps(tabletop) == tabletop.protocol.max_steps


def test_a_file_of_ones_own_extends_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    mine = load_evaluator(str(tmp_path / "mine.toml"))
    assert (mine.name, mine.replan, mine.episodes) == ("mine", 10, 50)
    task = load_suite("libero_10").tasks[0]
    assert deviations(task, mine.task(task).protocol, load_evaluator("openpi")) == {
        "max_steps": (520, 600),
        "image_size": ((256, 256), (128, 128)),
        "evaluator": ("openpi", "mine"),
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max_steps = 3", r"max_steps: expected a table"),
        (
            "[max_steps]\nlibero_goal = 0",
            r"\[max_steps\] libero_goal: expected a whole number from 1 to 1,000,000, found 0",
        ),
        ("[max_steps]\nlibero_goal = true", r"\[max_steps\] libero_goal: expected a whole number"),
        ("about = 3", "about: expected a text, found 3"),
        ("replan = -1", "replan: expected a whole number from 1 to 1,000,000, or 0 for the policy's own.*found -1"),
        ("episodes = 'x'", "episodes: .*or 0 for the suite's own number, found 'x'"),
        ('extends = "openpj"', "no evaluator 'openpj'.*openpi"),
        ('extends = "ours"', "extends: expected one of"),
        ("replans = 3", "unknown replans.*replan"),
        ('extends = "openpi"\n[protocol]\nscene = "seed"', "unknown scene.*scenes"),
        ('extends = "openpi"\n[protocol]\nscenes = "stream"', "scenes is 'stream', expected 'seed'"),
        (
            'extends = "openpi"\n[protocol]\nimage_transform = "rotate_180 > pad 0"',
            "image_transform: the step is 'pad 0', expected one of pad 1",
        ),
        (
            'extends = "openpi"\n[protocol]\nwrist_transform = "turned"',
            "wrist_transform: the turn is 'turned', expected one of none",
        ),
        (
            'extends = "openpi"\n[protocol]\nprompt = "do it"',
            "prompt is 'do it', expected a text with one {instruction}",
        ),
        ('extends = "openpi"\n[protocol]\nimage_size = [0, 3]', r"image_size is \[0, 3\], expected \[height, width\]"),
        (
            'extends = "openpi"\n[protocol]\nsettle_action = [0, 1]',
            r"settle_action is \[0, 1\], expected seven numbers",
        ),
        ('extends = "openpi"\n[protocol]\nsettle_steps = -1', "settle_steps is -1, expected a whole number"),
        ('extends = "openpi"\n[protocol]\ngripper = "up"', "gripper is 'up', expected one of as_given"),
        ('extends = "openpi"\n[protocol]\nsuccess = "held"', "success is 'held', expected first, held:K"),
        ("about = [", "cannot be read as TOML"),
        ("", r"no \[max_steps\]"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(VlaError, match=told):
        load_evaluator(str(file))


def test_a_name_is_the_files_own(tmp_path: Path) -> None:
    for name, told in (("openpi.toml", "openpi is a built-in evaluator"), ("a b.toml", "the file's name")):
        (tmp_path / name).write_text(MINE)
        with pytest.raises(VlaError, match=told):
            load_evaluator(str(tmp_path / name))
    with pytest.raises(VlaError, match="cannot be read"):
        load_evaluator(str(tmp_path / "none.toml"))
    with pytest.raises(VlaError, match=r"no evaluator 'openpie'.*Did you mean openpi"):
        load_evaluator("openpie")


# The grammars.


def test_scenes_of_a_seed_and_of_a_stream() -> None:
    assert scene_draw("seed", 7) == (7, 0, 0)
    assert scene_draw("seed+142", 7) == (149, 0, 0)
    assert scene_draw("seed+1000 after 1 reset", 7) == (1007, 0, 1)
    assert scene_draw("stream 7", 49) == (7, 49, 0)
    for scenes, seed in (
        ("stream 7", MOST_IN_STREAM),
        ("seed+1", 2**32 - 1),
        ("stream -1", 0),
        ("seed + 1", 0),
        ("", 0),
    ):
        with pytest.raises(VlaError):
            scene_draw(scenes, seed)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (picture_steps, steps_to_hold, lambda said: scene_draw(said, 0)):
        try:
            read(text)
        except VlaError:
            continue


def test_steps_of_pictures() -> None:
    assert picture_steps("rotate_180 > jpeg 95 > lanczos 224 > crop 0.9") == (
        *(("rotate_180", 0), ("jpeg", 95), ("lanczos", 224), ("crop", 0.9)),
    )
    for wrong in ("pad 224", "rotate_180 > pad", "rotate_180 > pad 2.5", "rotate_180 > crop 0", "rotate_180>pad 3"):
        with pytest.raises(VlaError):
            picture_steps(wrong)


def test_how_long_a_goal_has_to_hold() -> None:
    assert [steps_to_hold(each) for each in ("first", "held:20", "end")] == [1, 20, None]


@pytest.mark.parametrize("control", ["relative", "absolute"])
def test_a_control_that_is_left_to_the_policy_is_no_deviation(control: str) -> None:
    task, lerobot = load_suite("libero_goal").tasks[0], load_evaluator("lerobot")
    assert deviations(task, dataclasses.replace(lerobot.task(task).protocol, control=control), lerobot) == {}
    assert deviations(task, dataclasses.replace(lerobot.task(task).protocol, control=control), load_evaluator("openpi"))


def test_a_file_extends_a_file_beside_it_and_is_not_called_upstreams(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "more.toml").write_text('extends = "mine.toml"\nreplan = 3\n')
    more = load_evaluator("more.toml", tmp_path)
    assert (more.replan, more.max_steps["libero_10"], more.about) == (3, 600, "mine as more.toml changes it")


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_files_that_extend_each_other_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name, base in zip(names, (*names[1:], names[0]), strict=True):
        (tmp_path / f"{name}.toml").write_text(f'extends = "{base}.toml"\n')
    with pytest.raises(VlaError, match=r"extends: one.toml is this file, or extends it in turn"):
        load_evaluator("one.toml", tmp_path)


def test_docs_and_help_have_what_the_files_say() -> None:
    """The table of docs/how-to/evaluators.md, and the names in the option's help."""
    page = (REPOSITORY / "docs" / "how-to" / "evaluators.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    table = {row[0].strip("`"): row for row in rows if len(row) == 8}
    (option,) = (each for each in OPTIONS if each.name == "evaluator")
    for each in built_in_evaluators():
        steps, executed, *_, episodes = table[each.name][1:]
        budgets = tuple(each.max_steps[suite] for suite in SUITES)
        assert steps in (", ".join(map(str, budgets)), f"{budgets[0]} for all")
        assert executed == (str(each.replan) if each.replan else "the policy's number")
        assert episodes == str(each.episodes)
        assert each.name in option.help


def test_zero_leaves_a_number_to_policy_and_suite(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "openpi"\nreplan = 0\nepisodes = 0\n[protocol]\nsuccess = "held:1"\n')
    found = load_evaluator(str(file))
    assert (load_evaluator("openpi").replan, load_evaluator("openpi").episodes) == (5, 50)
    # A goal that holds for one step is the first success.
    assert (found.replan, found.episodes, found.protocol["success"]) == (None, None, "first")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # Isaac-GR00T's examples/LIBERO/README.md at 559269d evaluates N1.6 by the script of N1.7.
        ("groot-n1.6", "numbers of groot-n1.6 were measured by groot-n1.7"),
        ("GR00T_N1.7", "Did you mean groot-n1.7"),
        ("pi0.5", "numbers of pi05 were measured by openpi"),
        ("smolvla", "were measured by lerobot"),
        ("openvla_oft", "Did you mean openvla-oft"),
        ("xvla", "Did you mean x-vla"),
    ],
)
def test_a_models_name_is_told_from_an_evaluators(text: str, told: str) -> None:
    with pytest.raises(VlaError, match=told):
        load_evaluator(text)
