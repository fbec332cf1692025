"""Logs as published LIBERO evaluators write them, made up: their lines and tables, with outcomes of our own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.plan.manifests import load_suite

Outcomes = Mapping[str, Sequence[bool | str]]
"""By instruction, how its episodes ended; a text is an exception."""


def instructions(suite: str, tasks: int = 3) -> list[str]:
    """Return the instructions of a suite's first tasks."""
    return [task.language for task in load_suite(suite).tasks[:tasks]]


def outcomes(
    suite: str, tasks: int = 3, episodes: int = 4, failures: Sequence[tuple[int, int]] = ()
) -> dict[str, list[bool | str]]:
    """Return successes with some failures, each a task's index and an episode."""
    return {
        text: [(index, k) not in failures for k in range(episodes)]
        for index, text in enumerate(instructions(suite, tasks))
    }


def text_log(evaluator: str, suite: str, results: Outcomes | Sequence[tuple[str, Sequence[bool | str]]]) -> str:
    """Return what a script prints (openpi) or writes to its file (OpenVLA, OpenVLA-OFT, GR00T N1.5)."""
    return "\n".join(text_lines(evaluator, suite, results)) + "\n"


def text_lines(
    evaluator: str, suite: str, results: Outcomes | Sequence[tuple[str, Sequence[bool | str]]]
) -> Iterator[str]:
    """Yield the lines of `text_log`."""
    info = "INFO:root:" if evaluator == "openpi" else ""
    n = won = 0
    yield f"{info}Task suite: {suite}"
    for text, ends in results.items() if isinstance(results, Mapping) else results:
        if evaluator == "openvla-oft":
            yield "Using default initial states"
        of_task = 0
        for k, end in enumerate(ends):
            yield info
            yield f"Task: {text}"
            yield f"{info}Starting episode {k + 1}..."
            if isinstance(end, str):
                yield {
                    "openpi": f"ERROR:root:Caught exception: {end}",
                    "openvla-oft": f"Episode error: {end}",
                }.get(evaluator, f"Caught exception: {end}")
            done = end is True
            n, won, of_task = n + 1, won + done, of_task + done
            if evaluator != "openpi":
                own = "--openvla_oft" if evaluator == "openvla-oft" else ""
                stem = text.replace(" ", "_")[:50]
                yield f"Saved rollout MP4 at path ./rollouts/D/T{own}--episode={n}--success={done}--task={stem}.mp4"
            yield f"{info}Success: {done}"
            yield f"{info}# episodes completed so far: {n}"
            yield f"{info}# successes: {won} ({won / n * 100:.1f}%)"
        yield f"{info}Current task success rate: {of_task / len(ends)}"
        yield f"{info}Current total success rate: {won / n}"
    if evaluator == "openpi":
        yield f"{info}Total success rate: {won / n}"
        yield f"{info}Total episodes: {n}"
    if evaluator == "openvla-oft":
        yield from ("Final results:", f"Total episodes: {n}", f"Total successes: {won}")
        yield f"Overall success rate: {won / n:.4f} ({won / n * 100:.1f}%)"


BAR = "\r 94%|█████████▍| 47/50 [03:48<00:13,  4.39s/it]"
"""tqdm's, as standard error has it between the lines."""


def lerobot_info(results: Mapping[str, Mapping[int, Sequence[bool]]]) -> dict[str, Any]:
    """Return lerobot's ``eval_info.json`` for the episodes of each suite's tasks by number."""

    def summed(values: Sequence[bool]) -> dict[str, Any]:
        rate = 100.0 * sum(values) / len(values)
        return {"avg_sum_reward": rate / 100, "pc_success": rate, "n_episodes": len(values), "video_paths": []}

    per_task = [
        {
            "task_group": suite,
            "task_id": number,
            "metrics": {"sum_rewards": [float(each) for each in ends], "successes": list(ends), "video_paths": []},
        }
        for suite, tasks in results.items()
        for number, ends in tasks.items()
    ]
    by_suite = {suite: [each for ends in tasks.values() for each in ends] for suite, tasks in results.items()}
    overall = summed([each for some in by_suite.values() for each in some])
    return {
        "per_task": per_task,
        "per_group": {suite: summed(some) for suite, some in by_suite.items()},
        "overall": overall | {"eval_s": 12.5, "eval_ep_s": 0.5},
    }


def vla_eval_result(
    suite: str, results: Outcomes, params: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a result of vla-eval 0.8, as its collector makes it; a text is a ``failure_reason``."""
    tasks = []
    for text, ends in results.items():
        episodes: list[dict[str, Any]] = [
            {"episode_id": k, "metrics": {"success": end is True}, "steps": 100 + k, "elapsed_sec": 1.5}
            | ({"failure_reason": end, "failure_detail": "Traceback\nValueError: x"} if isinstance(end, str) else {})
            for k, end in enumerate(ends)
        ]
        rate = round(sum(end is True for end in ends) / len(ends), 4)
        tasks.append(
            {"task": text, "episodes": episodes, "num_episodes": len(ends), "avg_steps": 1.0, "mean_success": rate}
        )
    every = [end is True for ends in results.values() for end in ends]
    return {
        "benchmark": f"LIBEROBenchmark_{suite}",
        "mode": "sync",
        "harness_version": "0.8.0",
        "created_at": "2026-01-01T00:00:00+00:00",
        "tasks": tasks,
        "config": {
            "benchmark": "vla_eval.benchmarks.libero.benchmark:LIBEROBenchmark",
            "mode": "sync",
            "episodes_per_task": 50,
            "max_steps": None,
            "params": {"suite": suite, "seed": 7, **(params or {})},
        },
        "metric_keys": {"success": "mean"},
        "mean_success": round(sum(every) / len(every), 4),
        **more,
    }


def x_vla_lines(suite: str, results: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return the lines of X-VLA's ``results.json``."""
    lines = [json.dumps({f"sim/{suite}/{text}": float(end)}) for text, ends in results.items() for end in ends]
    every = [end for ends in results.values() for end in ends]
    return [*lines, json.dumps({f"sim_summary/{suite}/all": sum(every) / len(every)})]


def write(path: Path, content: str | Mapping[str, Any] | Sequence[str]) -> Path:
    """Write a text, a JSON table, or lines, and return the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Mapping):
        content = json.dumps(content, indent=2)
    path.write_text(content if isinstance(content, str) else "\n".join(content) + "\n", encoding="utf-8")
    return path
