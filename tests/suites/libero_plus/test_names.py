"""LIBERO-Plus's names: each says what it perturbs, and nothing else is a name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import language_of
from pytest_vla.suites.libero_plus.names import SUITES, PlusTask, bases, parse_name

CENTRE = "pick_up_the_black_bowl_from_table_center_and_place_it_on_the_plate"
STOVE = "turn_on_the_stove"
MUGS = "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it"
PLAIN = "view_0_0_100_0_0_initstate_0"


@pytest.mark.parametrize(
    ("name", "dimension", "kind", "label", "said"),
    [
        (f"{STOVE}_table_16", "background", "B2-surface", "background-table_16", {"table": 16}),
        (f"{MUGS}_tb_22", "background", "B1-scene-and-surface", "background-tb_22", {"tb": 22}),
        (f"{STOVE}_light_8", "light", "L-light", "light-8", {"light": 8}),
        (f"{STOVE}_add_30", "layout", "O1-add", "layout-add_30", {"add": 30}),
        (
            f"{STOVE}_moved_level3_sample2",
            *("layout", "O2-level", "layout-level3-sample2"),
            {"moved": True, "layout_level": 3, "sample": 2},
        ),
        (
            f"{MUGS}_level5_sample4",
            *("layout", "O2-level", "layout-level5-sample4"),
            {"layout_level": 5, "sample": 4},
        ),
        (f"{STOVE}_language_36_{PLAIN}", "language", "R-rewrite", "language-36", {"language": 36}),
        (f"{STOVE}_view_0_0_100_0_0_initstate_100", "robot", "norm-0.1", "robot-100", {"initstate": 100}),
        (f"{STOVE}_view_0_0_100_0_0_initstate_401", "robot", "norm-0.5", "robot-401", {"initstate": 401}),
        (f"{STOVE}_{PLAIN}_noise_10", "noise", "N1-motion", "noise-10", {"noise": 10}),
        (f"{STOVE}_{PLAIN}_noise_41", "noise", "N5-glass", "noise-41", {"noise": 41}),
        (
            f"{STOVE}_view_0_0_115_0_0_initstate_0",
            *("camera", "C1-distance", "camera-view_0_0_115_0_0"),
            {"h": 0, "v": 0, "scale": 1.15, "r": 0, "e": 0},
        ),
        (
            f"{STOVE}_view_359_0_100_0_0_initstate_0",
            *("camera", "C2-azimuth", "camera-view_359_0_100_0_0"),
            {"h": 359, "v": 0, "scale": 1.0, "r": 0, "e": 0},
        ),
        (
            f"{STOVE}_view_30_15_100_0_0_initstate_0",
            *("camera", "C2-azimuth-elevation", "camera-view_30_15_100_0_0"),
            {"h": 30, "v": 15, "scale": 1.0, "r": 0, "e": 0},
        ),
        (
            f"{STOVE}_view_0_0_100_352_4_initstate_0",
            *("camera", "C3-orientation", "camera-view_0_0_100_352_4"),
            {"h": 0, "v": 0, "scale": 1.0, "r": 352, "e": 4},
        ),
    ],
)
def test_a_name_says_what_is_perturbed(
    name: str, dimension: str, kind: str, label: str, said: dict[str, object]
) -> None:
    parsed = parse_name(name)
    assert (parsed.dimension, parsed.sub_dimension, parsed.label) == (dimension, kind, label)
    assert parsed.parameters() == {"name": name, **said}
    assert name.startswith(parsed.base)
    assert bases()[parsed.base] == parsed.suite
    assert parsed.difficulty is None


@pytest.mark.parametrize(
    ("suffix", "table"),
    [("table_3", 3), (f"{PLAIN}_noise_1", None), ("light_5", None), ("add_1", None), ("level1_sample1", None)],
)
def test_a_table_in_a_task_is_no_suffix(suffix: str, table: int | None) -> None:
    parsed = parse_name(f"{CENTRE}_{suffix}")
    assert (parsed.suite, parsed.base, parsed.table) == ("libero_spatial", CENTRE, table)


def test_composite_names_say_all_that_is_perturbed() -> None:
    name = f"{CENTRE}_table_3_view_30_0_150_2_358_initstate_150_noise_12"
    assert parse_name(name) == PlusTask(
        name, "libero_spatial", CENTRE, table=3, h=30, scale=1.5, r=2, e=358, initstate=150, noise=12
    )
    parsed = parse_name(name)
    assert parsed.dimension == "background+camera+robot+noise"
    assert parsed.sub_dimension == "B2-surface+C1-distance+C2-azimuth+C3-orientation+norm-0.2+N2-gaussian"
    assert parsed.label == "background-table_3+camera-view_30_0_150_2_358+robot-150+noise-12"
    assert parsed.file == f"{CENTRE}_table_3"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (STOVE, "changes nothing"),
        (f"{STOVE}_{PLAIN}", "changes nothing"),
        (f"{CENTRE}", "changes nothing"),
        ("", "is not a LIBERO-Plus name: expected BASE_table_N"),
        ("turn_on_the_stov_light_3", "Did you mean turn_on_the_stove"),
        (f"KITCHEN_SCENE9_{STOVE}_light_3", "is not a LIBERO-Plus name"),
        (f"{STOVE}_light_0", "light is 0, expected 1 to 50"),
        (f"{STOVE}_light_51", "light is 51, expected 1 to 50"),
        (f"{STOVE}_light_07", "is not a LIBERO-Plus name"),
        (f"{STOVE}_light_+7", "is not a LIBERO-Plus name"),
        (f"{STOVE}_light_\u0667", "is not a LIBERO-Plus name"),
        (f"{STOVE}_light_7\n", "is not a LIBERO-Plus name"),
        (f"{STOVE}_light_3_add_3", "is not a LIBERO-Plus name"),
        (f"{STOVE}_table_29", "table is 29, expected 1 to 28"),
        (f"{MUGS}_tb_23", "tb is 23, expected 1 to 22"),
        (f"{STOVE}_tb_24", "tb is 24, expected 1 to 23"),
        (f"{STOVE}_add_31", "add is 31, expected 1 to 30"),
        (f"{STOVE}_moved_level6_sample1", "level is 6, expected 1 to 5"),
        (f"{STOVE}_moved_level1_sample5", "sample is 5, expected 1 to 4"),
        (f"{STOVE}_level1_sample2", f"expected {STOVE}_moved_level1_sample2"),
        (f"{STOVE}_level1_sample2_{PLAIN}_noise_3", f"expected {STOVE}_moved_level1_sample2"),
        (f"{STOVE}_level1", "is not a LIBERO-Plus name"),
        (f"{MUGS}_moved_level1_sample1", "_moved exists only in libero_goal"),
        (f"{STOVE}_language_51_{PLAIN}", "language is 51, expected 1 to 50"),
        (f"{STOVE}_view_360_0_100_0_0_initstate_0", "h is 360, expected 0 to 359"),
        (f"{STOVE}_view_0_0_0_0_0_initstate_0", "the camera's distance is 0%"),
        (f"{STOVE}_view_30_0_100_0_initstate_0", "is not a LIBERO-Plus name"),
        (f"{STOVE}_view_30_0_100_0_0", "is not a LIBERO-Plus name"),
        (f"{STOVE}_view_0_0_100_0_0_initstate_501", "initstate is 501, expected 0 to 500"),
        (f"{STOVE}_{PLAIN}_noise_0", "noise is 0, expected 1 to 50"),
        (f"{STOVE}_{PLAIN}_noise_51", "noise is 51, expected 1 to 50"),
        (f"{STOVE}_{PLAIN}_noise_1_{PLAIN}_noise_1", "is not a LIBERO-Plus name"),
        (None, "is not a LIBERO-Plus name: expected a text"),
        (3, "is not a LIBERO-Plus name: expected a text"),
        (f"{STOVE}_light_8".encode(), "is not a LIBERO-Plus name: expected a text"),
    ],
)
def test_what_is_no_name_is_refused_with_the_reason(name: Any, why: str) -> None:
    with pytest.raises(VlaError) as raised:
        parse_name(name)
    assert why in str(raised.value)
    assert repr(name) in str(raised.value)


degrees = st.integers(0, 359)
real = st.one_of(
    st.just(""),
    st.builds("_table_{}".format, st.integers(1, 28)),
    st.builds("_light_{}".format, st.integers(1, 50)),
    st.builds("_add_{}".format, st.integers(1, 30)),
    st.builds("_{}level{}_sample{}".format, st.sampled_from(["", "moved_"]), st.integers(1, 5), st.integers(1, 4)),
    st.builds("_language_{}".format, st.integers(1, 50)),
)
view = st.builds(
    "_view_{}_{}_{}_{}_{}_initstate_{}_noise_{}".format,
    *(degrees, degrees, st.integers(1, 300), degrees, degrees, st.integers(0, 500), st.integers(1, 50)),
)


@given(st.sampled_from(sorted(bases())), real, view)
def test_what_is_put_together_is_taken_apart(base: str, suffix: str, seen: str) -> None:
    # libero_goal's levels start from a moved layout, all others from the task's own.
    if "level" in suffix and ("moved" in suffix) != (bases()[base] == "libero_goal"):
        with pytest.raises(VlaError, match="moved"):
            parse_name(base + suffix + seen)
        return
    parsed = parse_name(base + suffix + seen)
    assert (parsed.base, parsed.file, parsed.suite) == (base, base + suffix, bases()[base])
    percent = round(parsed.scale * 100)
    shown = (parsed.h, parsed.v, percent, parsed.r, parsed.e, parsed.initstate, parsed.noise)
    assert seen == "_view_{}_{}_{}_{}_{}_initstate_{}_noise_{}".format(*shown)
    assert ("background" in parsed.parts) == ("table" in suffix)


@given(st.text(alphabet="abcdeilstuvw_0123456789-.", max_size=60))
def test_other_texts_are_refused_or_read_whole(text: str) -> None:
    try:
        parsed = parse_name(f"{STOVE}{text}")
    except VlaError:
        return
    assert parsed.name == f"{STOVE}{text}"
    assert parsed.label


def test_no_two_suites_have_a_task_of_one_name() -> None:
    assert len(bases()) == 40
    assert {suite: list(bases().values()).count(suite) for suite in SUITES} == dict.fromkeys(SUITES, 10)


def test_what_is_drawn_for_a_name_is_the_same_on_any_machine() -> None:
    parsed = parse_name(f"{STOVE}_{PLAIN}_noise_7")
    assert parsed.generator().getrandbits(32) == parsed.generator(0).getrandbits(32) == 921603919
    assert parsed.generator(1).getrandbits(32) != 921603919


@pytest.mark.parametrize(
    ("suffix", "told"),
    [
        ("view_0_0_100_0_0_initstate_7", "turn on the stove view 0 0 100 0 0 initstate 7"),
        ("light_8", "turn on the stove light 8"),
        ("moved_level1_sample2", "turn on the stove moved level1 sample2"),
    ],
)
def test_the_name_as_an_instruction_is_what_upstream_told_policies(suffix: str, told: str) -> None:
    assert language_of(parse_name(f"{STOVE}_{suffix}").name) == told
