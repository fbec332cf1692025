"""A selection as an array of jobs by submitit, and then one run: python shards.py COUNT OPTIONS_OF_PYTEST..."""

import subprocess
import sys
import time
from pathlib import Path

import submitit


def shard(folder: str, number: int, count: int, options: list[str]) -> int:
    """Run a shard, or go on with it. Returns pytest's exit code."""
    results = Path(folder) / str(number)
    resume = ["--vla-resume"] if (results / "results.sqlite").exists() else []
    mine = [f"--vla-shard={number}/{count}", f"--vla-results={results}", *resume]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *mine]).returncode


def main(count: int, options: list[str]) -> int:
    """Start the jobs, wait for them, and merge. Returns the exit code of the merge."""
    folder = Path(".vla/jobs") / time.strftime("%Y%m%d-%H%M%S")
    executor = submitit.AutoExecutor(folder=folder / ".submitit")
    executor.update_parameters(timeout_min=120, gpus_per_node=1, cpus_per_task=8, slurm_array_parallelism=64)
    numbers = range(1, count + 1)
    jobs = executor.map_array(shard, [str(folder)] * count, numbers, [count] * count, [options] * count)
    for number, job in zip(numbers, jobs, strict=True):
        try:
            # 1: some episodes failed, which was measured; or tests could not be collected, which the merge tells.
            if (code := job.result()) > 1:
                print(f"shard {number}: pytest ended with {code}: {job.paths.stdout}")
        except Exception as error:
            # Killed, or out of time: the merge says what is missing.
            print(f"shard {number}: {error}")
    return subprocess.run([sys.executable, "-m", "pytest_vla.cli", "merge", str(folder), "-o", ".vla"]).returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
