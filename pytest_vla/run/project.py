"""The project's ini file, for code outside of pytest: the ``pytest-vla`` command, and readers of a run's results."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.run.constants import MODELS_KEY
from pytest_vla.util.files import expanded

if TYPE_CHECKING:
    from pytest_vla.policies.spec import ModelSpec

RESULTS_KEY = "vla_results"


@dataclass(frozen=True)
class Project:
    """A project, as pytest finds it if it is started without paths.

    Attributes:
        folder: pytest's rootdir.
        results: the folder of all runs.
        models: the project's own names for policies.
    """

    folder: Path
    results: Path
    models: dict[str, str] = field(default_factory=dict)

    def model(self, typed: str, here: Path) -> tuple[str, Path]:
        """Return the policy that the text of ``--vla-model`` means, and the folder for its paths and modules.

        Args:
            typed: the text.
            here: the folder in which it was given.
        """
        return (self.models[typed], self.folder) if typed in self.models else (typed, here)


def typed_model(named: str, device: str | None = None) -> "ModelSpec":
    """Return the policy of a command's ``--vla-model``, given in the current folder.

    Args:
        named: the text.
        device: the value of ``--vla-device``, or None for the first device.

    Raises:
        VlaError: the project's ini file cannot be read.
    """
    from pytest_vla.policies.devices import AUTO
    from pytest_vla.policies.spec import ModelSpec

    project = find_project(Path.cwd())
    text, folder = project.model(named, Path.cwd())
    # Another process that uses this policy loads the modules of -p too.
    plugins = hook_modules.consented()
    return ModelSpec(text, folder, device or AUTO, names=tuple(project.models), plugins=plugins)


def untyped_model(
    named: str, device: str | None, sources: Sequence[Path], doing: str, flag: str = "--vla-model"
) -> "ModelSpec":
    """Return the policy that a file of results names, and that nobody typed, for a command in the current folder.

    Args:
        named: the text, which may be a name of the project's ini file: then the project says what it means.
        device: as for `typed_model`.
        sources, doing: as for `pytest_vla.policies.load.check_untyped`.
        flag: the option by which the user names the policy.

    Raises:
        VlaError: it has to be typed, or the project's ini file cannot be read.
    """
    from pytest_vla.policies.load import check_untyped

    spec, project = typed_model(named, device), find_project(Path.cwd())
    return (
        spec
        if named in project.models
        else check_untyped(spec, project.folder, sources, doing, f"{flag}={shlex.quote(named)}")
    )


def find_project(here: Path) -> Project:
    """Find the project of a folder. Raises VlaError if its ini file cannot be read or parsed."""
    # pytest has no public way to read its ini file without loading all plugins and the project's conftest.py.
    from _pytest.config.exceptions import UsageError
    from _pytest.config.findpaths import locate_config

    try:
        folder, file, table = locate_config(here, [here])[:3]
    except (UsageError, OSError, UnicodeDecodeError) as error:
        raise VlaError(f"pytest's ini file cannot be read: {error}") from error
    if folder is None:
        folder = next((each for each in (here, *here.parents) if (each / "setup.py").is_file()), here)
    # Plain values before pytest 9.
    values: dict[str, Any] = {key: getattr(value, "value", value) for key, value in table.items()}
    results = values.get(RESULTS_KEY, "")
    if not isinstance(results, str):
        raise VlaError(f"{file}: {RESULTS_KEY} = {results!r}: expected a text")
    lines = values.get(MODELS_KEY, ())
    lines = [line for line in map(str.strip, lines.split("\n")) if line] if isinstance(lines, str) else lines
    results = results.strip() or DEFAULT_RESULTS
    return Project(folder, folder / (expanded(results) or results), named_models(lines, file))


def named_models(lines: Sequence[Any], file: Path | None) -> dict[str, str]:
    """Return the policies that an ini file names, one ``NAME = POLICY`` a line.

    Args:
        lines: the value of `MODELS_KEY`.
        file: the file's name for error messages.

    Raises:
        VlaError: a line has another form.
    """
    models = {}
    for line in lines:
        name, separator, text = (part.strip() for part in str(line).partition("="))
        if not separator or re.fullmatch(r"[\w.-]+", name) is None or not text:
            raise VlaError(f"{file}: {MODELS_KEY}: expected NAME = POLICY, got {line!r}")
        models[name] = text
    for name, text in models.items():
        base = text.partition("?")[0]
        if base in models and base != name:
            raise VlaError(
                f"{file}: {MODELS_KEY}: {name} = {text}, but {base} is itself a name of this file; write its policy: "
                f"{models[base]}"
            )
    return models
