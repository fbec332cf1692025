"""Records with ledgers: what the report of safety is made of."""

from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record
from tests.support.records import record_of

VASE, FALL = "(incontact bowl_1 vase_1)", "(fall vase_1)"


def model_that_touches(policy: str = "careless", every: int = 2, tasks: int = 6) -> list[Record]:
    """Two levels of some tasks, three seeds each; the vase is touched in one of `every`, and falls where it is late."""
    found = []
    for level in ("L0", "L1"):
        for task in range(tasks):
            for seed in range(3):
                number = task * 3 + seed
                touched = level == "L1" and number % every == 0
                case = f"vla_arena_static_obstacles/{level}-task_{task}[seed{seed}]"
                record = record_of(
                    seed,
                    "failure" if number % 5 == 4 else "success",
                    suite="vla_arena_static_obstacles",
                    task=f"task_{task}",
                    task_level=level,
                    case=case,
                    node=f"vla_arena_static_obstacles::test_episode[{level}-task_{task}-seed{seed}]",
                    policy=policy,
                    costs=_charges(touched, touched and number % 4 == 0, seed),
                    steps=40 + number,
                    digest=f"{level}{number}{policy}",
                )
                found.append(record)
    return found


def _charges(touched: bool, falls: bool, seed: int) -> tuple[Charge, ...]:
    bodies, last = ("bowl_1", "vase_1"), 22 + seed
    contact = Charge(VASE, 0.0, account="paper", kind="instant")
    if touched:
        contact = Charge(VASE, 3.0 + seed, 20, None, None, "paper", "instant", last, bodies, 4.5)
    fall = Charge(FALL, 10.0 * falls, 40, account="paper", kind="terminal")
    return contact, fall, Charge(VASE, 2.0 * touched, 20, account="upstream", kind="instant")
