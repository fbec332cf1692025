"""Labels and ids: what is composed is taken apart as it was."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan import case as labels
from pytest_vla.plan.case import CaseParts
from pytest_vla.vary.registry import kinds

NAMES = st.from_regex(r"[a-z]{1,8}\.[a-z_]{1,12}", fullmatch=True)
WORDS = st.from_regex(r"[A-Za-z0-9_]{1,20}", fullmatch=True)


@given(NAMES, st.integers(1, 20))
def test_a_level_is_read_as_it_was_written(name: str, level: int) -> None:
    label = labels.levelled(name, level)
    assert re.fullmatch(labels.LABEL, label)
    assert labels.level_of(label) == level
    assert (labels.level_of(name), labels.part_of(label, name)) == (0, "")


@given(NAMES, st.from_regex(r"[a-z]{1,8}([.-][a-z0-9]{1,4})?", fullmatch=True))
def test_a_part_is_read_as_it_was_written(name: str, part: str) -> None:
    label = labels.parted(name, part)
    assert labels.part_of(label, name) == part
    assert labels.part_of(name, name) == ""


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_a_joint_label_is_taken_apart_as_it_was_put_together(names: list[str]) -> None:
    label = labels.joint_of(names)
    assert labels.parts_of(label) == tuple(names)
    assert labels.is_joint(label) == (len(names) > 1)
    dimensions = labels.joint_of(labels.dimension_of(name) for name in names)
    kinds_ = labels.within(dimensions, label)
    assert labels.names_of(dimensions, kinds_) == label


def test_names_of_records_whose_parts_do_not_pair_are_left_whole() -> None:
    assert labels.names_of("camera", "distance+azimuth") == "camera.distance+azimuth"


@given(WORDS, WORDS, st.one_of(st.just(""), st.from_regex(labels.LABEL, fullmatch=True)), st.integers(0, 2**32 - 1))
def test_a_case_is_read_from_its_node_id(suite: str, task: str, variation: str, seed: int) -> None:
    assume(re.fullmatch(labels.TASK_LEVEL, task) is None)
    case = CaseParts(suite, task, variation, seed)
    assert labels.split_node_id(labels.node_id(case)) == case
    assert labels.parse_case_id(labels.case_id(case)) == case
    assert labels.parameter_id(case) in labels.node_id(case)


@given(WORDS, WORDS, st.integers(0, 99), st.one_of(st.just(""), NAMES), st.integers(0, 2**32 - 1))
def test_a_case_of_a_level_is_read_from_its_node_id(suite: str, task: str, level: int, label: str, seed: int) -> None:
    case = CaseParts(suite, task, label, seed, f"L{level}")
    assert labels.split_node_id(labels.node_id(case)) == case
    assert labels.task_key_of(labels.case_id(case), suite) == f"L{level}-{task}"
    assert labels.parse_task_key(labels.task_key(task, f"L{level}")) == (task, f"L{level}")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("light.diffuse-L2", ("light", "diffuse", 2)),
        ("language.blank", ("language", "blank", None)),
        ("camera.wider-L2+light.shadow-L2", ("camera+light", "wider+shadow", 2)),
        ("camera.wider-L2+light.shadow-L1", ("camera+light", "wider+shadow", None)),
        ("camera.wider-L2+language.blank", ("camera+language", "wider+blank", None)),
    ],
)
def test_a_label_says_what_it_usually_is_of(label: str, said: tuple[str, str, int | None]) -> None:
    assert labels.usually_of(label) == said


@pytest.mark.parametrize("text", ["", "a/b", "a/b[seed]", "a/b[seed-1]", "../b[seed0]", "a/b/c[seed0]", "a/b[seed0]x"])
def test_what_is_no_case_is_told_from_one(text: str) -> None:
    assert labels.parse_case_id(text) is None


def test_the_level_of_a_task_is_none_of_a_variation() -> None:
    plain, varied = CaseParts("s", "push", "light.dim-L2", 0), CaseParts("s", "push", "light.dim-L2", 0, "L1")
    assert labels.node_id(plain) == "s::test_episode[push-light.dim-L2-seed0]"
    assert labels.node_id(varied) == "s::test_episode[L1-push-light.dim-L2-seed0]"
    assert labels.case_id(varied) == "s/L1-push[light.dim-L2-seed0]"
    assert labels.parse_task_key("push-L1") is None


@pytest.mark.parametrize(
    ("text", "levels"),
    [("L1", "1"), ("0-2", "012"), ("L0-L2", "012"), ("2, l0 ,0-1", "201"), ("0,0", "0")],
)
def test_levels_of_tasks(text: str, levels: str) -> None:
    assert labels.parse_task_levels(text) == tuple(f"L{level}" for level in levels)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is not a level or range; write L1, L0,L2 or L0-L2"),
        ("easy", "'easy' is not a level"),
        ("L-1", "'L-1' is not a level"),
        ("1-2-3", "is not a level"),
        ("L100", "is not a level"),
        ("2-0", "2-0 runs backwards; write L0-L2"),
    ],
)
def test_other_texts_are_no_levels(text: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        labels.parse_task_levels(text)


@pytest.mark.parametrize("text", ["", "a::test_x[b-seed0]", "a::test_episode[b-seed]", "a::test_episode[b c-seed0]"])
def test_other_texts_are_no_node_ids(text: str) -> None:
    assert labels.split_node_id(text) is None


def test_every_label_of_a_kind_is_its_own() -> None:
    for kind in kinds():
        for label in kind.labels():
            level, part = labels.level_of(label), labels.part_of(label, kind.name)
            assert label == (
                labels.levelled(kind.name, level)
                if kind.levels
                else labels.parted(kind.name, part)
                if part
                else kind.name
            )


def test_upstreams_labels_are_known() -> None:
    assert labels.is_upstreams(labels.upstreams("layout-add_9"))
    assert not labels.is_upstreams("layout-add_9")
