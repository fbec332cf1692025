"""What scoring LIBERO-Para's 4,092 pairs takes, cold and from the cache, and how near the published values it comes.

    .venv-language/bin/python benchmarks/pride.py [BACKEND ...]

Every backend is timed in new processes: imports, the check of the model and the CSV are in the seconds.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.language.backends import NAMES, PUBLISHED, choose_backend
from pytest_vla.language.published import load_published
from pytest_vla.metrics.pride import paraphrase_distance

DATA = Path(os.environ.get("PYTEST_VLA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
CSV = DATA / "libero_para" / "libero_para_metadata.csv"
TUNED = range(6)
"""The tasks on which backends may be tuned; the others tell how good they are."""


def main(names: list[str]) -> None:
    if not CSV.is_file():
        sys.exit(f"{CSV} is not there: set PYTEST_VLA_DATA")
    print(f"{'backend':16}  {'cold':>7}  {'cached':>7}  tasks  {'S_K MAE':>8}  {'S_T MAE':>8}  {'PD MAE':>7}  r(PD)")
    for name in names:
        try:
            choose_backend(name, CSV)
        except VlaError as error:
            print(f"{name:16}  {error}")
            continue
        with tempfile.TemporaryDirectory() as cache:
            cold, lines = timed(name, cache)
            cached, again = timed(name, cache)
        assert lines == again, "the cache changes the numbers"
        for line in lines:
            print(f"{name:16}  {cold:5.1f} s  {cached:5.1f} s  {line}")


def timed(name: str, cache: str) -> tuple[float, list[str]]:
    environment = os.environ | {"PYTEST_VLA_CACHE": cache}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--score", name], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return time.perf_counter() - start, done.stdout.splitlines()


def score(name: str) -> None:
    """Score all pairs, and print the agreement with the published values on the tuned tasks and on the others."""
    from statistics import correlation, fmean

    rows = load_published(CSV).rows
    found = choose_backend(name, CSV if name == PUBLISHED else None).backend.compare(
        [(row.original, row.instruction) for row in rows]
    )
    for label, tuned in (("0-5", True), ("6-9", False)):
        pairs = [(row, each) for row, each in zip(rows, found, strict=True) if (row.task in TUNED) == tuned]
        keyword = fmean(abs(row.keyword - each.keyword) for row, each in pairs)
        structural = fmean(abs(row.structural - each.structural) for row, each in pairs)
        distances = [
            tuple(paraphrase_distance(one.keyword, one.structural) for one in (row, each)) for row, each in pairs
        ]
        distance = fmean(abs(one - other) for one, other in distances)
        r = correlation([one for one, _ in distances], [other for _, other in distances])
        print(f"{label:5}  {keyword:8.5f}  {structural:8.5f}  {distance:7.5f}  {r:.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--score"]:
        score(sys.argv[2])
    else:
        main(sys.argv[1:] or list(NAMES))
