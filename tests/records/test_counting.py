"""Of each case the first complete record counts, whatever comes later, and whoever asks."""

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import is_of_policy
from pytest_vla.gate.baseline import counting_of
from pytest_vla.metrics.rates import judged_apart
from pytest_vla.metrics.selection import by_model, observations, of_several_simulators, repeats_among, that_count
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.plan.costs import Charge
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.counting import (
    COMPLETE,
    INIT_STATE_DIGEST,
    PLACED,
    RecordStatus,
    Repeats,
    conditions_of,
    is_own_error,
    key_of,
    repeats_of,
    standings,
    takes_over,
)
from pytest_vla.records.record import Record, parse_record, record_line
from pytest_vla.records.store import open_store
from pytest_vla.reports.loaded import counted_episodes, load
from tests.support.examples import scaled
from tests.support.records import RECORD, record_of, seeds_of

OWN = "test_mine.py::test_bowl[turn_on_the_stove-seed0]"


def of(run: str, outcome: str, digest: str = "", seed: int = 0, run_seed: int = 0, **changes: Any) -> Record:
    """A record with a trajectory and a digest of its own; errors know neither policy nor replan length."""
    about: dict[str, Any] = {
        "seeds": seeds_of(seed, run_seed),
        "arrays": "x.npz",
        "digest": digest or f"{run} {outcome} {seed} {run_seed}",
        "policy_digest": "aaaa" if outcome != "error" else None,
        "replan": 5 if outcome != "error" else None,
    }
    return record_of(seed, outcome, run, **{**about, **changes})


def told(records: Sequence[Record]) -> list[tuple[str, int]]:
    return [tuple(each) for each in standings(records)]


def test_the_first_complete_record_of_a_case_counts() -> None:
    records = [of("a", "failure"), of("b", "success"), of("c", "failure"), of("a", "success", seed=1)]
    assert told(records) == [("counts", 0), ("repeat", 0), ("repeat", 0), ("counts", 3)]
    assert repeats_among(records, standings(records)) == Repeats(2, 1, 1, 2)


def test_an_episode_that_an_alarm_stopped_stands_for_none_that_ran_freely() -> None:
    """It is complete, and no error of a run without that alarm is of its case."""
    stopping = {"provenance": {**RECORD.provenance, "stop_when": "token_entropy>0.3 for 5"}}
    records = [of("a", "error"), of("b", "invalid", **stopping), of("c", "error", **stopping), of("d", "failure")]
    assert told(records) == [("superseded", 3), ("counts", 1), ("superseded", 1), ("counts", 3)]


@pytest.mark.parametrize("outcome", COMPLETE)
def test_a_later_record_replaces_only_an_error(outcome: str) -> None:
    records = [of("a", "error"), of("b", "error"), of("b", outcome), of("c", "error"), of("c", "success")]
    assert told(records) == [("superseded", 2), ("superseded", 2), ("counts", 2), ("superseded", 2), ("repeat", 2)]
    assert told(records[:2]) == [("superseded", 1), ("counts", 1)], "of errors the last one stands"


def test_of_repeats_side_by_side_the_one_that_began_first_counts() -> None:
    """The one that ended first would be the shortest, and a success more often than not."""
    short = of("a", "success", started="2026-01-02T03:04:06.000+00:00")
    long = of("a", "failure", started="2026-01-02T03:04:05.999+00:00")
    assert told([short, long]) == [("repeat", 1), ("counts", 1)]
    assert takes_over(long, short)
    assert not takes_over(short, long)
    assert not takes_over(of("a", "error", started="2020"), short), "an error never takes over"
    # Of two runs side by side, too.
    beside = of("b", "failure", seed=9)
    long = dataclasses.replace(long, run="b")
    assert told([beside, short, long])[1:] == [("repeat", 2), ("counts", 2)]


