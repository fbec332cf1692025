"""``--vla-shard`` and ``pytest-vla merge``: what shards run together is what one call runs, item by item."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vla import cli
from pytest_vla.records.items import RunItem
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import open_store

Call = Callable[..., pytest.RunResult]

SUITE = ("--vla-suite=libero_goal,libero_object", "--vla-tasks=turn_on,milk,open", "--vla-model=policies:straight")
OWN = """
import pytest

def test_one(): pass

def test_two(): pass

@pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(3), scope="class")
class TestShared:
    def test_success(self, rollout): assert rollout.success

    def test_seed(self, rollout): assert rollout.record.seed != 1
"""


def loaded(results: Path) -> tuple[Run, tuple[RunItem, ...], dict[str, Record]]:
    with open_store(results, create=False) as store:
        run = store.run("last")
        return run, store.items(run.name), {record.node: record for record in store.records(run.name)}


def same(one: Path, other: Path) -> None:
    """Runs equal each other in items, statuses, order, digests and files."""
    (a, items, records), (b, others, found) = loaded(one), loaded(other)
    assert others == items
    assert {node: (r.outcome, r.digest, r.arrays) for node, r in found.items()} == {
        node: (r.outcome, r.digest, r.arrays) for node, r in records.items()
    }
    assert all((other / b.name / str(record.arrays)).is_file() for record in found.values())
    assert (b.planned, b.status, b.model, typed(b)) == (a.planned, a.status, a.model, typed(a))


def typed(run: Run) -> list[str]:
    """The words of a run's command, without those of these tests."""
    words = shlex.split(run.command)
    return [word for word in words if not word.startswith(("--basetemp=", "--vla-results="))]


