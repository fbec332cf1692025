"""What parameters may be: all that is drawn is within bounds, what is benign changes nothing, the rest is refused."""

import contextlib
import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import format_problem, problem_of
from pytest_vla.scene.variation import VISUAL_ARRAYS, Variation, model_array
from pytest_vla.show.restored import given_back, space_of
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.registry import find_variation, kinds, labels_of
from pytest_vla.vary.space import (
    ANGLE,
    CHOICE,
    LISTED,
    NUMBER,
    SEED,
    TEXT,
    WHOLE,
    Parameter,
    benign,
    complaints,
)
from tests.support.data import data_root, libero_data, needs_data
from tests.support.examples import scaled
from tests.support.worlds import tabletop_world

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
_OTHERS = ("background.floor", "language.other_goal")
KINDS = [
    kind for kind in kinds() if not (kind.needs_files or kind.dimension in ("pro", "hazard") or kind.name in _OTHERS)
]
"""Those that the task has and that need no data of anybody."""

GRADED = [kind for kind in KINDS if any(each.is_amount for each in kind.space(TASK))]
"""Those that can be less than they are."""

PICTURE = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
ACTIONS = np.clip(np.random.default_rng(1).normal(size=(8, 7)), -1, 1)


def label_of(kind: VariationKind, level: int = 3) -> str:
    """Of a level, or of its last part; the task has three words that can be replaced."""
    most = 3 if kind.dimension == "language" else len(kind.levels)
    return kind.labels()[min(level, most) - 1] if kind.levels else kind.labels()[-1]


def drawn(kind: VariationKind, seed: int = 1, level: int = 3) -> Variation:
    found = find_variation(TASK, label_of(kind, level), seed)
    assert found is not None
    return found


def params_of(variation: Variation) -> dict[str, Any]:
    told = {} if variation.instruction is None else {"instruction": variation.instruction}
    return {**variation.parameters, **told}


def done(variation: Variation, task: Task = TASK) -> dict[str, Any]:
    """What a variation does, in a form that can be compared."""
    problem = original = problem_of(task)
    for edit in variation.problem:
        problem = edit(problem)
    changes, acts = [begin() for begin in variation.pictures], [begin() for begin in variation.actions]
    pictures, actions = [], []
    for step in range(3):
        for camera in task.protocol.cameras:
            picture = PICTURE if step % 2 else 255 - PICTURE
            for change in changes:
                picture = change(picture, camera, step)
            pictures.append(picture.tobytes())
    for action in ACTIONS:
        for act in acts:
            action = act(action)
        actions.append(action.tolist())
    return {
        "told": (variation.instruction, variation.rest_joints, variation.removed),
        "problem": format_problem(problem),
        "asked": format_problem(variation.asked(original)) if variation.asked else "",
        "pictures": pictures,
        "actions": actions,
    }


