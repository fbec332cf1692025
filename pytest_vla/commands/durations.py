"""``pytest-vla durations``: writes the mean time of each case to a file, to balance shards by."""

import argparse
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_results, some_text

# Heavy imports are inside the functions, so that --help is fast.


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "The file is for pytest --vla-shard=N/COUNT --vla-shard-durations=FILE. Write it once, before the shards "
        "start, and give all shards the same file: with different files the shards would overlap or leave gaps. It "
        "has the mean of each case over the policy's ten latest runs."
    )
    parser.add_argument(
        "--model",
        metavar="POLICY",
        type=some_text,
        required=True,
        help="policy whose episodes count, as in --vla-model",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="file to write")
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Write the file. Raises VlaError: no episode of the policy was measured, or the file cannot be written."""
    from pytest_vla.records.store import open_store
    from pytest_vla.scale.shards import mean_durations, write_durations
    from pytest_vla.util.text import counted, did_you_mean, printable

    with open_store(options.results, create=False) as store:
        durations = mean_durations(store.durations(options.model))
        models = sorted({each.model for each in store.runs()})
    if not durations.rows:
        known = did_you_mean(options.model, models) or f" There are runs of {', '.join(models)}."
        raise VlaError(f"no measured episode of {options.model} in {options.results}.{known}")
    write_durations(options.output, durations, options.model)
    hours = sum(seconds for *_, seconds in durations.rows) / 3600
    cases = counted(len(durations.rows), "case")
    print(printable(f"{options.output}: {cases} of {options.model}, {hours:.2f} h of episodes"))


COMMAND = Command(declare, run)
