"""Success under variations, over their levels: curves, where success halves, and the most harmful dimension."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from pytest_vla.metrics.robustness import cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import NO_DOSE
from pytest_vla.records.record import Record
from tests.support.robustness import cells_of, curves_of, run_of
from tests.support.varied import varied


def test_a_curve_has_all_kinds_and_the_twins() -> None:
    records = [
        *run_of("", [True] * 8 + [False] * 2),
        varied("", False, "another_task"),
        *run_of("camera.distance-L1", [True] * 8 + [False] * 2),
        *run_of("camera.fov-L1", [True] * 6 + [False] * 4),
        *run_of("camera.distance-L2", [False] * 10),
        *run_of("camera.table", [False] * 10),
    ]
    found, harm, notes = curves_of(records)
    curve = found["camera"]
    assert [(level, each.successes, each.counted) for level, each in curve.points] == [
        (0, 8, 10),
        (1, 14, 20),
        (2, 0, 10),
    ]
    assert (curve.halving.level, curve.halving.why) == (None, "not determined: fewer than 20 episodes at a level")
    assert curve.change is not None
    assert (curve.change.pairs, curve.change.units) == (40, 10)
    assert curve.change.value == pytest.approx(-(0 + 20 + 80 + 80) / 4)
    assert harm is not None
    assert (harm.dimension, harm.why) == ("camera", "it is the only one")
    assert notes == (
        "camera: 10 episodes without a level: not on the curve",
        "camera: the levels mix different tasks, seeds and kinds",
    )


def test_a_curve_of_several_task_lists_says_so() -> None:
    records = [*run_of("camera.distance-L1", [True] * 5), *run_of("camera.distance-L2", [True] * 5, "another_task")]
    found, harm, notes = curves_of(records)
    assert notes == ("camera: the levels mix different tasks, seeds and kinds",)
    assert found["camera"].halving.why == "no benign twin was measured"
    assert (found["camera"].change, harm) == (None, None)


def test_where_nothing_was_measured_no_twin_is_blamed() -> None:
    broken = [dataclasses.replace(each, outcome="error") for each in run_of("camera.fov-L1", [False] * 3)]
    found, harm, _ = curves_of([*run_of("", [True] * 3), *broken])
    assert (found["camera"].halving.why, harm) == ("no varied episode was measured", None)


def test_where_success_halves_is_on_the_curve_of_all_kinds() -> None:
    shares = {1: 0.9, 2: 0.8, 3: 0.5, 4: 0.3, 5: 0.1}
    records = [record for task in "abcd" for record in run_of("", [True] * 10, task)]
    for level, share in shares.items():
        for task in "abcd":
            records += run_of(f"camera.fov-L{level}", [seed < 10 * share for seed in range(10)], task)
    halving = curves_of(records)[0]["camera"].halving
    assert halving.why == ""
    assert halving.level == pytest.approx(3)
    assert halving.interval is not None
    assert 2 < halving.interval[0] < 3 < halving.interval[1] < 4.5


def test_nothing_halves_over_the_difficulty_of_libero_plus() -> None:
    """Its levels say how many models fail: the curve falls by its making."""
    records = [*run_of("", [True] * 30)]
    for level in range(1, 6):
        records += run_of(f"camera.distance-L{level}", [seed > 5 * level for seed in range(30)])
    plus = "libero_plus_goal"
    listed = [dataclasses.replace(r, suite=plus, case=r.case.replace(r.suite, plus)) for r in records]
    (found,) = curves_of(listed)[0].values()
    assert (found.halving.level, found.halving.why, found.points) == (None, NO_DOSE, ())
    assert found.change is not None
    assert found.change.value < 0


def test_what_has_no_level_harms_too() -> None:
    """LIBERO-PRO's swap, of which all fail, beside a displacement that does little, and a camera."""
    records = [*run_of("", [True] * 10), *run_of("pro.swap", [False] * 10)]
    records += [*run_of("pro.displace_x-L1", [True] * 9 + [False]), *run_of("camera.fov-L1", [True, False] * 5)]
    found, harm, notes = curves_of(records)
    assert harm is not None
    assert harm.dimension == "pro"
    assert found["pro"].change is not None
    assert found["pro"].change.value == pytest.approx(-(100 + 10) / 2)
    assert harm.levels == "camera L1; pro L1, no level"
    assert notes[0].startswith("pro: 10 episodes without a level: not on the curve")


def test_levels_that_differ_are_told() -> None:
    records = [*run_of("", [True] * 9), *run_of("noise.fog-L5", [False] * 9)]
    records += [each for level in range(1, 6) for each in run_of(f"camera.fov-L{level}", [level < 5] * 9)]
    _, harm, _ = curves_of(records)
    assert harm is not None
    assert (harm.dimension, harm.levels) == ("noise", "camera L1, L2, L3, L4, L5; noise L5")
    _, harm, _ = curves_of([record for record in records if "-L5" in record.case or not record.variation])
    assert harm is not None
    assert harm.levels == ""


