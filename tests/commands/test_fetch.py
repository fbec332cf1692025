"""LIBERO's data is fetched with consent, whole or not at all, from a hub that is played."""

import hashlib
import os
import sys
import threading
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.commands import fetch
from pytest_vla.commands.fetch import RECEIPT, REPOSITORY, DataSetListing, HubFile, Sources, fetch_libero
from pytest_vla.errors import VlaError
from pytest_vla.plan.data_roots import data_roots
from pytest_vla.plan.manifests import KINDS, load_suite
from tests.support.hub_files import CONTENT, REVISION, hub_file, make_wheel
from tests.support.waiting import HANG


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_wheel(tmp_path / "made", monkeypatch)


@dataclass
class Fake:
    """A hub without a network: what it has, what it was asked for, and how many files it gives before it fails."""

    wheel: Path
    content: dict[str, bytes] = field(default_factory=lambda: dict(CONTENT))
    gives: int = 1000
    asked: list[str] = field(default_factory=list)

    @property
    def sources(self) -> Sources:
        return Sources("https://hub.example", self.listing, self.assets, self.package)

    def listing(self) -> DataSetListing:
        self.asked.append("listing")
        return DataSetListing(
            REVISION, "cc-by-4.0", tuple(hub_file(name, content) for name, content in CONTENT.items())
        )

    def assets(self, revision: str, folder: Path) -> None:
        assert revision == REVISION
        for name, content in self.content.items():
            if (folder / name).exists():
                continue
            if self.gives == 0:
                raise ConnectionError("the line is dead\nsecond line")
            self.gives -= 1
            self.asked.append(name)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / ".cache" / "huggingface").mkdir(parents=True, exist_ok=True)

    def package(self, folder: Path) -> Path:
        self.asked.append("package")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.wheel.name).write_bytes(self.wheel.read_bytes())
        return folder / self.wheel.name


@pytest.fixture
def hub(wheel: Path) -> Fake:
    return Fake(wheel)


def unasked(question: str) -> str:
    raise AssertionError(question)


def names_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_all_of_it_arrives_where_the_roots_find_it(hub: Fake, tmp_path: Path) -> None:
    said: list[str] = []
    folder = fetch_libero(tmp_path / "libero", True, said.append, unasked, hub.sources)
    assert folder == tmp_path / "libero"
    for name, content in CONTENT.items():
        assert (folder / "assets" / name).read_bytes() == content
    tasks = [task.name for task in load_suite("libero_goal").tasks]
    wanted = {f"assets/{name}" for name in CONTENT} | {RECEIPT}
    wanted |= {f"bddl_files/libero_goal/{name}.bddl" for name in tasks}
    wanted |= {f"init_files/libero_goal/{name}.pruned_init" for name in tasks}
    assert names_under(folder) == wanted, "nothing else: no code of the package, no notes of the client"
    root = data_roots(folder)[0]
    assert [root.folder(kind) for kind in KINDS] == [folder / kind for kind in KINDS]
    assert sorted(os.listdir(tmp_path)) == ["libero", "made"]
    assert f"--vla-data={folder}" in said[-1]


def test_it_says_what_comes_from_where_before_it_asks(hub: Fake, tmp_path: Path) -> None:
    said: list[str] = []

    def ask(question: str) -> str:
        assert hub.asked == ["listing"], "nothing is downloaded yet"
        said.append(question)
        return " Yes\n"

    fetch_libero(tmp_path / "libero", False, said.append, ask, hub.sources)
    notice = said[0]
    for fact in (
        f"https://hub.example/datasets/{REPOSITORY}",
        "5 files, 0.0 MB",
        "cc-by-4.0",
        "MIT",
        "hf-libero==0.1.4",
    ):
        assert fact in notice
    assert str(tmp_path / "libero") in notice
    assert said[1].startswith("Download it?")


