"""Which variations there are, and how the parts of a joint one are put together."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import LABEL, Case, parse_node_id
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import with_twins
from pytest_vla.scene.variation import Variation, joined
from pytest_vla.show.restored import given_back
from pytest_vla.vary import registry
from pytest_vla.vary.kind import VariationListing
from pytest_vla.vary.registry import PAIRED, compiles_anew, find_variation, kinds, kinds_table, labels_of, parse_vary
from tests.support.examples import scaled

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")


def test_kinds_are_registered_once() -> None:
    names = [kind.name for kind in kinds()]
    assert len(set(names)) == len(names)
    labelled = [(kind, label) for kind in kinds() for label in kind.labels()]
    assert len({label for _, label in labelled}) == len(labelled)
    for kind, label in labelled:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", kind.name)
        assert re.fullmatch(LABEL, label)
        assert "+" not in label
        assert kind.about
        assert kind.source
        assert kind.grades or not kind.levels or kind.published or kind.dimension == "language", kind.name


def test_all_dimensions_of_the_papers_are_there() -> None:
    dimensions = {kind.dimension for kind in kinds()}
    assert {"layout", "background", "light", "camera", "robot", "noise", "language", "action"} <= dimensions
    assert set(PAIRED) < dimensions


def test_a_joint_variation_has_one_order() -> None:
    assert find_variation(TASK, "light.diffuse-L1+camera.wider-L1", 0) is not None
    with pytest.raises(VlaError, match=re.escape("write light.diffuse-L1+camera.wider-L1")):
        find_variation(TASK, "camera.wider-L1+light.diffuse-L1", 0)


def test_forbidden_pairs_are_refused_by_their_label_too() -> None:
    with pytest.raises(VlaError, match="changes the task and cannot be combined"):
        find_variation(TASK, "language.other_goal+camera.wider-L1", 0)
    with pytest.raises(VlaError, match="two variations of one dimension"):
        find_variation(TASK, "camera.wider-L1+camera.azimuth-L1", 0)


@settings(max_examples=scaled(60))
@given(
    labels=st.lists(
        st.sampled_from(
            [kind.name for kind in kinds() if kind.levels and not kind.published and kind.dimension != "language"]
        ),
        min_size=2,
        max_size=3,
        unique_by=lambda name: name.partition(".")[0],
    ),
    level=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_a_joint_variation_is_its_parts_as_they_are_drawn_alone(labels: list[str], level: int, seed: int) -> None:
    (label,) = parse_vary("+".join(f"{name}:{level}" for name in labels))
    parts = label.split("+")
    try:
        alone = [find_variation(TASK, part, seed) for part in parts]
        both = find_variation(TASK, label, seed)
    except VlaError:
        return
    assert both is not None
    assert both.level == level
    expected = {
        f"{part.dimension}.{part.kind}.{name}": value
        for part in alone
        if part is not None
        for name, value in part.parameters.items()
    }
    assert both.parameters == expected
    assert parse_node_id(Case("tabletop", TASK.name, seed, label).node_id) == Case("tabletop", TASK.name, seed, label)


def test_what_a_joint_case_is_compared_with_is_run_once() -> None:
    case = Case("tabletop", TASK.name, 2, "light.diffuse-L1+camera.wider-L3")
    again = Case("tabletop", TASK.name, 2, "light.diffuse-L1+robot.joints-L3")
    assert [each.variation for each in with_twins([case, again])] == [
        "", "light.diffuse-L1", "camera.wider-L3", "robot.joints-L3", case.variation, again.variation,
    ]  # fmt: skip


def test_scenes_that_are_others_are_known_by_their_labels() -> None:
    assert not compiles_anew(TASK, "", 0)
    assert not compiles_anew(TASK, "camera.wider-L1", 0)
    assert compiles_anew(TASK, "layout.distractors-L1", 0)
    assert compiles_anew(TASK, "layout.distractors-L1+camera.wider-L1", 0)


def test_a_record_tells_which_draw_it_was() -> None:
    first = find_variation(TASK, "robot.joints-L2", 4)
    assert first is not None
    assert first.redraw is not None
    third = first.redraw(3)
    assert third.parameters != first.parameters
    assert given_back(TASK, "robot.joints-L2", third.parameters) == third
    assert given_back(TASK, "robot.joints-L2", first.parameters) == first
    with pytest.raises(VlaError, match="offset is missing; the record is from another version of pytest-vla"):
        given_back(TASK, "robot.joints-L2", {"norm": 9})
    with pytest.raises(VlaError, match="differs from its record: norm; the record is from another version"):
        given_back(TASK, "robot.joints-L2", {**first.parameters, "norm": 9})


def test_a_joint_record_tells_which_draw_of_each_part_it_was() -> None:
    label = "light.diffuse-L2+robot.joints-L2"
    first = find_variation(TASK, label, 4)
    assert first is not None
    light, robot = first.parts
    assert robot.redraw is not None
    drawn = joined(label, (light, robot.redraw(2)))
    assert drawn.parameters != first.parameters
    assert given_back(TASK, label, drawn.parameters) == drawn
    with pytest.raises(VlaError, match=r"differs from its record: robot\.joints\.norm"):
        given_back(TASK, label, {**drawn.parameters, "robot.joints.norm": 9})


def test_upstreams_labels_stay_however_often_they_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(time: int) -> Variation:
        return Variation("layout-add_9", "layout", "O1-add", parameters={"time": time}, redraw=again)

    made = VariationListing(lambda task, protocol: {"layout-add_9": again(0)}, two_protocols=True)
    monkeypatch.setattr(registry, "listing", lambda name: made)
    task = replace(TASK, varied="a list", index=99)
    assert labels_of(task, protocol="upstream") == ("upstream.layout-add_9",)
    found = find_variation(task, "upstream.layout-add_9", 0)
    assert found is not None
    assert found.redraw is not None
    twice = found.redraw(1).redraw
    assert twice is not None
    assert (twice(2).label, twice(2).parameters) == ("upstream.layout-add_9", {"time": 2})


def test_what_does_not_go_together_is_not_joined() -> None:
    arm = Variation("a", "robot", "one", rest_joints=(0.0,) * 7)
    other = Variation("b", "camera", "other", rest_joints=(0.0,) * 7)
    with pytest.raises(VlaError, match="the arm's rest pose"):
        joined("a+b", (arm, other))
    told = [Variation(name, name, "x", instruction=name) for name in ("c", "d")]
    with pytest.raises(VlaError, match="change the instruction"):
        joined("c+d", (told[0], told[1]))


def test_the_table_says_levels_and_where_they_are_from() -> None:
    text = " ".join(" ".join(kinds_table()).split())
    assert "camera.wider:1-5" in text
    assert "VLA-Arena" in text
    assert "0.1 to 0.5 rad" in text
