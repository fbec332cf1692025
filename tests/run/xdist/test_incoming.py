"""Files that workers of other machines send."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.trajectory import save_trajectory
from pytest_vla.run.xdist.ray_workers import Incoming
from tests.support.point_episodes import SLOW, a_policy, run


def content(folder: Path, outcome: str) -> bytes:
    """A trajectory's file of an episode that ended so."""
    place = folder / "made.npz"
    save_trajectory(place, run(a_policy(lambda observation: SLOW), max_steps=2).trajectory, outcome)
    found = place.read_bytes()
    place.unlink()
    return found


def test_a_file_comes_in_parts_and_is_whole_or_not_there(tmp_path: Path) -> None:
    incoming, data = Incoming(tmp_path / "run"), content(tmp_path, "success")
    incoming.add("gw0", "suite/one.npz", data[:100], False)
    assert not (tmp_path / "run").exists()
    incoming.add("gw1", "suite/one.npz", data[:50], False)
    incoming.add("gw0", "suite/one.npz", data[100:], True)
    assert (tmp_path / "run/suite/one.npz").read_bytes() == data
    assert incoming.place("gw0", "suite/one.npz") == "suite/one.npz"
    incoming.forget("gw1")
    incoming.add("gw1", "suite/one.npz", data, True)
    assert incoming.place("gw1", "suite/one.npz") == "suite/one-repeat2.npz"


def test_what_came_to_its_end_is_not_replaced_and_its_video_goes_with_it(tmp_path: Path) -> None:
    incoming = Incoming(tmp_path)
    first, second = content(tmp_path, "failure"), content(tmp_path, "success")
    incoming.add("gw0", "suite/one.npz", first, True)
    # The second attempt may come before the first one's record is looked at.
    incoming.add("gw0", "suite/one.npz", second, True)
    incoming.add("gw0", "suite/one.mp4", b"film", True)
    assert incoming.place("gw0", "suite/one.npz") == "suite/one.npz"
    assert incoming.place("gw0", "suite/one.npz") == "suite/one-repeat2.npz"
    assert (tmp_path / "suite/one.npz").read_bytes() == first
    assert (tmp_path / "suite/one-repeat2.npz").read_bytes() == second
    assert (tmp_path / "suite/one-repeat2.mp4").read_bytes() == b"film"


def test_an_error_s_file_is_replaced(tmp_path: Path) -> None:
    incoming, second = Incoming(tmp_path), content(tmp_path, "success")
    incoming.add("gw0", "suite/one.npz", content(tmp_path, "error"), True)
    incoming.add("gw0", "suite/one.npz", second, True)
    assert (tmp_path / "suite/one.npz").read_bytes() == second


@pytest.mark.parametrize("name", ["../out.npz", "/elsewhere/out.npz", "suite/../../out.npz", "a\nb.npz"])
def test_nothing_is_written_outside_of_the_run(tmp_path: Path, name: str) -> None:
    incoming = Incoming(tmp_path / "run")
    incoming.add("gw0", name, b"anything", True)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(VlaError, match="lies outside of the run's folder"):
        incoming.place("gw0", name)


def test_a_disk_that_takes_nothing_is_told_where_the_record_is_kept(tmp_path: Path) -> None:
    (tmp_path / "suite").write_text("a file")
    incoming = Incoming(tmp_path)
    incoming.add("gw0", "suite/one.npz", b"anything", True)
    with pytest.raises(VlaError, match="cannot write records"):
        incoming.place("gw0", "suite/one.npz")