def merge(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(["merge", *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_shards_together_are_one_run(project: pytest.Pytester, vla: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """With tests of the user's own, some of which share an episode; one shard with workers, one comes later."""
    project.makepyfile(test_mine=OWN)
    asked = (*SUITE, "--vla-episodes=2", "test_mine.py")
    vla(*asked, "--vla-results=one")
    for number in (1, 3):
        vla(*asked, f"--vla-shard={number}/3", *(["-n", "2"] if number == 3 else []))
    code, said = merge(capsys)
    assert code == 3
    (missing,) = [line.strip() for line in said.splitlines() if "--vla-shard=2/3" in line]
    program, *words = shlex.split(missing)
    assert program == "pytest"
    assert project.runpytest_subprocess(*words).ret == pytest.ExitCode.TESTS_FAILED
    code, said = merge(capsys)
    assert code == 0, said
    same(project.path / "one", project.path / ".vla")
    assert "is unchanged" in merge(capsys)[1]
    nodes = [loaded(folder)[1] for folder in (project.path / ".vla" / "shards").iterdir()]
    assert sum(map(len, nodes)) == len(loaded(project.path / "one")[1]), "each item is in one shard"


def test_a_merged_run_is_gone_on_with_and_judged_here(
    project: pytest.Pytester, vla: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*SUITE, "--vla-episodes=2", "--vla-min-success=50%")
    shard = vla(*asked, "--vla-shard=1/2")
    assert shard.ret == pytest.ExitCode.OK
    shard.stdout.fnmatch_lines(
        ["vla: shard 1 of 2: * of * items", "not judged: --vla-min-success=50% applies to all *"]
    )
    assert merge(capsys)[0] == 3
    whole = vla("--vla-resume")
    assert whole.ret == pytest.ExitCode.OK
    whole.stdout.fnmatch_lines(["vla: passed (--vla-min-success=50%)"])
    vla(*asked, "--vla-results=one")
    same(project.path / "one", project.path / ".vla")
    # Nothing is left, and it is judged all the same.
    code, said = merge(capsys)
    assert (code, "complete; to judge it" in said) == (0, True)
    again = vla("--vla-resume")
    again.stdout.fnmatch_lines(["vla: passed (--vla-min-success=50%)"])
    assert again.ret == pytest.ExitCode.OK


def test_a_shard_that_was_stopped_goes_on(project: pytest.Pytester, vla: Call) -> None:
    asked = (*SUITE, "--vla-episodes=2", "--vla-shard=1/2")
    stopped = vla(*asked, "--vla-model=policies:still", "-x")
    (resume,) = [line for line in stopped.outlines if "--vla-resume=" in line]
    assert "--vla-shard=1/2" in resume
    results = project.path / ".vla" / "shards" / "1-of-2"
    assert loaded(results)[0].is_unfinished
    vla(*asked, "--vla-model=policies:still", "--vla-resume")
    run, items, _ = loaded(results)
    assert not run.is_unfinished
    assert all(item.status == "failed" for item in items)


@pytest.mark.slow
def test_tests_that_workers_could_not_collect_are_missed(
    project: pytest.Pytester, vla: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """pytest-xdist goes on without them; so does pytest where it is asked to."""
    project.makepyfile(test_broken="def test_it(): pass\n\nboom()\n")
    asked = (*SUITE, "--vla-episodes=1", "test_mine.py", "test_broken.py")
    vla(*asked, "--vla-shard=1/2", "-n", "2")
    vla(*asked, "--vla-shard=2/2", "--continue-on-collection-errors")
    # What the shards said has their commands too.
    capsys.readouterr()
    code, said = merge(capsys)
    assert code == 3
    assert "not collected: test_broken.py: NameError: name 'boom' is not defined (shard 1-2)" in said
    (again,) = [line.strip() for line in said.splitlines() if "--vla-shard=1/2" in line]
    project.makepyfile(test_broken="def test_it(): pass")
    program, *words = shlex.split(again)
    assert program == "pytest"
    project.runpytest_subprocess(*words)
    code, said = merge(capsys)
    assert (code, "could not collect test_broken.py" in said) == (1, True), "the other shard lacks its tests"
    vla(*asked, "--vla-shard=2/2")
    code, said = merge(capsys)
    assert (code, "not collected" in said) == (0, False)


def test_an_empty_shard_passes_and_says_so(project: pytest.Pytester, vla: Call) -> None:
    for more in ((), ("-n", "1"), ("-q",)):
        result = vla("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", SUITE[2], "--vla-shard=16/16", *more)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["*shard 16 of 16 is empty: the selection has 1 item*nothing to run here"])
    assert not (project.path / ".vla").exists()
    nothing = vla("--vla-suite=libero_goal", SUITE[2], "--vla-shard=1/2", "-k", "misspelt")
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED, "no shard has anything: no shard passes"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--vla-shard=0/4", "write 1/4 to 4/4"),
        ("--vla-shard=5/4", "write 1/4 to 4/4"),
        ("--vla-shard=1/0", "at least one, as in 1/4"),
        ("--vla-shard=x", "write 3/16"),
        ("--vla-shard-durations=d.json", "needs --vla-shard"),
        ("--vla-shard=1/2 --lf", "--lf selects the failures of this machine"),
        ("--vla-shard=1/2 --vla-baseline=base.vla.json", "pytest-vla gate"),
        ("--vla-shard=1/2 --vla-shard-durations=none.json", "pytest-vla durations --model=POLICY"),
    ],
)
def test_what_cannot_be_is_refused(vla: Call, given: str, told: str) -> None:
    result = vla(*SUITE, *given.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in result.stderr.str() + result.stdout.str()


def test_durations_of_a_file_balance_shards(
    project: pytest.Pytester, vla: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """One task takes as long as all others: it has a shard of its own. Whoever has another file is refused."""
    asked = ("--vla-suite=libero_object", SUITE[2])
    vla(*asked, "--vla-episodes=1", "--vla-results=one")
    assert cli.main(["durations", "--model=policies:straight", "-o", "d.json", "--results=one"]) == 0
    assert "10 cases of policies:straight" in capsys.readouterr().out
    file = project.path / "d.json"
    long = "pick_up_the_milk_and_place_it_in_the_basket"
    rows = ",".join(f'["libero_object", "{task}", 0, {s}]' for task, s in ((long, 90), *((t, 10) for t in tasks(file))))
    file.write_text(f'{{"pytest_vla_durations": 1, "episodes": [{rows}]}}')
    found = []
    for number in (1, 2):
        vla(*asked, f"--vla-shard={number}/2", "--vla-shard-durations=d.json")
        found.append(loaded(project.path / ".vla" / "shards" / f"{number}-of-2")[1])
    assert sorted(map(len, found)) == [1, 9]
    vla(*asked, "--vla-shard=2/2")
    code, said = merge(capsys)
    assert code == 1
    assert "weights for balance is" in said


def tasks(file: Path) -> list[str]:
    from pytest_vla.scale.shards import read_durations

    return [task for _, task, _, _ in read_durations(file).rows if "milk" not in task]


def test_searches_and_plain_tests_are_shared_out(project: pytest.Pytester, vla: Call) -> None:
    """Each search is one item; tests that run no episode are in the first shard. -k is heeded before."""

    def listed(*arguments: Any) -> list[str]:
        result = vla("--collect-only", "-q", *SUITE[:2], *arguments)
        return [line for line in result.outlines if "::" in line and not line.startswith("vla:")]

    for asked in (("--vla-fuzz=3", SUITE[2]), ("test_mine.py", "--vla-episodes=2", "-k", "not drawer")):
        whole = listed(*asked)
        shards = [listed(*asked, f"--vla-shard={number}/2") for number in (1, 2)]
        assert sorted(node for shard in shards for node in shard) == sorted(whole)
        assert all(shard == [node for node in whole if node in shard] for shard in shards)
        assert all(node in shards[0] for node in whole if "test_mine" in node)
        assert len([shard for shard in shards if shard]) > 1
