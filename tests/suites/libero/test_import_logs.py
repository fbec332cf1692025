"""The results of published evaluators as records: what each format says, and what is refused."""

import argparse
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.load import format_of, importer_of, is_log
from pytest_vla.records.record import Record, parse_record, record_line
from tests.support.evaluator_logs import (
    instructions,
    lerobot_info,
    outcomes,
    text_log,
    vla_eval_result,
    write,
    x_vla_lines,
)
from tests.support.examples import scaled

RESULTS = outcomes("libero_goal", 2, 3, [(0, 1), (1, 2)])
ENDS = ["success", "failure", "success", "success", "success", "failure"]


def options(*files: Path, **given: Any) -> argparse.Namespace:
    plain = {
        "model": None,
        "suite": None,
        "evaluator": None,
        "allow_unfinished": False,
        "batch_size": None,
        "episodes": None,
    }
    return argparse.Namespace(**{**plain, "files": list(files), **given})


def records(*files: Path, **given: Any) -> list[Record]:
    importer = importer_of(extensions.importers()[format_of(files[0])])
    ((make,),) = [log.runs for log in importer.read(options(*files, **given)).logs]
    made = make("r")
    assert [parse_record(record_line(record)).case for record in made] == [record.case for record in made]
    return made


def remarks(*files: Path, **given: Any) -> str:
    importer = importer_of(extensions.importers()[format_of(files[0])])
    return "\n".join(log.remark for log in importer.read(options(*files, **given)).logs)


