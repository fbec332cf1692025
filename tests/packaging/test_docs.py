"""What README.md and docs/ show works as it stands there: see tests/support/pages.py for how blocks are marked."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from pytest_vla import extensions, plugin
from pytest_vla.cli import command_of, parser_of
from pytest_vla.entries import NAMES
from pytest_vla.errors import VlaError
from pytest_vla.hook_modules import GROUP
from pytest_vla.plan.manifests import is_suite, suite_names
from pytest_vla.policies.load import find_kind
from pytest_vla.run.constants import LIST, MODELS_KEY
from pytest_vla.run.marker import EXAMPLE
from pytest_vla.run.options import OPTIONS
from pytest_vla.util.extras import DEBIAN
from pytest_vla.vary.registry import parse_vary
from pytest_vla.versions import SUPPORTED
from scripts.reference_pages import PAGES as GENERATED
from scripts.reference_pages import write_pages
from tests.support.data import REPOSITORY
from tests.support.pages import REFERENCE, Block, anchors, blocks, one_blank, output_pattern, pages, prose

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
MAKEFILE = (REPOSITORY / "Makefile").read_text()
QUICK = {
    "README.md",
    *(f"docs/how-to/{page}.md" for page in ("import", "language", "policy", "run", "scenes", "variations")),
}
"""Pages whose commands are run in every run of the tests; those of all others take longer."""

LANGUAGES = {"bash", "python", "ini", "yaml", "toml", "text"}


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def at(block: Block) -> str:
    return block.where


def is_run(block: Block) -> bool:
    return block.exit_code is not None or block.language == "python"


# What is run.


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (name_of(page) not in QUICK))
        for page in PAGES
        if any(map(is_run, blocks(page)))
    ],
)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    """From the first block to the last, in one folder, as a reader would do it."""
    said = ""
    for block in blocks(page):
        if block.file:
            written = tmp_path / block.file
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text((written.read_text() + "\n\n" if block.appended else "") + block.text)
        elif block.language == "python":
            said = run(["python", "-c", block.text], tmp_path, block, 0)
        elif block.exit_code is not None:
            *first, last = block.commands
            for words in first:
                run(words, tmp_path, block, 0)
            said = run(last, tmp_path, block, block.exit_code)
        elif block.told == "output":
            assert re.search(output_pattern(block.text), one_blank(said)), f"{block.where}: what was printed is\n{said}"


def run(words: list[str], folder: Path, block: Block, exit_code: int) -> str:
    """What a command printed."""
    programs = {"pytest": ("-m", "pytest"), "pytest-vla": ("-m", "pytest_vla.cli"), "python": ()}
    # Of a reader's own machine; compiled scenes are this one's.
    ours = {name for name in os.environ if name.startswith("PYTEST_")} - {"PYTEST_VLA_CACHE"} | {"COLUMNS"}
    environ = {name: value for name, value in os.environ.items() if name not in ours}
    command = (sys.executable, *programs[words[0]], *words[1:])
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert ended.returncode == exit_code, f"{block.where}: {' '.join(words)}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


# What is understood.


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "bash" and not is_run(b)], ids=at)
def test_every_command_is_understood(block: Block, pytester: pytest.Pytester) -> None:
    assert block.commands, "a block without a command"
    for words in block.commands:
        while words and re.fullmatch(r"[A-Z_]+=\S+", words[0]):
            check_variable(words.pop(0))
        if words:
            check_command(words, pytester)


def check_command(words: list[str], pytester: pytest.Pytester) -> None:
    program, *arguments = words
    if program == "pytest":
        # Of allure-pytest, which is not there.
        check_pytest(pytester.parseconfig(*(each for each in arguments if not each.startswith("--alluredir="))))
    elif program == "pytest-vla":
        entry = extensions.commands()[arguments[0]]
        parser_of(entry, command_of(entry)).parse_args(arguments[1:])
    elif program == "make":
        assert [target for target in arguments if f"\n{target}:" not in MAKEFILE] == []
    elif program == "python3" or program.endswith("python"):
        check_python(arguments)
    elif program == "pip":
        check_pip(arguments)
    elif program == "apt-get":
        assert " ".join(word for word in words if word != "-y") in (DEBIAN, "apt-get update")
    elif program == "ray":
        assert arguments[0] in ("start", "get-auth-token")
    elif program == "export":
        check_variable(arguments[0])
    else:
        assert program in ("ssh", "source", "git", "gh"), f"{program} is no command that a test understands"


def check_pytest(config: pytest.Config) -> None:
    """Of the options that are taken apart later than the command line, what only they say."""
    assert all(map(is_suite, config.getoption("vla_suite") or ()))
    vary, model = config.getoption("vla_vary"), config.getoption("vla_model")
    if vary and vary != LIST:
        parse_vary(vary)
    if model:
        name, _, rest = model.partition("?")[0].partition(":")
        name, at, checkpoint = name.partition("@")
        kind = find_kind(name)
        assert kind is not None or rest.isidentifier(), model
        assert not at or (kind is not None and checkpoint in kind.checkpoints), model


def check_python(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None, arguments[1]
    else:
        assert (REPOSITORY / arguments[0]).is_file(), arguments[0]


def check_pip(arguments: list[str]) -> None:
    for argument in arguments:
        if match := re.fullmatch(r"(?:pytest-vla|\.)\[(.+)\]", argument):
            assert set(match[1].split(",")) <= set(PROJECT["project"]["optional-dependencies"])
        elif match := re.fullmatch(r"mujoco==(.+)", argument):
            assert match[1] in SUPPORTED["mujoco"]
        elif argument.endswith(".txt"):
            assert (REPOSITORY / argument).is_file()


def check_variable(text: str) -> None:
    name = text.partition("=")[0]
    known = {"PYTHONPATH", "MUJOCO_GL"}
    assert name in known or any(name in path.read_text() for path in (REPOSITORY / "pytest_vla").rglob("*.py")), name


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml" and not block.file], ids=at)
def test_every_entry_point_is_of_a_group_that_is_read(block: Block) -> None:
    groups = set(tomllib.loads(block.text)["project"]["entry-points"])
    assert groups
    assert groups <= {GROUP}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "ini"], ids=at)
def test_every_ini_file_has_keys_that_are_there(block: Block) -> None:
    parser = ConfigParser()
    parser.read_string(block.text)
    ours = {key for key in parser["pytest"] if key.startswith("vla")}
    assert ours
    assert ours <= ini_keys()


def ini_keys() -> set[str]:
    return {MODELS_KEY, *(option.key for option in OPTIONS if option.ini is not None)}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=at)
def test_every_workflow_has_commands_that_are_understood(block: Block, pytester: pytest.Pytester) -> None:
    document = yaml.safe_load(block.text)
    jobs = document.get("jobs", {}).values()
    asked = [step for job in jobs for step in job["steps"]]
    steps = [step["run"] for step in asked if "run" in step]
    # Of pre-commit.
    steps += [hook["entry"] for repository in document.get("repos", ()) for hook in repository["hooks"]]
    # Of GitLab.
    others = [job for job in document.values() if isinstance(job, dict) and "script" in job]
    steps += [line for job in others for line in (*job.get("before_script", ()), *job["script"])]
    ours = [step["with"] for step in asked if "/pytest-vla@" in step.get("uses", "")]
    inputs = yaml.safe_load((REPOSITORY / "action.yml").read_text())["inputs"]
    assert all(given.keys() <= inputs.keys() for given in ours)
    assert steps or ours
    for step in steps:
        for words in Block(block.page, block.line, "bash", "", "", step).commands:
            check_command([word for word in words if word != "sudo"], pytester)


def test_every_input_of_the_action_is_on_its_page() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "ci.md").read_text()
    inputs = yaml.safe_load((REPOSITORY / "action.yml").read_text())["inputs"]
    rows = [row.split("|") for row in re.findall(r"^\| `.+$", page.partition("| input |")[2], re.M)]
    told = {name: cells[3] for cells in rows for name in re.findall(r"`([\w-]+)`", cells[1])}
    assert inputs.keys() <= told.keys()
    defaults = {name: about.get("default", "") for name, about in inputs.items()}
    assert [name for name, text in defaults.items() if text and f"`{text}`" not in told[name]] == []


def test_no_block_is_left_out() -> None:
    """Each is run, understood, or says that it is a drawing."""
    assert [block.where for block in BLOCKS if block.language not in LANGUAGES] == []
    texts = [block for block in BLOCKS if block.language == "text"]
    assert [block.where for block in texts if block.told not in ("output", "drawing") and not block.file] == []
    told = {"", "output", "drawing"}
    assert [b.where for b in BLOCKS if b.told not in told and b.exit_code is None] == []
    assert sum(page.read_text().count("```") for page in PAGES) == 2 * len(BLOCKS)


# What is named.


def told(page: Path) -> str:
    return page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_and_command_named_is_there(page: Path) -> None:
    text = told(page)
    assert set(re.findall(r"--vla-[a-z-]*[a-z]", text)) <= {option.flag for option in OPTIONS}
    # VLA-Arena's suites begin as our ini keys do.
    named = {name for name in re.findall(r"`(vla_[a-z_]+)", text) if not is_suite(name)}
    assert named - {*plugin.__all__} <= ini_keys(), "neither a fixture nor an ini key"
    named = set(re.findall(r"`pytest-vla ([a-z][a-z-]*)", prose(page)))
    assert named <= {*extensions.commands()}
    targets = re.findall(r"`make ([a-z-]+)", text)
    assert [target for target in targets if f"\n{target}:" not in MAKEFILE] == []
    modules = re.findall(r"python -m ([a-z_.]+)", text)
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    files = re.findall(r"`(?:python |pytest |)((?:benchmarks|tests|scripts|suites|pytest_vla)/[\w./]+)", text)
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


def test_every_command_is_on_a_page_and_every_suite_too() -> None:
    text = "".join(map(told, PAGES))
    assert {name for name in extensions.commands() if f"pytest-vla {name}" not in text} == set()
    assert {name for name in suite_names() if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_variation_named_is_there(page: Path) -> None:
    names = re.findall(
        r"`((?:layout|background|light|camera|robot|noise|language|action|pro|arena)\.[a-z_]+[:0-9-]*)`", told(page)
    )
    for name in names:
        try:
            parse_vary(name)
        except VlaError as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path, reference: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", link):
            continue
        target, _, anchor = link.partition("#")
        found = page if not target else (page.parent / target).resolve()
        if found.parent == REFERENCE and found.name in GENERATED:
            found = reference / found.name
        assert found.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(found.read_text()), f"{link} leads to no section"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_picture_is_small(page: Path) -> None:
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", told(page))
    assert [name for name in shown if not 0 < (page.parent / name).stat().st_size <= 300_000] == []


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r"[\w./-]+\.md", (REPOSITORY / "mkdocs.yml").read_text())
    written = {str(page.relative_to(REPOSITORY / "docs")) for page in PAGES if page.name != "README.md"}
    assert sorted(menu) == sorted(written | {f"reference/{name}" for name in GENERATED})


# What is single.


def test_the_readme_is_short_and_begins_with_what_runs() -> None:
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    first_screen = "\n".join(lines[:30])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    assert "![" in first_screen


def test_the_marker_example_is_the_error_s() -> None:
    assert any(EXAMPLE in block.text for block in BLOCKS if block.language == "python")


def test_the_drawing_has_every_room_in_its_place() -> None:
    """From the roof to the ground, in a row from left to right, as import-linter has them; it wants every module."""
    drawn = re.findall(
        r'text-anchor="middle"[^>]*>(\w+)<', (REPOSITORY / "docs" / "explanation" / "rooms.svg").read_text()
    )
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    assert drawn == [room.strip() for layer in layers for room in layer.split("|")]


# What is made from the code.


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    write_pages(folder)
    return folder


def test_the_reference_has_all_that_the_code_has(reference: Path) -> None:
    from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
    from pytest_vla.policies.fit import CODES
    from pytest_vla.records.record import Record
    from pytest_vla.vary.registry import kinds

    page = {name: (reference / name).read_text() for name in GENERATED}
    assert [option.flag for option in OPTIONS if f"## {option.flag}\n" not in page["options.md"]] == []
    assert [
        key for key in ini_keys() if f"`{key}`" not in page["options.md"] and f"## {key}" not in page["options.md"]
    ] == []
    assert [kind.name for kind in kinds() if f"| `{kind.name}` |" not in page["variations.md"]] == []
    codes = [*ERROR_REASONS, *INVALID_REASONS, *CODES]
    assert [code for code in codes if f"| `{code}` |" not in page["codes.md"]] == []
    assert [name for name in Record.__dataclass_fields__ if f"| `{name}` |" not in page["records.md"]] == []
    assert [name for name in extensions.commands() if f"usage: pytest-vla {name} " not in page["commands.md"]] == []
    assert "usage: pytest-vla baseline update " in page["commands.md"], "commands of commands too"
    assert [name for name in suite_names() if f"| `{name}` |" not in page["suites.md"]] == []
    assert page["hooks.md"].count("digits") == page["hooks.md"].count(f"their names are of {NAMES}.") == 1, (
        "as errors say"
    )


@pytest.mark.parametrize("name", GENERATED)
def test_the_reference_in_the_repository_is_what_the_code_says(name: str, reference: Path) -> None:
    if name == "commands.md" and sys.version_info[:2] != (3, 11):
        pytest.skip("argparse writes its help in another form")
    made = (reference / name).read_text()
    assert (REFERENCE / name).read_text() == made, "run: python scripts/reference_pages.py docs/reference"
    assert re.findall(r"/(?:root|home|work|tmp|Users)/|\b20\d\d-\d\d-\d\d\b", made) == []


def test_the_reference_has_what_each_kind_edits_and_takes(reference: Path) -> None:
    page = (reference / "variations.md").read_text()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page.splitlines() if row.startswith("| `")]
    edits = {row[0].strip("`"): row[3] for row in rows if len(row) == 6}
    assert [name for name, edit in edits.items() if not edit] == []
    assert (edits["camera.azimuth"], edits["noise.fog"], edits["robot.joints"]) == ("model", "pictures", "state")
    assert ["`camera.azimuth`", "`azimuth_deg`", "number, -75 to 75 deg", "`0.0`"] in rows
    from pytest_vla.vary.registry import kinds

    without = {name for name in edits if [f"`{name}`"] not in [row[:1] for row in rows if len(row) == 4]}
    of_files = {kind.name for kind in kinds() if kind.needs_files or kind.dimension == "pro"}
    assert without == of_files | {"language.blank"}, "a blank has no parameter"


def test_every_row_of_the_reference_has_as_many_cells_as_its_table(reference: Path) -> None:
    for name in GENERATED:
        for table in re.findall(r"(?:^\|.*\n)+", (reference / name).read_text(), re.MULTILINE):
            assert len({row.count("|") for row in table.splitlines()}) == 1, f"{name}: {table}"
