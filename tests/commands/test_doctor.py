"""``pytest-vla doctor``: what it prints and exits with; what it finds is tested in tests/doctor."""

import json
import sys
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.doctor.findings import CODES, UNKNOWN
from tests.support.command_line import said

TASK = "close_the_bottom_drawer_of_the_cabinet"


def test_codes_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capfd, "doctor", "--codes", "--json")) == dict(CODES)
    assert [line.split()[0] for line in said(capfd, "doctor", "--codes").splitlines()] == [*CODES]


def test_a_policy_has_to_be_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert "--vla-model" in said(capfd, "doctor", code=1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--demos=nowhere",), "nowhere"),
        (("--vla-suite=tabletopp",), "tabletop"),
        (("--vla-suite=pusht",), "check-policy"),
        (("--vla-tasks=fly",), "fly"),
        (("--html=no/such/folder/page.html",), "no/such/folder"),
        (("--html=.",), "--html=."),
        (("--cameras=front:agentview",), "--demos"),
    ],
)
def test_bad_input_is_named(options: tuple[str, ...], named: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(("doctor", "--vla-model=random", *options)) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert named in err


def test_a_checkpoint_is_checked_before_its_tables_are_read(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "lerobot", None)
    (tmp_path / "config.json").write_text('{"type": "act"}')
    (tmp_path / "policy_postprocessor_step_0_unnormalizer_processor.safetensors").write_bytes(b"cut")
    assert main(("doctor", f"--vla-model=lerobot:{tmp_path}")) == 1
    assert "pytest-vla[lerobot]" in capfd.readouterr().err


def test_a_policy_that_knows_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 1, the page, and JSON: of a policy whose actions are random."""
    page = tmp_path / "doctor.html"
    asked = ("--vla-model=random", f"--vla-tasks={TASK}", "--demo-count=2", "--episodes=0")
    assert main(("doctor", *asked, "--json", f"--html={page}")) == 1
    out, err = capfd.readouterr()
    assert out, err
    found = json.loads(out)
    assert [each["code"] for each in found["diagnosis"]["findings"]] == [UNKNOWN]
    assert UNKNOWN in err
    assert found["adapter"] == []
    assert found["closed_loop"] is None
    assert UNKNOWN in page.read_text()
