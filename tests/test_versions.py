"""The supported simulator pair is held, and a record says what ran."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from pytest_vla import versions
from pytest_vla.errors import VlaError


def pretend(monkeypatch: pytest.MonkeyPatch, **installed: str | None) -> None:
    def found(name: str) -> str:
        answer = installed.get(name, version("pytest"))
        if answer is None:
            raise PackageNotFoundError(name)
        return answer

    monkeypatch.setattr(versions, "version", found)


def test_the_supported_pair_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for mujoco in versions.SUPPORTED["mujoco"]:
        pretend(monkeypatch, mujoco=mujoco, robosuite="1.4.0")
        assert versions.check_versions() == {"mujoco": mujoco, "robosuite": "1.4.0"}


def test_the_default_is_supported_first_and_pinned_nowhere_else() -> None:
    assert versions.DEFAULT == {"mujoco": "3.3.7", "robosuite": "1.4.0"}
    assert versions.SUPPORTED["mujoco"] == ("3.3.7", "3.3.2", "3.2.3", "3.8.1")


def test_this_environment_has_a_supported_pair() -> None:
    assert versions.check_versions().keys() == versions.SUPPORTED.keys()


def test_another_mujoco_is_refused_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, mujoco="3.9.0", robosuite="1.4.0")
    with pytest.raises(VlaError) as caught:
        versions.check_versions()
    message = str(caught.value)
    supported = "mujoco 3.3.7 (or 3.3.2, 3.2.3, 3.8.1) with robosuite 1.4.0"
    assert message.startswith(f"found mujoco 3.9.0; supported is {supported}.")
    assert "pip install mujoco==3.3.7;" in message
    assert "--vla-allow-versions" in message


def test_another_mujoco_is_accepted_when_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, mujoco="3.9.0", robosuite="1.4.0")
    assert versions.check_versions(allow=True) == {"mujoco": "3.9.0", "robosuite": "1.4.0"}


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("found", ["3.10.0", "3.12.1", "4.0.0", "3.1.6", "2.3.7"])
def test_a_mujoco_that_would_crash_is_never_accepted(monkeypatch: pytest.MonkeyPatch, found: str, allow: bool) -> None:
    pretend(monkeypatch, mujoco=found, robosuite="1.4.0")
    with pytest.raises(VlaError, match=rf"found mujoco {found};.*--vla-allow-versions does not help.*\.$") as caught:
        versions.check_versions(allow=allow)
    assert "or run with" not in str(caught.value)


@pytest.mark.parametrize("allow", [False, True])
def test_a_missing_package_is_never_accepted(monkeypatch: pytest.MonkeyPatch, allow: bool) -> None:
    pretend(monkeypatch, mujoco="3.12.0", robosuite=None)
    with pytest.raises(VlaError, match=r"^not installed: robosuite\. .* -m pip install 'pytest-vla\[libero\]'"):
        versions.check_versions(allow=allow)


@pytest.mark.parametrize(
    ("mujoco", "warms"), [("3.2.3", True), ("3.3.2", True), ("3.3.5", True), ("3.3.6", False), ("3.8.1", False)]
)
def test_before_3_3_6_a_forward_warms_the_next_solve(mujoco: str, warms: bool) -> None:
    assert versions.forward_warms(mujoco) == warms


def test_a_record_carries_what_makes_the_numbers() -> None:
    installed = versions.installed_versions()
    packages = {"pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba"}
    assert packages | {"python", "platform", "kernels"} <= installed.keys()
    assert installed["numpy"] == version("numpy")
    assert all(isinstance(value, str) for value in installed.values())


def test_the_blas_kernels_are_those_that_threadpoolctl_sees() -> None:
    import numpy
    import scipy.linalg
    from threadpoolctl import threadpool_info

    paths = {"numpy": numpy.__file__, "scipy": scipy.__file__}
    kernels = {
        name: pool["architecture"]
        for name in paths
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and f"/{name}.libs/" in pool["filepath"]
    }
    if len(kernels) < 2:
        pytest.skip("numpy or scipy does not bring its own OpenBLAS here")
    assert versions.installed_versions()["blas"] == f"numpy {kernels['numpy']}, scipy {kernels['scipy']}"


def test_asking_for_versions_imports_no_simulator() -> None:
    script = (
        "import sys; from pytest_vla.versions import check_versions, installed_versions\n"
        "check_versions(allow=True); installed_versions()\n"
        "print([name for name in ('numpy', 'scipy', 'mujoco', 'robosuite', 'numba') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
