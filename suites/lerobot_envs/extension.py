"""PushT's and ALOHA's suites; ``gym_pusht`` and ``gym_aloha`` are imported when one of them is used."""

from pytest_vla.entries import SuiteEntry


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return the suites; ``aloha`` stands for both of ALOHA's."""
    here = "pytest_vla.suites.lerobot_envs.tasks"
    return [
        SuiteEntry("pusht", "PushT: push a T-shaped block onto its place, in two dimensions", f"{here}:pusht"),
        *(
            SuiteEntry(f"aloha_{name}", about, f"{here}:aloha_{name}", aliases=("aloha",))
            for name, about in (
                ("transfer_cube", "ALOHA's two arms hand a cube over"),
                ("insertion", "ALOHA's two arms put a peg into a socket"),
            )
        ),
    ]