def recording(path: Path, result: dict[str, Any], *, task_ids: bool = True, complete: bool = True) -> Path:
    """Write a result as vla-eval 0.8 records it."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE eval_metadata (eval_id TEXT PRIMARY KEY, safe_name TEXT, metadata TEXT);"
        "CREATE TABLE eval_shards (eval_id TEXT, shard_id INTEGER, num_shards INTEGER, complete INTEGER);"
        "CREATE TABLE episode_results (sid TEXT, eid TEXT, eval_id TEXT, task_name TEXT, episode_id INTEGER,"
        " status TEXT, metrics TEXT, steps INTEGER, context TEXT, failure_reason TEXT, failure_detail TEXT);"
    )
    metadata = {name: result[name] for name in ("benchmark", "mode", "config")}
    connection.execute("INSERT INTO eval_metadata VALUES ('e', 'n', ?)", (json.dumps(metadata),))
    connection.execute("INSERT INTO eval_shards VALUES ('e', 0, 1, ?)", (complete,))
    for index, task in enumerate(result["tasks"]):
        for each in task["episodes"]:
            context = {"task_idx": index, "episode_idx": each["episode_id"]} | ({"task_id": index} if task_ids else {})
            row = ("s", f"{index}-{each['episode_id']}", "e", task["task"], each["episode_id"], "")
            row += (json.dumps(each["metrics"]), each.get("steps"), json.dumps(context))
            row += (each.get("failure_reason"), each.get("failure_detail"))
            connection.execute(f"INSERT INTO episode_results VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    return path


def lerobot_file(path: Path) -> Path:
    lists = {number: [end is True for end in ends] for number, ends in enumerate(RESULTS.values())}
    return write(path / "eval_info.json", lerobot_info({"libero_goal": lists}))


FILES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    **{
        name: (name, lambda path, name=name: write(path / "log.txt", text_log(name, "libero_goal", RESULTS)))  # type: ignore[misc]
        for name in ("openpi", "openvla-oft")
    },
    "openvla": (
        "openvla",
        lambda path: write(path / "EVAL-libero_goal-openvla-D.txt", text_log("openvla", "libero_goal", RESULTS)),
    ),
    "groot-n1.5": (
        "groot-n1.5",
        lambda path: write(path / "libero_eval_libero_goal.log", text_log("groot-n1.5", "libero_goal", RESULTS)),
    ),
    "lerobot": ("lerobot", lerobot_file),
    "vla-eval": ("vla-eval", lambda path: write(path / "r.json", vla_eval_result("libero_goal", RESULTS))),
    "vla-eval's recording": (
        "vla-eval",
        lambda path: recording(path / "recording-1.sqlite", vla_eval_result("libero_goal", RESULTS)),
    ),
    "x-vla": (
        "x-vla",
        lambda path: write(
            path / "results.json",
            x_vla_lines("libero_goal", {t: [e is True for e in ends] for t, ends in RESULTS.items()}),
        ),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_is_found_and_its_episodes_are_cases(name: str, tmp_path: Path) -> None:
    evaluator, make = FILES[name]
    found = records(make(tmp_path))
    tasks = load_suite("libero_goal").tasks[:2]
    assert [(record.task, record.seed) for record in found] == [(task.name, k) for task in tasks for k in range(3)]
    assert [record.outcome for record in found] == ENDS
    assert {record.instruction for record in found} == {task.language for task in tasks}
    protocol = load_evaluator(evaluator).task(tasks[0]).protocol.table()
    unsaid = {"init_states"} if name == "lerobot" else set()
    # What lerobot and vla-eval leave to the policy.
    unsaid |= {"control"} if protocol.get("control") == "either" else set()
    known = {key: value for key, value in protocol.items() if key not in unsaid}
    assert [record.protocol for record in found] == [known] * 6
    assert {record.replan for record in found} == {load_evaluator(evaluator).replan}
    starts = [record.init_state for record in found]
    assert starts == ([0, None, None] * 2 if name == "lerobot" else [0, 1, 2] * 2)
    steps = [record.steps for record in found]
    assert steps == ([100, 101, 102] * 2 if name.startswith("vla-eval") else [0] * 6)
    assert {(record.success_step is None) for record in found if record.outcome == "success"} == {not any(steps)}
    assert {tuple(record.provenance) for record in found} == {("imported",)}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_anywhere_is_refused_or_told(name: str, tmp_path: Path) -> None:
    path = FILES[name][1](tmp_path)
    whole = path.read_bytes()
    for part in range(1, 20):
        path.write_bytes(whole[: len(whole) * part // 20])
        if not is_log(path):
            continue
        try:
            told = remarks(path)
        except VlaError as error:
            told = str(error)
        assert str(path) in told or "libero_goal: 1 of 10 tasks" in told


def test_lerobots_init_states_are_known_for_one_batch(tmp_path: Path) -> None:
    path = lerobot_file(tmp_path)
    assert "eval.batch_size" in remarks(path)
    assert [record.init_state for record in records(path, batch_size=3)] == [0, 1, 2, 0, 1, 2]
    assert "batch_size" not in remarks(path, batch_size=10)
    assert [record.init_state for record in records(path, batch_size=2)] == [0, 1, None, 0, 1, None]


def test_exceptions_are_errors_and_in_no_rate(tmp_path: Path) -> None:
    results = {text: [True, "timeout"] for text in instructions("libero_goal", 1)}
    for path in (
        write(tmp_path / "a.txt", text_log("openpi", "libero_goal", results)),
        write(tmp_path / "b.json", vla_eval_result("libero_goal", results)),
    ):
        assert [(r.outcome, r.reason) for r in records(path)] == [("success", None), ("error", "imported-error")]
        assert "1 episode ended by an exception" in remarks(path)
    assert records(tmp_path / "b.json")[1].message == "timeout: ValueError: x"


def test_an_episode_that_ran_out_of_robosuites_steps_is_a_failure(tmp_path: Path) -> None:
    out_of_time = "executing action in terminated episode"
    results: dict[str, list[bool | str]] = {
        text: [True, out_of_time, "no answer"] for text in instructions("libero_10", 1)
    }
    path = write(tmp_path / "libero_eval_libero_10.log", text_log("groot-n1.5", "libero_10", results))
    assert [r.outcome for r in records(path)] == ["success", "failure", "error"]
    assert "1 episode ended by an exception" in remarks(path)


def test_what_an_evaluator_leaves_to_the_policy_is_in_no_record(tmp_path: Path) -> None:
    path = lerobot_file(tmp_path)
    assert all("control" not in record.protocol and record.replan is None for record in records(path))


def test_what_a_configuration_says_goes_before_the_evaluators_own(tmp_path: Path) -> None:
    params = {"env_seed": 0, "num_steps_wait": 20, "quat_no_antipodal": True, "max_steps": 99}
    path = write(tmp_path / "a.json", vla_eval_result("libero_goal", RESULTS, params))
    (protocol,) = {json.dumps(record.protocol) for record in records(path)}
    assert {"scenes": "stream 0", "settle_steps": 20, "max_steps": 99}.items() <= json.loads(protocol).items()
    assert json.loads(protocol).get("state", "axis_angle") == "axis_angle"


def test_an_earlier_vla_eval_named_episodes_by_texts(tmp_path: Path) -> None:
    (text,) = instructions("libero_goal", 1)
    episodes = [{"success": k != 1, "steps": 9, "task": text, "episode_id": f"{text}_ep{k}"} for k in (0, 10, 1)]
    result = {
        **vla_eval_result("libero_goal", {text: [True]}),
        "tasks": [{"task": text, "episodes": episodes, "success_rate": 2 / 3, "avg_steps": 9.0}],
        "overall_success_rate": 2 / 3,
        "merge_info": {"num_shards": 2, "shards_found": [0, 1], "shards_missing": [], "total_episodes": 3},
    }
    del result["mean_success"]
    found = records(path := write(tmp_path / "merged.json", result))
    assert [(record.seed, record.outcome) for record in found] == [(0, "success"), (1, "failure"), (10, "success")]
    result["merge_info"]["shards_missing"] = [1]
    with pytest.raises(VlaError, match="shards 1 are missing"):
        records(write(path, result))


def test_shards_are_one_run(tmp_path: Path) -> None:
    one, other = instructions("libero_goal", 2)
    parts = [
        write(
            tmp_path / f"{n}.json",
            vla_eval_result("libero_goal", {text: [True]}, shard={"id": n, "total": 2}, partial=True),
        )
        for n, text in enumerate((one, other))
    ]
    assert [record.instruction for record in records(*parts, model="m")] == [one, other]
    with pytest.raises(VlaError, match="shards 1 of 2 of libero_goal are missing"):
        records(parts[0])
    assert len(records(parts[0], allow_unfinished=True)) == 1
    with pytest.raises(VlaError, match="--model=NAME"):
        records(*parts)
    with pytest.raises(VlaError, match="is there twice"):
        records(parts[0], parts[0], model="m")


def test_a_recording_has_the_last_result_of_what_ran_again(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.sqlite", vla_eval_result("libero_goal", RESULTS))
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO episode_results SELECT sid, 'again', eval_id, task_name, episode_id, status,"
        " '{\"success\": true}', steps, context, NULL, NULL FROM episode_results WHERE eid = '0-1'"
    )
    connection.commit()
    connection.close()
    assert [record.outcome for record in records(path)] == ["success", "success", *ENDS[2:]]
    unfinished = recording(tmp_path / "u.sqlite", vla_eval_result("libero_goal", RESULTS), complete=False)
    with pytest.raises(VlaError, match="not finished"):
        records(unfinished)
    (tmp_path / "r.sqlite-journal").write_bytes(b"x")
    with pytest.raises(VlaError, match=r"r\.sqlite-journal lies beside it"):
        records(path)


def test_instructions_of_several_tasks_are_told_apart_by_their_order(tmp_path: Path) -> None:
    suite = load_suite("libero_90")
    whole = [(task.language, [True, False]) for task in suite.tasks]
    path = write(tmp_path / "a.txt", text_log("openpi", "libero_90", whole))
    assert [record.task for record in records(path)] == [task.name for task in suite.tasks for _ in range(2)]
    first = next(t for t in suite.tasks if sum(o.language == t.language for o in suite.tasks) > 1)
    path = write(tmp_path / "b.txt", text_log("openpi", "libero_90", {first.language: [True]}))
    with pytest.raises(VlaError, match="line 3: libero_90 has several tasks"):
        records(path)
    # vla-eval puts them together by their instruction, and says each one's number.
    both = [index for index, task in enumerate(suite.tasks) if task.language == first.language]
    result = vla_eval_result("libero_90", {first.language: [True] * len(both)})
    for each, number in zip(result["tasks"][0]["episodes"], both, strict=True):
        each |= {"episode_id": 0, "task_id": number}
    found = records(write(tmp_path / "c.json", result))
    assert [record.task for record in found] == [suite.tasks[number].name for number in both]


def test_the_suite_is_said_or_the_only_one_with_the_tasks(tmp_path: Path) -> None:
    text = text_log("openvla", "libero_goal", {"turn on the stove": [True]}).partition("\n")[2]
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(VlaError, match="its tasks are in libero_goal and in libero_90"):
        records(path)
    for found in (records(path, suite="libero_goal"), records(write(tmp_path / "EVAL-libero_goal-x-D.txt", text))):
        assert [record.suite for record in found] == ["libero_goal"]
    both = text_log(
        "openvla", "libero_goal", {"turn on the stove": [True], "push the plate to the front of the stove": [True]}
    )
    assert len(records(write(tmp_path / "b.txt", both.partition("\n")[2]))) == 2
    with pytest.raises(VlaError, match=r"is libero_goal, and --suite=libero_10.*Leave --suite out"):
        records(write(tmp_path / "c.txt", both), suite="libero_10")
    own = write(tmp_path / "d.txt", both.replace("libero_goal", "libero_goal_no_noops"))
    with pytest.raises(VlaError, match=r"libero_goal_no_noops.*--suite=NAME"):
        records(own)
    assert {record.suite for record in records(own, suite="libero_goal")} == {"libero_goal"}
    with pytest.raises(VlaError, match=r"libero_10 has no task .*It is a task of libero_goal, libero_90"):
        records(path, suite="libero_10")


def rate_lines(text: str, *keys: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if any(key in line for key in keys))


def test_rates_alone_are_counts_if_the_number_of_episodes_is_said(tmp_path: Path) -> None:
    results = outcomes("libero_goal", 10, 4, [(0, 1), (3, 0), (3, 2)])
    whole = text_log("openpi", "libero_goal", results)
    said = rate_lines(whole, "success rate", "Task suite", "Total episodes")
    for text, more in (
        (said, {}),
        (rate_lines(whole, "success rate", "Task: ", "Task suite"), {"episodes": 4}),
        (rate_lines(whole, "success rate"), {"episodes": 4, "suite": "libero_goal"}),
    ):
        found = records(write(tmp_path / "a.txt", text), **more)
        counts = [sum(each.outcome == "success" for each in found if each.instruction == name) for name in results]
        assert counts == [3, 4, 4, 2, *[4] * 6]
        assert {record.init_state for record in found} == {None}
        assert {record.protocol["evaluator"] for record in found} == {"openpi"}
        assert "init_states" not in found[0].protocol
    # Nobody knows which episodes succeeded: no comparison pairs them.
    other = records(write(tmp_path / "b.txt", said.replace("Total success", "\nTotal success")))
    assert {record.case for record in other}.isdisjoint(record.case for record in found)
    for text, more, told in (
        (
            rate_lines(whole, "success rate"),
            {"suite": "libero_goal"},
            r"no number of episodes for 10 tasks .*\n.*75.0%",
        ),
        (said, {"episodes": 5}, "40 episodes of 10 tasks"),
        (said.replace("episodes: 40", "episodes: 41"), {}, "41 episodes of 10 tasks"),
        (said.replace("rate: 0.75", "rate: 0.6", 1), {}, "line 2: 0.6 is no success rate of 4 episodes"),
        (said.replace("0.8125", "0.8121"), {}, "0.8121 is no success rate of 16"),
        (said.replace("episodes: 40", "episodes: 80000"), {}, "expected up to 1000 episodes of a task, found 8000"),
        (
            "".join(said.splitlines(keepends=True)[:7]),
            {"episodes": 4},
            "3 rates without 'Task:', and libero_goal has 10",
        ),
    ):
        with pytest.raises(VlaError, match=told):
            records(write(tmp_path / "c.txt", text), **more)


def test_an_evaluator_that_is_not_said_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "log.txt", text_log("openvla", "libero_goal", RESULTS))
    assert {json.dumps(record.protocol) for record in records(path)} == {'{"evaluator": "unknown"}'}
    assert "it could be groot-n1.5 or openvla" in remarks(path)
    assert {record.protocol["max_steps"] for record in records(path, evaluator="groot-n1.5")} == {600}
    mixed = write(tmp_path / "m.txt", text_log("openpi", "libero_goal", RESULTS) + "Final results:\n")
    assert "contradict each other" in remarks(mixed)
    with pytest.raises(VlaError, match="there is no evaluator 'openvlo'"):
        records(path, evaluator="openvlo")


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("lerobot", lambda body: body["overall"].update(n_episodes=7), "overall.n_episodes is 7, but 6"),
        ("lerobot", lambda body: body["per_group"]["libero_goal"].update(pc_success=50.0), "pc_success is 50.0"),
        ("lerobot", lambda body: body["per_task"].append(body["per_task"][0]), "there twice"),
        ("lerobot", lambda body: body["per_task"][0].update(task_id=10), "no task 10"),
        ("lerobot", lambda body: body["per_task"][0]["metrics"].update(successes=[2]), "expected true or false"),
        ("lerobot", lambda body: body.pop("per_task"), r"66.7% of 6 episodes \(95% interval 30.0 to 90.3%\)"),
        ("vla-eval", lambda body: body["tasks"][0].update(mean_success=1.0), "mean_success is 1.0, but 2 of 3"),
        ("vla-eval", lambda body: body["tasks"][0].update(num_episodes=4), "num_episodes is 4"),
        ("vla-eval", lambda body: body["tasks"][0]["episodes"].pop(), "it is cut or doubled"),
        ("vla-eval", lambda body: body["tasks"][0]["episodes"][0].update(episode_id=1), "there twice"),
        ("vla-eval", lambda body: body["tasks"][0]["episodes"][0].update(metrics={}), "expected true or false"),
        ("vla-eval", lambda body: body["tasks"][0].update(task="fly"), "has no task 'fly'"),
        ("vla-eval", lambda body: body["config"].update(benchmark="x:CALVINBenchmark"), "expected LIBERO's"),
        ("vla-eval", lambda body: body.update(partial=True), "says that it is partial"),
        ("vla-eval", lambda body: body.update(mean_success=0.1), "contradicts itself"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(
    name: str, change: Callable[[dict[str, Any]], Any], told: str, tmp_path: Path
) -> None:
    path = FILES[name][1](tmp_path)
    body = json.loads(path.read_text())
    change(body)
    with pytest.raises(VlaError, match=told) as caught:
        records(write(path, body))
    assert str(caught.value).startswith(str(path))


def test_x_vlas_lines(tmp_path: Path) -> None:
    results = {text: [True, False] for text in instructions("libero_goal", 2)}
    lines = x_vla_lines("libero_goal", results)
    path = tmp_path / "results.json"
    for changed, told in (
        (lines[:-1], "is missing"),
        (lines[1:], "line 4: .* contradicts itself|line 4"),
        ([*lines, *lines], "line 6: libero_goal goes on after its total in line 5"),
        ([*lines[:2], lines[2][:20], *lines[3:]], "line 3: it is no JSON"),
        ([*lines[:4], *lines[:1], '{"sim_summary/libero_goal/all": 0.6}'], "line 5: .* there twice, first at .*line 1"),
        ([*lines, '{"libero_goal": 0.5}'], "line 6: expected 'sim/SUITE/TASK'"),
    ):
        with pytest.raises(VlaError, match=told):
            records(write(path, changed))
    with pytest.raises(VlaError, match=r"success rates only.*\nlibero_goal: 97.0%\nlibero_10: 90.0%"):
        records(write(path, '{\n  "libero_goal": 0.97,\n  "libero_10": 0.9\n}\n'))
    suites = ("libero_goal", "libero_object", "libero_spatial")
    every = {text: [True] for suite in suites for text in instructions(suite, 10)}
    found = records(write(path, x_vla_lines("libero30", every)))
    assert [record.suite for record in found] == [suite for suite in suites for _ in range(10)]
    many = {instructions("libero_goal", 1)[0]: [True] * 52}
    assert [record.init_state for record in records(write(path, x_vla_lines("libero_goal", many)))][-2:] == [0, 1]


def test_a_doubled_log_and_one_that_breaks_off(tmp_path: Path) -> None:
    text = text_log("openpi", "libero_goal", RESULTS)
    path = write(tmp_path / "a.txt", text + text)
    with pytest.raises(
        VlaError, match=r"a.txt, line \d+: episode 0 of libero_goal/\w+ is there twice, first at .*line"
    ):
        records(path)
    half = text[: text.index("Starting episode 3")]
    with pytest.raises(VlaError, match=r"breaks off in 'Task:'|breaks off in episode"):
        records(write(path, half))
    assert len(records(path, allow_unfinished=True)) == 2
    with pytest.raises(VlaError, match="totals that openpi prints"):
        records(write(path, text[: text.index("INFO:root:Total success")]))
    rates = "\n".join(line for line in text.split("\n") if line.startswith("INFO:root:#"))
    with pytest.raises(VlaError, match=r"success rates only.*\nall tasks: 66.7% of 6 episodes \(95%"):
        records(write(path, rates))


def test_the_end_of_a_log_alone(tmp_path: Path) -> None:
    text = text_log("openpi", "libero_goal", RESULTS)
    path = write(tmp_path / "libero_goal.txt", text[text.index("Starting episode 3") :])
    assert [(record.seed, record.outcome) for record in records(path)] == list(zip(range(3), ENDS[3:], strict=True))
    assert "3 earlier episodes, of which 2 succeeded by its counts" in remarks(path)


ANYTHING = st.sampled_from(
    (
        None,
        True,
        -1,
        3,
        10**400,
        0.5,
        float("nan"),
        "",
        "x",
        "libero_goal",
        [],
        [[]],
        {},
        {"a": 1},
        "\x1b[31m",
        [1, "x"],
    )
)


@settings(max_examples=scaled(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(("lerobot", "vla-eval", "x-vla")), data=st.data())
def test_any_value_in_any_place_is_refused_or_read(name: str, data: st.DataObject, tmp_path: Path) -> None:
    path = FILES[name][1](tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if name == "x-vla" else []
    body = data.draw(st.sampled_from(lines)) if lines else json.loads(path.read_text())
    place: Any = body
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 5)) == 0:
            break
        place = inner
    place[key] = data.draw(ANYTHING)
    write(path, [json.dumps(line) for line in lines] or json.dumps(body))
    with suppress(VlaError):
        if is_log(path):
            records(path, allow_unfinished=data.draw(st.booleans()))


CELLS = st.sampled_from((None, 0, -5, 2**62, 1.5, "", "x", b"\xff", "[]", "{}", '{"task_idx": []}', '{"success": 2}'))


@settings(max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_cell_is_refused_or_read(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    path.unlink(missing_ok=True)
    recording(path, vla_eval_result("libero_goal", RESULTS))
    table = data.draw(st.sampled_from(("eval_metadata", "eval_shards", "episode_results")))
    with closing(sqlite3.connect(path)) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute(f"UPDATE {table} SET {data.draw(st.sampled_from(names))} = ?", (data.draw(CELLS),))
        connection.commit()
    with suppress(VlaError):
        records(path, allow_unfinished=True)


def test_other_files_are_not_recognised(tmp_path: Path) -> None:
    for content in ("", "{}", "[1]", "hello\n", "Task: x\n", "\x00\x01"):
        path = write(tmp_path / "f", content)
        assert not is_log(path)
        with pytest.raises(VlaError, match="is not recognised as a log"):
            format_of(path)
    sqlite3.connect(tmp_path / "o.sqlite").execute("CREATE TABLE t (x)").connection.close()
    assert not is_log(tmp_path / "o.sqlite")
    with pytest.raises(VlaError, match="there is no"):
        format_of(tmp_path / "nothing")


def test_text_of_other_encodings(tmp_path: Path) -> None:
    text = text_log("openpi", "libero_goal", RESULTS)
    (tmp_path / "a.txt").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf\xff\xfe\n" + text.encode())
    for name in ("a.txt", "b.txt"):
        assert [record.outcome for record in records(tmp_path / name)] == ENDS