def test_a_clock_that_was_set_back_makes_no_record_the_first() -> None:
    """What ended before the other run had left anything, or before the other attempt, came first."""
    first = of("a", "failure", started="2026-01-02T03:04:05.000+00:00")
    later = of("b", "success", started="2026-01-01T00:00:00.000+00:00")
    assert told([first, later]) == [("counts", 0), ("repeat", 0)]
    assert told([first, of("b", "failure", seed=9), later])[2] == ("repeat", 0)
    again = dataclasses.replace(later, run="a", attempt=2)
    assert told([first, again]) == [("counts", 0), ("repeat", 0)]
    assert told([of("a", "error", started="2026-01-02"), later]) == [("superseded", 1), ("counts", 1)]
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), create=True) as store:
        for record, picked in ((first, None), (later, "lf")):
            store.begin(record.run, [record.node], command="", model="random", picked=picked)
            store.add(record)
        # The rows that were written later say an earlier time, too.
        store._database.connection.execute("UPDATE episodes SET ended = started")
        store._database.connection.commit()
        loaded = load([], Path(folder)).records
        assert [record.outcome for record in loaded] == ["failure", "success"]
        assert [each.how for each in standings(loaded)] == ["counts", "repeat"]
        assert [each.record.run for each in store.earlier("b")] == ["a"], "of items that were picked"


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_digest": "bbbb"},
        {"policy": "another"},
        {"replan": None},
        {"protocol": {**RECORD.protocol, "max_steps": 301}},
        {"provenance": {"mujoco": "3.3.7"}},
        {"protocol": {**RECORD.protocol, "textures": "installed"}},
        {"provenance": {**RECORD.provenance, "premises": "ignored"}},
        {"provenance": {**RECORD.provenance, "feasible": "tried"}},
        {"provenance": {**RECORD.provenance, "stop_when": "token_entropy>0.3 for 5"}},
        {"provenance": {"mujoco": "3.8.1", "robosuite": "1.5"}},
        {"run_seed": 1},
        {"node": OWN},
    ],
    ids=str,
)
def test_under_other_conditions_it_is_another_case(changes: dict[str, Any]) -> None:
    records = [of("a", "failure"), of("b", "success", **changes)]
    assert told(records) == [("counts", 0), ("counts", 1)]
    assert key_of(records[0]).text != key_of(records[1]).text


def test_what_does_not_matter_is_no_condition() -> None:
    provenance = {**RECORD.provenance, "renderer": "egl", "numpy": "9"}
    again = of("b", "success", provenance=provenance, worker="gw7", timings={}, instruction="do it", attempt=2)
    assert told([of("a", "failure"), again]) == [("counts", 0), ("repeat", 0)]
    in_memory = of("a", "failure", protocol={"cameras": ("agentview",), "init_state": None, "max_steps": 300})
    assert key_of(in_memory).text == key_of(parse_record(record_line(in_memory))).text, "of memory and of JSON"


def test_within_a_run_an_item_counts_once_though_the_policy_was_changed_meanwhile() -> None:
    records = [of("a", "error"), of("a", "failure"), of("a", "success", policy_digest="bbbb")]
    assert told(records) == [("superseded", 1), ("counts", 1), ("repeat", 1)]


def test_an_error_is_of_the_conditions_of_its_run_or_of_its_case() -> None:
    """A process that died told neither policy nor replan length."""
    crashed = of("a", "error", seed=1)
    assert told([of("a", "success"), crashed, of("b", "success", seed=1)])[1:] == [("superseded", 2), ("counts", 2)]
    assert told([crashed, of("b", "success", seed=1)]) == [("superseded", 1), ("counts", 1)]
    other = of("b", "success", seed=1, provenance={"mujoco": "3.3.7"})
    assert told([crashed, other]) == [("counts", 0), ("counts", 1)], "what it knows tells another simulator"


