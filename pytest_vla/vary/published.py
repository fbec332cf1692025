"""Benchmarks' own kinds, with their parameters and from their files: taken only where they are named."""

from pytest_vla.suite import Task
from pytest_vla.variation import Variation
from pytest_vla.vary.kind import Kind


def _libero_pro(task: Task, label: str, seed: int) -> Variation:
    from pytest_vla.vary.libero_pro import paraphrase

    return paraphrase(task, label, seed)


def _libero_plus(task: Task, label: str, seed: int) -> Variation:
    from pytest_vla.vary.libero_plus_language import rewrite

    return rewrite(task, label, seed)


KINDS = (
    Kind(
        "language.pro",
        "a paraphrase of your LIBERO-PRO's ood_language.yaml",
        "LIBERO-PRO",
        lambda draw: _libero_pro(draw.task, draw.label, draw.seed),
        needs_files=True,
    ),
    Kind(
        "language.plus",
        "a rewritten instruction of your LIBERO-Plus's BDDL files",
        "LIBERO-Plus",
        lambda draw: _libero_plus(draw.task, draw.label, draw.seed),
        needs_files=True,
    ),
)
