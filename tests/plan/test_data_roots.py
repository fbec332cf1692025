"""Roots in their order, and errors that say what was looked for and where."""

import sys
from pathlib import Path

import pytest

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import data_roots, find_file, relative_name
from pytest_vla.plan.manifests import suite_folder


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variables, no config file, no package."""
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path / "no-config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _libero(folder: Path, *files: str) -> Path:
    for kind in ("assets", "bddl_files", "init_files"):
        (folder / kind).mkdir(parents=True)
    for name in files:
        path = folder / "assets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_order_of_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option = _libero(tmp_path / "option" / "libero", "a.xml").parent
    variable = _libero(tmp_path / "variable", "a.xml", "b.xml")
    configured = _libero(tmp_path / "configured", "a.xml", "b.xml", "c.xml")
    package = tmp_path / "site" / "libero"
    _libero(package / "libero", "a.xml", "b.xml", "c.xml", "d.xml")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(variable))
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.yaml").write_text(
        f"# made by LIBERO\nassets: '{configured}/assets'\nbddl_files: {configured}/bddl_files # here\n"
        f"datasets: /nowhere\ninit_states: {configured}/init_files\n"
    )
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(config))
    monkeypatch.syspath_prepend(str(package.parent))
    (package / "__init__.py").write_text("raise RuntimeError('importing it asks on standard input')")
    roots = data_roots(option)
    origins = [root.origin.split()[0] for root in roots]
    assert origins == ["--vla-data", "PYTEST_VLA_DATA", "LIBERO's", "installed", "suite", "suite"]
    homes = [find_file(roots, "assets", f"{name}.xml", "x") for name in "abcd"]
    assert homes == [
        option / "libero" / "assets" / "a.xml",
        variable / "assets" / "b.xml",
        configured / "assets" / "c.xml",
        package / "libero" / "assets" / "d.xml",
    ]
    assert roots[2].init_files == configured / "init_files"
    assert "libero" not in sys.modules
    assert relative_name(roots, homes[2]) == "c.xml"
    assert relative_name(roots, tmp_path / "elsewhere.xml") is None


def test_a_checkout_of_libero_is_a_root(tmp_path: Path) -> None:
    _libero(tmp_path / "LIBERO" / "libero" / "libero")
    assert data_roots(tmp_path / "LIBERO")[0].bddl_files == tmp_path / "LIBERO" / "libero" / "libero" / "bddl_files"


def test_hf_libero_downloads_its_assets_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "libero"
    (package / "libero" / "bddl_files").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    downloaded = tmp_path / "home" / ".cache" / "libero" / "assets"
    downloaded.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(package.parent))
    root, *_ = data_roots()
    assert root.assets == downloaded


def test_a_missing_file_names_what_for_and_where(tmp_path: Path) -> None:
    roots = data_roots(_libero(tmp_path / "data"))
    with pytest.raises(SceneError) as caught:
        find_file(roots, "assets", "turbosquid_objects/moka_pot/moka_pot.xml", "object moka_pot_1")
    message = str(caught.value)
    assert "assets/turbosquid_objects/moka_pot/moka_pot.xml: not found, needed for object moka_pot_1" in message
    assert f"{tmp_path / 'data' / 'assets'} (--vla-data)" in message
    assert "PYTEST_VLA_DATA" in message


def test_suites_that_bring_their_own_data_are_the_last_roots() -> None:
    roots = data_roots()
    names = ["tabletop", "tabletop_safety"]
    assert [(root.suite, root.origin) for root in roots] == [(name, f"suite {name}") for name in names]
    arena = find_file(roots, "assets", "scenes/tabletop.xml", "the arena")
    assert arena == suite_folder("tabletop") / "assets" / "scenes" / "tabletop.xml"


def test_an_error_does_not_send_anyone_to_a_suites_own_folder(tmp_path: Path) -> None:
    for roots in (data_roots(), data_roots(_libero(tmp_path / "data"))):
        with pytest.raises(SceneError) as caught:
            find_file(roots, "assets", "scenes/libero_tabletop_base_style.xml", "the arena")
        assert "suites" not in str(caught.value)
        assert "suite tabletop" not in str(caught.value)


def test_without_any_root_the_error_says_how_to_give_one() -> None:
    with pytest.raises(SceneError, match=r"nothing, since no data folder was given or found.*--vla-data.*hf-libero"):
        find_file(data_roots(), "bddl_files", "libero_goal/x.bddl", "task x")


@pytest.mark.parametrize("given", ["missing", "empty"])
def test_a_wrong_folder_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SceneError, match=rf"{given}: --vla-data names a folder (that does not exist|without assets/)"):
        data_roots(tmp_path / given)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("assets: /x\nassets", "cannot be read: .*line 3"),
        ("assets: /x\n  nested: x", "cannot be read: .*line 2"),
        ("assets: /x\n- a list", "cannot be read: .*line 2"),
        ("- a list", r"expected lines of `key: folder`, found \['a list'\]"),
        ("assets: {nested: x}", "expected `key: folder`, found 'assets': {'nested': 'x'}"),
        ("assets: 3", "expected `key: folder`, found 'assets': 3"),
        ("a: &a [x, x]\nb: &b [*a, *a]\n" + "c: " + "[" * 900, "cannot be read: it is nested deeper"),
    ],
)
def test_a_config_file_of_another_form_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"{text}\n")
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path))
    with pytest.raises(SceneError, match=rf"config\.yaml: .*{complaint}"):
        data_roots()


def test_a_users_task_without_its_files_is_told_how_they_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    roots = data_roots(_libero(folder))
    with pytest.raises(SceneError, match=r"mine.bddl: not found, .* Put mine.bddl into bddl_files/tabletop of"):
        find_file(roots, "bddl_files", "tabletop/mine.bddl", "task mine")
    command = r"pytest-vla init-states --suite=tabletop --data=DIR mine$"
    with pytest.raises(SceneError, match=command):
        find_file(roots, "init_files", "tabletop/mine.pruned_init", "task mine")
    (folder / "bddl_files" / "tabletop").mkdir()
    (folder / "bddl_files" / "tabletop" / "mine.bddl").touch()
    with pytest.raises(SceneError, match=rf"Make them: .* --data={folder} mine$"):
        find_file(roots, "init_files", "tabletop/mine.pruned_init", "task mine")
    with pytest.raises(SceneError, match="fetch libero"):
        find_file(roots, "init_files", "libero_goal/mine.pruned_init", "task mine")