def test_an_own_worlds_simulator_is_a_condition_which_errors_may_not_know() -> None:
    def world(run: str, outcome: str, version: str | None, seed: int = 0) -> Record:
        said = {} if version is None else {"version": version}
        provenance = {**RECORD.provenance, **said}
        return of(run, outcome, seed=seed, provenance=provenance, simulator=tuple(said))

    one, other = world("a", "failure", "1"), world("b", "success", "2")
    assert told([one, other]) == [("counts", 0), ("counts", 1)]
    assert key_of(one).text != key_of(other).text
    assert conditions_of(other)["world.version"] == "2"
    assert told([one, world("b", "success", "1")])[1] == ("repeat", 0)
    crashed = world("a", "error", None, seed=1)
    of_run = [one, crashed, world("b", "success", "1", seed=1)]
    assert told(of_run)[1:] == [("superseded", 2), ("counts", 2)], "of its run, which has another case of the task"
    of_other = [one, crashed, world("b", "success", "2", seed=1)]
    assert told(of_other)[1:] == [("counts", 1), ("counts", 2)], "its run was in another world"
    assert told([crashed, of_run[2]]) == [("superseded", 1), ("counts", 1)], "of its case"
    assert told([of("a", "success", seed=3), crashed, of_run[2]])[1:] == [("superseded", 2), ("counts", 2)]