@pytest.mark.parametrize("answer", ["", "n", "no", "yeah", None])
def test_without_consent_nothing_is_downloaded(hub: Fake, tmp_path: Path, answer: str | None) -> None:
    def ask(question: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    with pytest.raises(VlaError, match="nothing was fetched"):
        fetch_libero(tmp_path / "libero", False, str, ask, hub.sources)
    assert hub.asked == ["listing"]
    assert os.listdir(tmp_path) == ["made"]


def test_where_nobody_can_be_asked_the_hub_is_not_even_called(hub: Fake, tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"not a terminal, so the command cannot ask\. Use --yes"):
        fetch_libero(tmp_path / "libero", False, str, None, hub.sources)
    assert hub.asked == []


def test_what_is_complete_is_not_fetched_again(hub: Fake, tmp_path: Path) -> None:
    folder = fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    hub.asked.clear()
    said: list[str] = []
    assert fetch_libero(folder, False, said.append, None, hub.sources) == folder
    assert hub.asked == []
    assert "already" in said[0]
    (folder / "assets" / "scenes" / "table.xml").unlink()
    with pytest.raises(VlaError, match="was not made by `pytest-vla fetch`"):
        fetch_libero(folder, True, str, None, hub.sources)


def test_a_download_that_stopped_goes_on(hub: Fake, tmp_path: Path) -> None:
    hub.gives = 2
    with pytest.raises(VlaError) as told:
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert "the download stopped: ConnectionError: the line is dead. Without a network, set" in str(told.value)
    assert not (tmp_path / "libero").exists()
    had = hub.asked[1:]
    hub.gives = 1000
    hub.asked.clear()
    folder = fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert set(hub.asked) == (CONTENT.keys() - set(had)) | {"listing", "package"}
    assert (folder / RECEIPT).exists()
    assert not (tmp_path / "libero.part").exists()


def test_what_arrives_damaged_is_not_taken_and_comes_again(hub: Fake, tmp_path: Path) -> None:
    damaged = "stable_scanned_objects/plate/plate.msh"
    hub.content[damaged] = CONTENT[damaged][:-1] + b"!"
    hub.content["scenes/table.xml"] = b"<mujoco/"
    with pytest.raises(VlaError, match=r"2 of 5 files differ from .*Fetch again"):
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert not (tmp_path / "libero").exists()
    hub.content = dict(CONTENT)
    hub.asked.clear()
    fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert hub.asked == ["listing", "scenes/table.xml", damaged, "package"]


def test_a_package_that_is_another_is_not_unpacked(hub: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PACKAGE_SHA256", "0" * 64)
    with pytest.raises(VlaError, match="has a wrong SHA-256"):
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert not (tmp_path / "libero.part" / "bddl_files").exists()


def test_a_package_without_a_task_is_told(hub: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(hub.wheel, "w") as archive:
        archive.writestr("libero/libero/bddl_files/libero_goal/turn_on_the_stove.bddl", "(define)")
    monkeypatch.setattr(fetch, "PACKAGE_SHA256", hashlib.sha256(hub.wheel.read_bytes()).hexdigest())
    with pytest.raises(VlaError, match=r"has no bddl_files/libero_goal/open_the_middle_drawer_of_the_cabinet.bddl"):
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert not (tmp_path / "libero").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"README": b""}, "is not LIBERO's assets"),
        ({**CONTENT, "scenes/../../x": b""}, r"lists 'scenes/\.\./\.\./x', a file outside its folder"),
        ({**CONTENT, "/etc/x": b""}, "lists '/etc/x', a file outside its folder"),
        ({**CONTENT, "": b""}, "lists '', a file outside its folder"),
        ({**CONTENT, "scenes//x": b""}, "lists 'scenes//x', a file outside its folder"),
        ({**CONTENT, "scenes/\x1b[2J": b""}, r"lists 'scenes/\\x1b\[2J', which is not a valid name of a LIBERO file"),
        ({**CONTENT, "scenes\\x": b""}, "which is not a valid name of a LIBERO file"),
        ({**CONTENT, "scenes/" + "x" * 600: b""}, "which is not a valid name of a LIBERO file"),
        ({**CONTENT, "scenes/table.xml/x": b""}, "lists 'scenes/table.xml/x', a file twice"),
        ({**CONTENT, ".cache/huggingface/x": b""}, "which is reserved for the hub's client"),
    ],
)
def test_a_data_set_that_is_another_is_refused_before_the_question(
    hub: Fake, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    listing = DataSetListing(REVISION, None, tuple(hub_file(name, content) for name, content in files.items()))
    with pytest.raises(VlaError, match=message):
        fetch_libero(tmp_path / "libero", False, str, unasked, replace(hub.sources, listing=lambda: listing))


def test_a_folder_of_somebody_else_is_left_alone(hub: Fake, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("mine", "file"):
        with pytest.raises(VlaError, match=f"{name} exists already"):
            fetch_libero(tmp_path / name, True, str, None, hub.sources)
    assert hub.asked == []


@pytest.mark.parametrize("odd", [{"size": -1}, {"digest": "../x"}, {"algorithm": "md5"}])
def test_a_listing_without_sizes_or_digests_is_refused(hub: Fake, tmp_path: Path, odd: dict[str, Any]) -> None:
    first, *others = hub.listing().files
    listing = DataSetListing(REVISION, None, (replace(first, **odd), *others))
    with pytest.raises(VlaError, match="without its size and digest"):
        fetch_libero(tmp_path / "libero", True, str, None, replace(hub.sources, listing=lambda: listing))


def test_a_link_in_the_place_of_the_folder_that_is_filled_is_refused(hub: Fake, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "libero.part").symlink_to(tmp_path / "home")
    with pytest.raises(VlaError, match=r"libero\.part is a link or no folder, so it is not safe to write to"):
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert not any((tmp_path / "home").iterdir())


def test_a_folder_of_another_user_is_refused(hub: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libero.part").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(VlaError, match=r"libero\.part is another user's"):
        fetch_libero(tmp_path / "libero", True, str, None, hub.sources)


def test_what_nobody_listed_does_not_stay(hub: Fake, tmp_path: Path) -> None:
    part, home = tmp_path / "libero.part", tmp_path / "home"
    (part / "assets" / "scenes").mkdir(parents=True)
    home.mkdir()
    (part / "assets" / "scenes" / "evil.xml").write_text("<mujoco/>")
    (part / "conftest.py").write_text("raise SystemExit")
    (part / "assets" / "turbosquid_objects").symlink_to(home)
    (part / "assets" / "scenes" / "table.xml").symlink_to(home / "table.xml")
    (part / ".lock").symlink_to(home / "lock")
    hub.content["unlisted/x"] = b"x"
    folder = fetch_libero(tmp_path / "libero", True, str, None, hub.sources)
    assert not any(home.iterdir())
    assert names_under(folder / "assets") == {*CONTENT}
    assert not (folder / "conftest.py").exists()
    assert not [path for path in folder.rglob("*") if path.is_symlink()]


def test_of_two_that_fetch_one_does_and_the_other_waits(hub: Fake, tmp_path: Path) -> None:
    folder, there = tmp_path / "data" / "libero", threading.Event()
    second = threading.Thread(
        target=fetch_libero, args=(folder, True, lambda said: there.set(), None, replace(hub.sources))
    )

    def while_it_is_filled(into: Path) -> Path:
        second.start()
        # It has asked the hub what there is: what is to be fetched is not complete.
        assert there.wait(HANG)
        return hub.package(into)

    assert fetch_libero(folder, True, str, None, replace(hub.sources, package=while_it_is_filled)) == folder
    second.join(HANG)
    assert not second.is_alive()
    assert hub.asked.count("package") == 1
    assert os.listdir(folder.parent) == ["libero"]
    assert sorted(os.listdir(folder)) == ["assets", "bddl_files", RECEIPT, "init_files"]


def test_a_disk_without_room_is_told_before_the_download(hub: Fake, tmp_path: Path) -> None:
    huge = DataSetListing(REVISION, None, (*hub.listing().files, HubFile("scenes/huge", 10**18, "sha256", "0" * 64)))
    with pytest.raises(VlaError, match=r"1000000000.0 GB needed, .* free"):
        fetch_libero(tmp_path / "libero", True, str, None, replace(hub.sources, listing=lambda: huge))
    assert "package" not in hub.asked


def test_a_folder_that_cannot_be_written_is_told(hub: Fake, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(VlaError, match=r"cannot write .*libero.part: "):
        fetch_libero(tmp_path / "file" / "libero", True, str, None, hub.sources)


def test_without_its_client_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["fetch", "libero", "--yes", f"--to={tmp_path / 'libero'}"]) == 1
    err = capsys.readouterr().err
    assert "pip install 'pytest-vla[fetch]'" in err
    assert "a checkout of LIBERO" in err


def test_the_folder_without_a_word_is_one_that_the_roots_find(
    hub: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTEST_VLA_DATA", "LIBERO_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    said: list[str] = []
    folder = fetch_libero(None, True, said.append, None, hub.sources)
    assert folder == tmp_path / "share" / "pytest-vla" / "libero"
    assert folder / "assets" in [root.assets for root in data_roots()]
    assert "Suites find it there" in said[-1]


def test_pip_brings_the_package_by_its_digest(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    assert fetch._download_package(tmp_path / "package").read_bytes() == wheel.read_bytes()
    monkeypatch.setattr(fetch, "PACKAGE_SHA256", "0" * 64)
    with pytest.raises(VlaError, match=r"pip cannot download hf-libero==0\.1\.4: "):
        fetch._download_package(tmp_path / "other")
    assert list((tmp_path / "other").glob("*.whl")) == []