def arrays(variation: Variation | None, task: Task = TASK) -> dict[str, Any]:
    """What a world is under a variation that moves nothing before it is compiled."""
    world = tabletop_world()
    assert world.switch(task, variation)
    try:
        world.reset(0, settle=False)
    except VlaError as error:
        return {"error": type(error)}
    found = {name: model_array(world.model, name).copy() for name in VISUAL_ARRAYS}
    return {**found, "textures": world.model.tex_data.copy(), "qpos": world.data.qpos.copy()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_record_gives_its_variation_back_without_drawing(
    kind: VariationKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [drawn(kind), drawn(kind, seed=8, level=5)]
    found += [each.redraw(2) for each in found if each.redraw is not None]
    monkeypatch.setattr(Draw, "generator", lambda draw: pytest.fail("it was drawn again"))
    for variation in found:
        table = json.loads(json.dumps(variation.table()))
        back = given_back(TASK, table["label"], table["parameters"], variation.instruction)
        assert back == variation
        assert done(back) == done(variation)
        if not variation.problem and (variation.model or variation.state):
            one, other = arrays(back), arrays(variation)
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_joint_record_gives_its_variation_back_with_what_was_told() -> None:
    variation = find_variation(TASK, "layout.displacement-L2+light.diffuse-L4+robot.joints-L2+language.words-L3", 6)
    assert variation is not None
    table = json.loads(json.dumps(variation.table()))
    assert given_back(TASK, variation.label, table["parameters"], variation.instruction) == variation
    assert complaints(space_of(TASK, variation.label), params_of(variation)) == ()


def test_an_older_record_which_lacks_what_its_label_says_gives_its_variation_back() -> None:
    variation = find_variation(TASK, "light.diffuse-L3", 2)
    assert variation is not None
    older = {name: value for name, value in variation.parameters.items() if name != "share"}
    assert given_back(TASK, "light.diffuse-L3", older) == variation


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_drawn_is_in_the_space(kind: VariationKind) -> None:
    space = kind.space(TASK)
    for seed in range(4):
        for level in (1, 5):
            assert complaints(space, params_of(drawn(kind, seed, level))) == ()


@pytest.mark.parametrize("kind", GRADED, ids=lambda kind: kind.name)
def test_what_is_benign_changes_nothing(kind: VariationKind) -> None:
    variation = drawn(kind)
    none = benign(kind.space(TASK), params_of(variation))
    assert complaints(kind.space(TASK), none) == ()
    made = kind.given(TASK, variation.label, none)
    assert done(made) | {"told": ()} == done(Variation("x", "x", "x")) | {"told": ()}
    assert made.instruction in (None, TASK.language)
    assert (made.rest_joints, made.removed) == (None, ())
    changed, own = arrays(made), arrays(None)
    for name, values in own.items():
        assert np.allclose(changed[name], values, atol=1e-6), name


@settings(max_examples=scaled(150))
@given(st.data())
def test_any_parameters_within_the_space_make_a_variation(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    space = kind.space(TASK)
    params = {
        each.name: data.draw(values_of(each), label=each.name)
        for each in space
        if not each.optional or data.draw(st.booleans())
    }
    assert complaints(space, params) == ()
    made = kind.given(TASK, label_of(kind), json.loads(json.dumps(params)))
    done(made)
    assert {name: made.parameters[name] for name in params if name != "instruction"} == {
        name: value for name, value in params.items() if name != "instruction"
    }


def values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Any value of a parameter."""
    if parameter.parts:
        return st.tuples(*map(values_of, parameter.parts)).map(list)
    if parameter.many:
        return st.lists(st.sampled_from(parameter.choices), unique=True)
    one: st.SearchStrategy[Any] = st.text(max_size=20)
    if parameter.form in (NUMBER, ANGLE):
        one = st.floats(parameter.low, parameter.high)
    elif parameter.form in (WHOLE, SEED):
        one = st.integers(int(parameter.low), int(parameter.high))
    elif parameter.form in (CHOICE, LISTED):
        one = st.sampled_from(parameter.choices)
    for count in reversed(parameter.shape):
        one = st.lists(one, min_size=count, max_size=count)
    return one


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (Parameter("turn", NUMBER, 0, 60, 0.0, unit="deg"), 61, "expected 0 to 60 deg, found 61"),
        (Parameter("turn", NUMBER, 0, 60), float("nan"), "expected a number, found nan"),
        (Parameter("turn", NUMBER, 0, 60), True, "expected a number, found True"),
        (Parameter("steps", WHOLE, 0, 5), 2.5, "expected a whole number, found 2.5"),
        (Parameter("seed", SEED, 0, 9), "7", "expected a whole number, found '7'"),
        (Parameter("told", TEXT), 3, "expected a text of up to 10000 characters, found 3"),
        (Parameter("view", CHOICE, choices=("a", "b")), "c", "expected one of 'a', 'b'; found 'c'"),
        (Parameter("row", LISTED, choices=tuple(range(9))), [], "expected one of 0, 1, 2, 3, 4, ...; found []"),
        (Parameter("gain", NUMBER, 0, 1, shape=(3,)), [1, 1], "expected 3 of them, found [1, 1]"),
        (Parameter("gain", NUMBER, 0, 1, shape=(2, 2)), [[0, 1], [0, 2]], "expected 0 to 1, found 2"),
        (Parameter("some", CHOICE, choices=("a", "b"), many=True), ["a", "a"], "expected a list, each thing once"),
        (Parameter("some", CHOICE, choices=("a", "b"), many=True), ["c"], "'c' is none of 'a', 'b'"),
        (Parameter("put", parts=(Parameter("x"), Parameter("y"))), [1], "expected x, y, found [1]"),
        (Parameter("put", parts=(Parameter("x"), Parameter("y"))), [1, "z"], "y: expected a number, found 'z'"),
    ],
)
def test_what_is_not_in_the_space_is_refused(parameter: Parameter, value: object, message: str) -> None:
    assert parameter.complaint(value).startswith(message)
    assert complaints((parameter,), {parameter.name: value})[0].startswith(f"{parameter.name}: {message}")
    assert complaints((parameter,), {}) == (f"{parameter.name} is missing",)


@pytest.mark.parametrize(
    ("label", "parameters", "message"),
    [
        ("action.delay-L2", {"steps": 10**9}, "steps: expected 0 to 5 control steps, found 1000000000"),
        ("action.delay-L2", {"steps": 2, "milliseconds": 7}, "differs from its record: milliseconds"),
        ("background.table-L1", {"table_family": "lava"}, "table_family: expected one of 'wood'"),
        ("layout.distractors-L1", {"distractor_1": ["anvil", 0, 0, 0]}, "distractor_1: category: expected one of"),
        ("layout.displacement-L1", {"object": "sink"}, "object: expected one of"),
        ("camera.none-L1", {}, "there is no variation 'camera.none-L1'"),
        ("light.diffuse-L1+light.shadow-L1", {}, "two variations of one dimension do not go together"),
    ],
)
def test_a_record_whose_variation_cannot_be_is_refused(label: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(VlaError, match=message):
        given_back(TASK, label, parameters)


@pytest.mark.parametrize(
    ("label", "message"),
    [("background.floor-L1", "cameras do not see the floor"), ("camera.wider-L1", "has no pictures of agentview")],
)
def test_what_a_task_cannot_have_has_no_space(label: str, message: str) -> None:
    cameras = ("agentview",) if "floor" in label else ("robot0_eye_in_hand",)
    with pytest.raises(VlaError, match=message):
        space_of(replace(TASK, protocol=replace(TASK.protocol, cameras=cameras)), label)


@needs_data
@pytest.mark.parametrize(
    ("suite", "kinds_"),
    [
        ("libero_goal", "pro.swap pro.object pro.task pro.displace_x pro.displace_y pro.semantic language.other_goal"),
        ("libero_10", "pro.environment pro.combined background.file"),
        ("libero_object", "background.floor layout.distractors layout.displacement"),
    ],
)
@pytest.mark.parametrize("published", [False, True])
def test_a_record_of_a_libero_task_gives_its_variation_back(suite: str, kinds_: str, published: bool) -> None:
    """By rules of ours, and by LIBERO-PRO's files."""
    if published:
        pytest.importorskip("yaml", reason="needs PyYAML")
    tasks = load_suite(suite, data=data_root() if published else libero_data()).tasks[:4]
    for kind in (kind for kind in kinds() if kind.name in kinds_.split()):
        labels, found = kind.labels(), []
        for task, label in itertools.product(tasks, labels[:: max(1, len(labels) // 4)]):
            with contextlib.suppress(VlaError):
                found.append((task, find_variation(task, label, 5)))
        assert found, kind.name
        for task, variation in found[:4]:
            assert variation is not None
            for each in (variation, *([variation.redraw(3)] if variation.redraw else [])):
                assert complaints(space_of(task, each.label), params_of(each)) == ()
                table = json.loads(json.dumps(each.table()))
                back = given_back(task, each.label, table["parameters"], each.instruction or task.language)
                assert back == each
                assert done(back, task) == done(each, task)


@needs_data
def test_a_record_of_libero_plus_gives_a_layout_back_that_its_rules_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vla.suites.libero_plus.names import PlusTask

    task = load_suite("libero_plus_goal", data=data_root()).task("turn_on_the_stove")
    found = [label for label in labels_of(task, protocol="upstream") if "layout" in label]
    variations = [find_variation(task, label, 0) for label in (found[0], found[-1])]
    again = [each.redraw(4) for each in variations if each is not None and each.redraw is not None]
    assert len(again) == 2
    monkeypatch.setattr(PlusTask, "generator", lambda entry, time=0: pytest.fail("it was drawn again"))
    for each in again:
        table = json.loads(json.dumps(each.table()))
        back = given_back(task, each.label, table["parameters"])
        assert back == each
        assert done(back, task) == done(each, task)
        with pytest.raises(VlaError, match="each with its x and y, found"):
            given_back(task, each.label, {"regenerated": True})


def test_the_space_of_a_joint_variation_has_its_parts_names() -> None:
    names = {each.name for each in space_of(TASK, "light.shadow-L1+camera.wider-L1+language.nonsense")}
    assert names == {"light.shadow.strength", "camera.wider.factor", "instruction"}