def test_records_of_two_own_simulators_are_told_to_be() -> None:
    def world(seed: int, run: str = "", **said: str) -> Record:
        names = tuple(sorted(said))
        provenance = {**RECORD.provenance, **said}
        return of(run or f"run{said['version']}", "success", seed=seed, provenance=provenance, simulator=names)

    assert of_several_simulators([world(0, version="1"), world(1, version="1")]) == ""
    told = "these records come from several simulators: version 1 and version 2"
    assert of_several_simulators([world(seed, version=str(seed // 2 + 1), scene="x") for seed in range(4)]) == told
    assert told in that_count([world(0, version="1"), world(1, version="2")]).left_out
    by_case = [world(seed, "a", version="1", layout=str(seed)) for seed in range(3)]
    assert of_several_simulators(by_case) == "", "what differs within a run is of the case"
    many = [world(seed, version=str(seed)) for seed in range(7)]
    assert of_several_simulators(many).endswith("version 0 and version 1 and version 2 and version 3 and 3 more")
    tasks = [world(0, version="1"), dataclasses.replace(world(0, version="2"), task="another")]
    assert of_several_simulators(tasks) == "", "each task may have a world of its own"
    names = {name for name, _ in by_model([world(0, version="1"), world(0, version="2")])}
    assert names == {"random (version 1)", "random (version 2)"}


def test_equal_digests_under_two_run_seeds_are_one_observation() -> None:
    records = [of("a", "success", "1"), of("b", "success", "1", run_seed=1), of("c", "failure", "2", seed=1)]
    assert told(records) == [("counts", 0), ("same", 0), ("counts", 2)]
    other = dataclasses.replace(records[1], policy_digest="bbbb")
    assert told([records[0], other])[1] == ("counts", 1), "of another policy"
    errors = [of("a", "error", "1"), of("b", "error", "1", run_seed=1)]
    assert told(errors) == [("counts", 0), ("counts", 1)], "what broke has shown nothing that could be equal"
    logs = [dataclasses.replace(record, arrays=None) for record in records]
    assert told(logs)[1] == ("counts", 1), "of a log without paths the digest is of next to nothing"


def test_of_a_policy_that_draws_those_count_that_are_equal_by_luck() -> None:
    """Else three equal successes and two failures that differ would be a success of three."""
    records = [
        *(of("a", "success", "1", run_seed=run_seed) for run_seed in range(3)),
        *(of("a", "failure", digest, run_seed=run_seed) for run_seed, digest in ((3, "2"), (4, "3"))),
        *(of("a", "success", "4", seed=1, run_seed=run_seed) for run_seed in range(2)),
    ]
    assert [how for how, _ in told(records)] == ["counts"] * 7
    assert [how for how, _ in told(records[5:])] == ["counts", "same"], "of which nothing shows that it draws"
    other = [dataclasses.replace(record, policy_digest="bbbb") for record in records[5:]]
    assert [how for how, _ in told([*records[:5], *other])][5:] == ["counts", "same"], "another version does not"


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from("12")), min_size=2, max_size=12))
def test_of_one_policy_all_run_seeds_count_or_its_cases_each_once(rows: list[tuple[int, bool, str]]) -> None:
    """So that no rate depends on how often the same is seen again."""
    records = [
        of("a", "success" if done else "failure", f"{done}{digest}", seed, run_seed)
        for run_seed, (seed, done, digest) in enumerate(rows)
    ]
    draws = any(len({r.digest for r in records if r.seed == seed}) > 1 for seed in range(3))
    assert len(counting(records)) == (len(records) if draws else len({r.seed for r in records}))


def test_tests_of_the_user_s_are_apart_unless_they_are_in_one_number() -> None:
    records = [
        of("a", "success", "1", node=OWN),
        of("a", "success", "1", node=OWN.replace("bowl", "cup")),
        of("b", "failure", node=OWN),
    ]
    assert told(records) == [("counts", 0), ("counts", 1), ("repeat", 0)]
    assert [each.how for each in standings(records, by_test=False)] == ["counts", "same", "repeat"]


# For any records


RECORDS = st.lists(
    st.builds(
        lambda run, outcome, seed, run_seed, digest, policy, own, started: of(
            run,
            outcome,
            digest,
            seed,
            run_seed,
            started=f"2026-01-02T03:04:0{started}.000+00:00",
            **({"policy_digest": policy} if outcome != "error" else {}),
            **({"node": OWN.replace("seed0", f"seed{seed}")} if own else {}),
        ),
        st.sampled_from("abc"),
        st.sampled_from(OUTCOMES),
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from("12"),
        st.sampled_from(["aaaa", "bbbb"]),
        st.booleans(),
        st.integers(0, 9),
    ),
    max_size=12,
)


def counting(records: Sequence[Record]) -> list[int]:
    return [index for index, each in enumerate(standings(records)) if each.how == "counts"]


@given(RECORDS)
def test_every_record_stands_to_one_that_counts(records: list[Record]) -> None:
    found = standings(records)
    assert all(isinstance(each, RecordStatus) for each in found)
    for index, (how, of) in enumerate(found):
        assert (how == "counts") == (of == index)
        if how in ("repeat", "same"):
            assert records[index].outcome in COMPLETE
            assert records[of].outcome in COMPLETE
        if how == "same":
            assert records[index].digest == records[of].digest
        if how == "superseded":
            assert records[index].outcome == "error"
        if found[of].how == "same":
            of = found[of].of
        assert found[of] == ("counts", of)


@given(RECORDS, RECORDS)
def test_what_comes_later_changes_nothing_but_errors(records: list[Record], later: list[Record]) -> None:
    before = [dataclasses.replace(record, started="2026-01-01") for record in records]
    # No further complete record that shares a run with what was there, where the conditions of errors come from.
    after = [dataclasses.replace(record, run=f"later {record.run}") for record in later]
    kept = {index for index in counting(before) if before[index].outcome in COMPLETE}
    found = standings([*before, *after])
    assert {index for index in kept if found[index].how == "counts"} == kept
    # What was one observation of a policy that did not draw is several, where it is seen to draw.
    same = {index for index, each in enumerate(standings(before)) if each.how == "same"}
    assert all(found[index].how != "counts" for index in set(range(len(before))) - set(counting(before)) - same)


@given(RECORDS)
def test_counting_what_counts_changes_nothing(records: list[Record]) -> None:
    left = [records[index] for index in counting(records)]
    known = {record.run: record for record in records if record.outcome in COMPLETE}
    if all(record.run in known for record in left if record.outcome == "error"):
        again = counting(left)
        assert [left[index] for index in again if left[index].outcome in COMPLETE] == [
            record for record in left if record.outcome in COMPLETE
        ]


@given(RECORDS, st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter_in_runs_side_by_side(records: list[Record], random: Any) -> None:
    complete = [
        dataclasses.replace(record, started=f"{index:04}", worker=str(index))
        for index, record in enumerate(record for record in records if record.outcome in COMPLETE)
    ]
    # Of one run it would be the item, and not the case, that counts once.
    complete = [dataclasses.replace(record, run=str(index)) for index, record in enumerate(complete)]
    shuffled = list(complete)
    random.shuffle(shuffled)
    begun = [of(record.run, "failure", seed=9) for record in complete]

    def chosen(some: Sequence[Record]) -> set[tuple[str, int, str]]:
        found = [[*begun, *some][index] for index in counting([*begun, *some])]
        return {(record.case, record.run_seed, record.digest) for record in found}

    assert chosen(complete) == chosen(shuffled)


@settings(max_examples=scaled(40))
@given(RECORDS)
def test_the_store_counts_as_the_reports_do(records: list[Record]) -> None:
    """Within a run one record of each item; over runs `standings`, of which an export says the same."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), create=True) as store:
        for run in "abc":
            store.begin(run, [], command="", model="random")
        # One policy a run, and one run seed.
        for record in records:
            changes: dict[str, Any] = {"seeds": {**record.seeds, "run": ord(record.run) % 2}}
            changes |= {"policy_digest": "aaaa"} if record.outcome != "error" else {}
            store.add(dataclasses.replace(record, **changes))
        for run in "abc":
            own = list(store.attempts(run))
            assert sorted(map(record_line, store.records(run))) == sorted(
                record_line(own[index])
                for index, each in enumerate(standings([dataclasses.replace(r, arrays=None) for r in own]))
                if each.how == "counts"
            )
            told = store.run(run)
            assert told.repeats == repeats_among(own, standings([dataclasses.replace(r, arrays=None) for r in own]))
            assert sum(count.episodes for count in told.counts) == len(list(store.records(run)))
        loaded = load([], Path(folder)).records
        exported = counted_episodes(store, "abc")
        lines = dict(zip(exported, store.lines([*exported]), strict=True))
        assert sorted(lines[number] for number, counts in exported.items() if counts) == sorted(
            record_line(loaded[index]) for index in counting(loaded)
        )


# What is one observation


def began(seed: int, init_state: int, digest: str, placed: int | None = 7, **changes: Any) -> Record:
    """A record that says where everything stood, unless that is None."""
    where = {} if placed is None else {PLACED: placed}
    seeds = {**seeds_of(seed, changes.pop("run_seed", 0)), "init_state": init_state, **where}
    return of("a", "success", digest, seed, **{"seeds": seeds, **changes})


def test_seeds_that_share_a_start_are_one_observation_of_a_policy_that_does_not_draw() -> None:
    copies = [began(seed, 0, "1") for seed in (0, 50, 100)]
    assert told(copies) == [("counts", 0), ("same", 0), ("same", 0)]
    assert told([*copies, began(1, 1, "2"), began(51, 1, "2")])[3:] == [("counts", 3), ("same", 3)]
    assert told([*copies, began(1, 1, "1")])[3:] == [("counts", 3)], "another start, though it went as well"
    old = [began(seed, 0, "1", placed=None) for seed in (0, 50)]
    assert told(old) == [("counts", 0), ("same", 0)], "earlier records do not say where things stood"
    assert told([*old, copies[2]])[2] == ("same", 0)


def test_where_fixtures_stand_elsewhere_it_is_another_start() -> None:
    assert told([began(0, 0, "1", placed=1), began(50, 0, "1", placed=2)]) == [("counts", 0), ("counts", 1)]


def test_of_a_policy_that_draws_equal_starts_are_replicates() -> None:
    """That it draws is seen where equal starts end differently; then those count too that are equal by luck."""
    records = [began(0, 0, "1"), began(50, 0, "2"), began(100, 0, "1")]
    assert {how for how, _ in told(records)} == {"counts"}
    assert len({unit_of(record) for record in records}) == 1
    rate = success_rate("x", [*records, began(1, 1, "3"), began(51, 1, "4")], unit_of)
    assert (rate.counted, rate.interval) != (5, wilson_interval(5, 5))
    placed = [began(0, 0, "1", placed=1), began(50, 0, "2", placed=2), began(100, 0, "1", placed=1)]
    assert told(placed)[2] == ("same", 0), "another place of the fixtures is no draw of the policy's"


def test_what_a_variation_draws_is_part_of_the_start() -> None:
    def varied(seed: int, gain: float, digest: str = "1") -> Record:
        variation = {"label": "light.diffuse-L2", "parameters": {"gain": gain}}
        node = f"libero_goal::test_episode[turn_on_the_stove-light.diffuse-L2-seed{seed}]"
        return began(seed, 0, digest, variation=variation, node=node)

    assert told([varied(0, 0.5), varied(50, 0.6)]) == [("counts", 0), ("counts", 1)]
    assert told([varied(0, 0.5), varied(50, 0.5)]) == [("counts", 0), ("same", 0)]
    # Not all that a variation draws need be told by its parameters: that is no draw of the policy's.
    assert told([varied(0, 0.5), varied(50, 0.5, "2"), varied(100, 0.5)])[1:] == [("counts", 1), ("same", 0)]


def test_what_a_file_of_cases_names_takes_no_observation_from_a_sample() -> None:
    """The same case, start and digest, given first: the sample has its own all the same."""
    chosen = began(3, 3, "1", given=True)
    sampled = [dataclasses.replace(began(seed, 3, "1"), run="other") for seed in (3, 53)]
    assert told([chosen, *sampled]) == [("counts", 0), ("counts", 1), ("same", 1)]
    assert told([chosen, dataclasses.replace(chosen, run="other")]) == [("counts", 0), ("repeat", 0)]
    assert [record.in_no_rate for record in observations([chosen, *sampled])] == [True, False]
    assert judged_apart([chosen]) == {}
    assert judged_apart([chosen, sampled[0]]) == {"benign": [sampled[0]]}


def test_what_was_charged_otherwise_is_no_copy() -> None:
    charged = began(50, 0, "1", costs=(Charge("touch", 1.0, 0),))
    assert told([began(0, 0, "1"), charged]) == [("counts", 0), ("counts", 1)]


def test_a_log_without_trajectories_proves_no_copy() -> None:
    logged = [began(seed, 0, "1", placed=None, arrays=None) for seed in (0, 50)]
    assert told(logged) == [("counts", 0), ("counts", 1)]
    assert success_rate("x", logged, unit_of).interval is None, "they are of one start"


def test_a_suite_that_has_more_init_states_now_has_the_cases_that_it_had() -> None:
    """How many there are decides nothing, and which one an episode began from does."""

    def of_count(run: str, seed: int, count: int) -> Record:
        protocol = {**RECORD.protocol, "init_states": count}
        return dataclasses.replace(began(seed, seed % count, "1"), run=run, protocol=protocol)

    assert told([of_count("a", 3, 50), of_count("b", 3, 200)]) == [("counts", 0), ("repeat", 0)]
    assert told([of_count("a", 60, 50), of_count("b", 60, 200)]) == [("counts", 0), ("counts", 1)]
    assert len(by_model([of_count("a", 3, 50), of_count("b", 3, 200)])) == 1


def test_an_init_state_whose_file_was_changed_makes_another_case() -> None:
    def of_content(run: str, content: int | None, outcome: str = "success") -> Record:
        record = of(run, outcome, started=f"2026-01-0{1 + ord(run) - ord('a')}")
        seeds = record.seeds if content is None else {**record.seeds, INIT_STATE_DIGEST: content}
        return dataclasses.replace(record, seeds=seeds)

    swapped = [of_content("a", 1), of_content("b", 2, "failure"), of_content("c", 1)]
    assert told(swapped) == [("counts", 0), ("counts", 1), ("repeat", 0)]
    assert [text for text in that_count(swapped).left_out if "the file of init states was changed" in text]
    # Those of earlier versions do not know it.
    older = [of_content("a", None), of_content("b", 2)]
    assert told(older) == [("counts", 0), ("repeat", 0)]
    assert not [text for text in that_count(older).left_out if "init state" in text]


def test_scenes_that_were_compiled_to_different_bytes_are_told() -> None:
    def of_bytes(seed: int, compiled: str) -> Record:
        return dataclasses.replace(of("a", "success", seed=seed), provenance={"scene": "s", "compiled": compiled})

    (text,) = [text for text in that_count([of_bytes(0, "x"), of_bytes(1, "y")]).left_out if "scene" in text]
    assert text.startswith("1 scene compiled to different bytes")
    assert not [text for text in that_count([of_bytes(0, "x"), of_bytes(1, "x")]).left_out if "scene" in text]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("ab")), min_size=1, max_size=12))
def test_copies_change_no_rate(episodes: list[tuple[int, int, str]]) -> None:
    """Each start of a policy that does not draw, once: as often as one likes it is run again."""
    outcomes = {start: digest for start, _, digest in episodes}
    records = [
        dataclasses.replace(began(start + 4 * time, start, outcomes[start]), started=f"{number:04}")
        for number, (start, time) in enumerate(dict.fromkeys((start, time) for start, time, _ in episodes))
    ]
    kept = observations(records)
    assert sorted(record.init_state or 0 for record in kept) == sorted(outcomes)
    assert success_rate("x", kept, unit_of).interval == wilson_interval(len(outcomes), len(outcomes))


# What reports are made of


def test_a_report_says_how_many_repeats_there_are_and_how_many_disagree() -> None:
    records = [of("a", "failure", "1"), of("b", "success", "2"), of("c", "failure", "1")]
    selected = that_count(records)
    assert selected.records == (records[0],)
    assert selected.left_out == (
        "2 repeats of 1 episode, whose first record counts: 1 (50.0%) ended differently, 1 (50.0%) with another digest",
    )
    same = [of("a", "failure", "1"), of("b", "failure", "1", run_seed=1)]
    selected = that_count(same)
    assert (selected.records, selected.same) == ((same[0],), ((same[1], same[0]),))
    assert selected.left_out == (
        "2 episodes, 1 distinct start: 1 episode repeats another and counts in no rate (equal starts, equal "
        "trajectories)",
    )


def test_versions_of_a_policy_are_in_no_number_together_where_they_ran_the_same_cases() -> None:
    old = [of("a", "failure", seed=seed) for seed in range(2)]
    new = of("b", "success", policy_digest="bbbbbbbbbbbb")
    assert list(by_model([*old, new])) == [
        ("random (policy aaaa)", "libero_goal"),
        ("random (policy bbbbbbbb)", "libero_goal"),
    ]
    assert list(by_model([*old, dataclasses.replace(new, policy_digest=None)]))[1] == (
        "random (policy of unknown content)",
        "libero_goal",
    )
    # Of other cases they are pooled, which is said.
    apart = [*old, of("b", "success", seed=5, policy_digest="bbbb")]
    assert list(by_model(apart)) == [("random", "libero_goal")]
    assert that_count(apart).left_out == ("these records come from more than one version of the policy",)
    several = [old[0], of("b", "success", replan=None, protocol={**RECORD.protocol, "max_steps": 5})]
    assert list(by_model(several)) == [
        ("random (max_steps 300, replan 5)", "libero_goal"),
        ("random (max_steps 5, whole chunks)", "libero_goal"),
    ]
    broken = of("a", "invalid", reason="premise-broken")
    ignored = of("b", "failure", provenance={**RECORD.provenance, "premises": "ignored"})
    assert [name for name, _ in by_model([broken, ignored])] == [
        "random (premises checked)",
        "random (premises ignored)",
    ]
    # An error goes with its run, another suite is told apart likewise, and another policy is not.
    broken, elsewhere = of("b", "error", seed=3), new
    elsewhere = dataclasses.replace(elsewhere, suite="libero_10", case="x", node="libero_10::x")
    other = of("a", "success", policy="expert")
    groups = by_model([*old, new, broken, elsewhere, other])
    assert {name: len(some) for name, some in groups.items()} == {
        ("random (policy aaaa)", "libero_goal"): 2,
        ("random (policy bbbbbbbb)", "libero_goal"): 2,
        ("random (policy bbbbbbbb)", "libero_10"): 1,
        ("expert", "libero_goal"): 1,
    }


def test_repeats_within_a_run_are_no_other_version() -> None:
    records = [of("a", "failure", node=OWN), of("a", "success", node=OWN, policy_digest="bbbb")]
    assert list(by_model(records)) == [("random", "libero_goal")]


def test_no_repeats_are_no_share() -> None:
    assert repeats_of([]) == Repeats()
    assert json.loads(json.dumps(dataclasses.asdict(Repeats()))) == dict.fromkeys(
        ("records", "cases", "other_outcome", "other_digest"), 0
    )


def test_a_retry_after_the_policys_own_error_is_told_and_a_gate_takes_the_error() -> None:
    raised = [of("a", "error", seed=seed, reason="policy-raised") for seed in (0, 1)]
    lost = of("a", "error", seed=2, reason="worker-crashed")
    again = [of("a", "success", seed=seed) for seed in (0, 2)] + [of("a", "failure", seed=1)]
    records = [*raised, lost, *again, of("a", "failure", seed=3)]
    selected = that_count(records)
    assert [(error.seed, retry.outcome) for error, retry in selected.retried] == [(0, "success"), (1, "failure")]
    (note,) = [text for text in selected.left_out if "policy-raised 1" in text]
    assert "2/4" in note
    assert "1/4 = 25.0%" in note
    found = {record.seed: record.outcome for record in counting_of(records).records}
    assert found == {0: "error", 1: "error", 2: "success", 3: "failure"}


@pytest.mark.parametrize(
    ("reason", "own"),
    [
        *[(reason, True) for reason in ("policy-raised", "policy-timeout", "policy-server-died", "action-nan")],
        *[(reason, True) for reason in ("physics-nan", "world-raised")],
        *[(reason, False) for reason in ("policy-connection", "worker-crashed", "world-unusable", None)],
        ("timeout", True),
    ],
)
def test_which_errors_are_the_policys_own(reason: str | None, own: bool) -> None:
    assert is_of_policy(reason) is own


def test_a_simulation_that_breaks_before_the_policy_is_asked_is_not_its_own() -> None:
    broken = of("a", "error", reason="world-raised", steps=0)
    assert not is_own_error(dataclasses.replace(broken, timings={"reset": 1.0}))
    assert is_own_error(dataclasses.replace(broken, timings={"reset": 1.0, "policy": 0.1}))
    assert is_own_error(dataclasses.replace(broken, timings={}, steps=3))


def test_no_rate_is_over_two_evaluators_even_without_a_case_in_common() -> None:
    openpi = {**RECORD.protocol, "evaluator": "openpi"}
    records = [of("a", "success", protocol=openpi), of("b", "failure", seed=1, protocol=dict(RECORD.protocol))]
    assert list(by_model(records)) == [
        ('random (evaluator "openpi")', "libero_goal"),
        ("random (evaluator ours)", "libero_goal"),
    ]
