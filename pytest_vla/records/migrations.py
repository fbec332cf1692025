"""What records of earlier versions say, in the words of this one. Pure; a function a version step.

Records are additive. A later version may add a field, or a key to a table in a record, and leaves `SCHEMA` as it is:
whoever does not know what was added keeps it, and whoever knows it and does not find it takes its default. `SCHEMA` is
raised where a reader that does not know of a change would report something wrong: where a field changes its type or its
meaning, goes away, or makes other records comparable than before. Then a function of this module makes a record of the
new schema out of one of the schema before. Values of a table keep their type as long as the schema is the same.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.util.text import printable

SCHEMA = 4
"""Of the records that this version writes: see above when it is raised."""

Table = dict[str, Any]


def _costs_become_a_ledger(table: Table) -> Table:
    """To schema 4. Of a cost its sum was known, not the steps; what an own world said was not told from the rest."""
    costs, provenance = table.get("costs"), table.get("provenance")
    if isinstance(costs, dict):
        costs = [{"name": name, "step": None, "amount": amount} for name, amount in costs.items()]
    said = sorted(set(provenance) - _OF_MACHINES_3) if isinstance(provenance, dict) and "world" in provenance else []
    return {**table, "costs": costs, "simulator": said}


# What the provenance of schema 3 had that was not an own world's.
_OF_MACHINES_3 = frozenset(
    (
        *("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "llvmlite"),
        *("python", "platform", "blas", "kernels", "libm", "premises", "feasible"),
    )
)

STEPS: Mapping[int, Callable[[Table], Table]] = {3: _costs_become_a_ledger}
"""From each schema that can be read to the one after it. What they are given has not been looked at."""


def migrated(table: Table) -> Table:
    """A record, as JSON has it, of this version's schema.

    Raises:
        VlaError: it is of a later schema, of one that nobody can read any more, or of none.
    """
    schema = table.get("schema")
    oldest = min(STEPS)
    if type(schema) is int and schema > SCHEMA:
        raise VlaError(
            f"not a record of schema {oldest} to {SCHEMA}: schema is {schema}, {_writer(table)}; upgrade pytest-vla "
            "(pip install -U pytest-vla)"
        )
    if type(schema) is not int or schema < oldest:
        told = printable(repr(schema)[:60])
        raise VlaError(
            f"not a record of schema {oldest} to {SCHEMA}: schema is {told}; read it with the version that wrote it"
        )
    for version in range(schema, SCHEMA):
        table = {**STEPS[version](table), "schema": version + 1}
    return table


def _writer(table: Table) -> str:
    provenance = table.get("provenance")
    version = provenance.get("pytest-vla") if isinstance(provenance, dict) else None
    return f"of pytest-vla {printable(version)[:60]}" if isinstance(version, str) else "of a later version"