def test_the_numbers_do_not_depend_on_the_order_in_which_episodes_ended() -> None:
    records = harmed(4, 3, camera=[0.25, 0.75], light=[0.5, 0.5])
    records += [*run_of("camera.turned-L1", [False, True, True, True], "task_0")]
    shuffled = [records[index] for index in np.random.default_rng(3).permutation(len(records))]
    assert shuffled != records
    assert curves_of(shuffled) == curves_of(records)
    assert cells_of(shuffled) == cells_of(records)


def test_the_paper_s_protocol_and_upstream_s_are_apart() -> None:
    def under(protocol: str, outcome: bool, seed: int) -> Record:
        record = varied(f"{protocol}.camera-L1", outcome, "a_task", seed)
        variation = {**record.variation, "dimension": "camera", "parameters": {"protocol": protocol}}
        return dataclasses.replace(record, variation=variation)

    records = [under(name, name == "paper", seed) for seed in range(4) for name in ("upstream", "paper")]
    paper, upstream = varied_models([*run_of("", [True] * 4), *records])
    assert (paper.protocol, upstream.protocol) == ("paper", "upstream")
    for found, successes in ((paper, 4), (upstream, 0)):
        (cell,) = cells(found, twin_pairs(found)[0])
        assert (cell.rate.successes, cell.rate.counted) == (successes, 4)
        assert cell.difference is not None
        assert cell.difference.pairs == 4


def harmed(seeds: int, tasks: int, **shares: Sequence[float]) -> list[Record]:
    """Benign success is 1; each dimension fails the given share of the seeds at its levels, the first ones."""
    names = [f"task_{number}" for number in range(tasks)]
    records = [record for task in names for record in run_of("", [True] * seeds, task)]
    for dimension, by_level in shares.items():
        for level, share in enumerate(by_level, start=1):
            for number, task in enumerate(names):
                outcomes = np.roll(np.arange(seeds) >= round(share * seeds), number).tolist()
                records += run_of(f"{dimension}.kind-L{level}", outcomes, task)
    return records


def test_the_most_harmful_dimension_is_named_where_it_is_told_apart() -> None:
    found, harm, _ = curves_of(harmed(10, 5, camera=[0.4, 0.9], light=[0.0, 0.1], noise=[0.0, 0.0]))
    assert harm is not None
    assert (harm.dimension, harm.why, harm.not_told_apart) == ("camera", "", ())
    assert harm.change == found["camera"].change
    assert harm.change.value == pytest.approx(-65)
    low, high = harm.change.interval or (0, 0)
    assert -80 < low < -65 < high < -50
    light = found["light"].change
    assert light is not None
    assert light.value == pytest.approx(-5)
    nothing = found["noise"].change
    assert nothing is not None
    assert nothing.interval is not None
    assert (nothing.value, nothing.interval[0] < 0 < nothing.interval[1]) == (0, True), "fifty pairs are not all"


def test_dimensions_that_harm_alike_are_not_told_apart() -> None:
    _, harm, _ = curves_of(harmed(10, 5, camera=[0.5, 0.6], light=[0.5, 0.5], noise=[0.0, 0.0]))
    assert harm is not None
    assert (harm.dimension, harm.not_told_apart, harm.why) == ("camera", ("light",), "not distinguishable from light")


def test_a_few_pairs_name_no_dimension() -> None:
    _, harm, _ = curves_of(harmed(1, 5, camera=[1.0, 1.0], light=[0.0, 0.0]))
    assert harm is not None
    assert harm.why == "not determined: fewer than 6 tasks and seeds"
    low, high = harm.change.interval or (0, 0)
    assert low == -100
    assert high > -30, "five of five are not certain"


def test_no_drop_is_no_harm() -> None:
    _, harm, _ = curves_of(harmed(10, 2, camera=[0.0], light=[0.0]))
    assert harm is not None
    assert harm.why == "not determined: its loss may be zero"


def test_a_few_pairs_do_not_hide_what_many_tell() -> None:
    """A dimension of two episodes that both fail is not the worst of all."""
    records = [*harmed(10, 5, camera=[0.5, 0.5], light=[0.0, 0.0])]
    records += [varied("noise.fog-L1", False, "task_0", seed) for seed in range(2)]
    _, harm, _ = curves_of(records)
    assert harm is not None
    assert harm.dimension == "camera"
    assert harm.not_told_apart == ("noise",)


def test_equal_seeds_give_equal_intervals() -> None:
    records = harmed(6, 3, camera=[0.3, 0.7], light=[0.2, 0.2])
    assert curves_of(records) == curves_of(records)
