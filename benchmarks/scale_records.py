"""Records of real size, for measuring what keeps them: of LIBERO, without and with metrics and a ledger."""

import dataclasses
from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.plan.costs import Charge
from pytest_vla.records.migrations import SCHEMA
from pytest_vla.records.record import Record

SUITE = "libero_goal"
TASKS = (
    "open_the_middle_drawer_of_the_cabinet",
    "put_the_bowl_on_the_stove",
    "put_the_wine_bottle_on_top_of_the_cabinet",
    "open_the_top_drawer_and_put_the_bowl_inside",
    "put_the_bowl_on_top_of_the_cabinet",
    "push_the_plate_to_the_front_of_the_stove",
    "put_the_cream_cheese_in_the_bowl",
    "turn_on_the_stove",
    "put_the_bowl_on_the_plate",
    "put_the_wine_bottle_on_the_rack",
)

PLAIN, FULL = "plain", "full"
"""Kinds: what every episode leaves (1.7 kB), and with all metrics and a ledger (5 kB), as JSON."""

_METRICS = (
    "token_probability", "token_pcs", "token_deepgini", "token_entropy", "action_position_instability",
    "action_velocity_instability", "action_acceleration_instability", "execution_variability",
    "tcp_position_instability", "tcp_velocity_instability", "tcp_acceleration_instability", "trajectory_instability",
    "static_robot", "hand_path", "hand_jerk", "near_joint_limits", "regrasps", "other_contacts",
)  # fmt: skip
_HAVE_PAPER = _METRICS[:12]

_PLAIN: dict[str, Any] = {
    "schema": SCHEMA,
    "run": "scale",
    "suite": SUITE,
    "variation": {},
    "attempt": 1,
    "worker": "gw17",
    "started": "2026-11-26T04:21:30.000+00:00",
    "instruction": "open the middle drawer of the cabinet",
    "reason": None,
    "message": None,
    "steps": 220,
    "eef_pos": (0.22246482391681954, -0.12857991798911195, 1.1099553188366449),
    "costs": (),
    "metrics": {"clipped_actions": 0.0},
    "seeds": {"run": 0, "scene": 0, "init_state": 0, "init_states": 50},
    "protocol": {
        "max_steps": 300,
        "settle_steps": 10,
        "settle_action": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0],
        "control_freq": 20,
        "init_states": 50,
        "image_size": [256, 256],
        "cameras": ["agentview", "robot0_eye_in_hand"],
        "image_transform": "rotate_180",
        "out_of_range": "clip",
        "init_state": None,
        "textures": "trained",
    },
    "replan": 10,
    "policy": "random",
    "policy_digest": "1700633813bd1f9375766174bade5e5e1bfc9c4d818851dcf82a1be6088ca3b7",
    "provenance": {
        "python": "3.12.3",
        "platform": "Linux-6.8.0-x86_64-with-glibc2.39",
        "pytest-vla": "0.1.0",
        "mujoco": "3.8.1",
        "robosuite": "1.4.0",
        "numpy": "2.4.6",
        "scipy": "1.17.1",
        "numba": "0.68.1",
        "llvmlite": "0.50.0",
        "blas": "numpy Haswell, scipy Haswell",
        "kernels": "pinned",
        "libm": "glibc 2.39",
        "scene": "25de2ab7c3992816622dbecf84ad5c7c",
        "stand_ins": "none",
        "renderer": "egl: NVIDIA H100 80GB HBM3",
    },
    "timings": {"reset": 0.061803, "policy": 0.781401, "world": 1.060463, "wall": 1.934032},
}


def _full() -> dict[str, Any]:
    values = {name: 0.013093512294728 * number for number, name in enumerate(_METRICS, 1)}
    for name in _HAVE_PAPER:
        # Some come in two ways, some in three.
        for way in ("paper", "arm") if name.startswith("a") else ("paper",):
            values[f"{name}.{way}"] = values[name] / 3
    place = (-0.07034208231450781, 0.049646605010914724, 0.9551240036410322)
    bodies = ("gripper0_right_gripper", "bowl_1")
    costs = (
        Charge("held_contact", 0.0, step=0, account="collisions"),
        Charge(
            "arm_contact", 3.0, step=72, by="bowl_1", account="collisions", last_step=74, bodies=bodies,
            force=37.79998019158635, position=place,
        ),
        Charge("displaced", 10.0, step=83, by="bowl_1", text="moved 12 mm, turned 8 degrees", account="collisions"),
    )  # fmt: skip
    seconds = {f"metrics.{name}": 0.000325 for name in _METRICS}
    return {"metrics": _PLAIN["metrics"] | values, "costs": costs, "timings": _PLAIN["timings"] | seconds}


def cases(count: int) -> list[Case]:
    """So many, of all tasks in turn."""
    return [Case(SUITE, TASKS[number % len(TASKS)], number // len(TASKS)) for number in range(count)]


def record(case: Case, kind: str, run: str = "scale") -> Record:
    """The record of a case: three of five succeed."""
    success = case.seed % 5 < 3
    table = {
        **_PLAIN,
        **(_full() if kind == FULL else {}),
        "run": run,
        "case": case.id,
        "node": case.node_id,
        "task": case.task,
        "seed": case.seed,
        "outcome": "success" if success else "failure",
        "success_step": 220 if success else None,
        "literals": {"(open wooden_cabinet_1_middle_region)": ((0, False), *(((220, True),) if success else ()))},
        "digest": f"{hash((case.task, case.seed)) & (2**256 - 1):064x}",
        "arrays": f"{SUITE}/{case.parameter_id}.npz",
    }
    return Record(**table)


def fresh(records: list[Record]) -> list[Record]:
    """The same, without what they have worked out of themselves and keep."""
    return [dataclasses.replace(each) for each in records]
