"""A run that is gone on with goes on in the same simulator, also where a suite brings its own."""

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.records.counting import is_complete
from pytest_vla.records.record import Record
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import printable


def check_own_simulators(settings: Settings, run: str) -> None:
    """Whether the own worlds of a run's suites say of themselves what they said when its episodes ended.

    Of each suite a world is made, and the case reset of which the run has a record: what a world says may depend on it.

    Args:
        settings: of the run, as it is gone on with.
        run: its name.

    Raises:
        VlaError: one says something else: no rate is of both.
    """
    from pytest_vla.records.store import open_store

    with open_store(settings.results, create=False) as store:
        first: dict[str, Record] = {}
        for record in store.records(run):
            if record.simulator and is_complete(record.outcome):
                first.setdefault(record.suite, record)
    for suite, record in first.items():
        now = _said_now(settings, record)
        if now is None:
            continue
        before = {name: record.provenance.get(name) for name in {*record.simulator, *now}}
        differing = [name for name in sorted(before) if before[name] != now.get(name)]
        if differing:
            told = ", ".join(f"{name} was {_text(before[name])} and is {_text(now.get(name))}" for name in differing)
            raise VlaError(
                f"--vla-resume: run {run} has episodes of {suite} in another version of the suite's own world: {told}; "
                "no rate is of both. Bring that version back, or leave --vla-resume out for a new run"
            )


def _said_now(settings: Settings, record: Record) -> dict[str, str] | None:
    """What the world of a record's task says of itself today; None: it cannot be asked, as its episodes will tell."""
    from pytest_vla.episode.own_world import OwnWorld

    if record.suite not in suite_names():
        return None
    tasks = {task.key: task for task in load_suite(record.suite, data=settings.data).tasks}
    task = tasks.get(record.task_key)
    if task is None or task.world is None:
        return None
    try:
        world = OwnWorld(task)
        try:
            world.reset(record.seeds.get("init_state", 0), record.seed)
            return world.provenance()
        finally:
            world.close()
    except Exception:
        return None


def _text(value: str | None) -> str:
    return "not said" if value is None else printable(repr(value)[:80])
