"""What an option is: all that is known of one, and how pytest is told of it. Light, as every project imports it."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import pytest

from pytest_vla.run.arguments import Joined

Value = TypeVar("Value")

Belongs = Literal["case", "run", "resumption", "invocation"]
"""To what an option belongs, which says what a resumed run does with it.

case: an episode's outcome depends on it; run: it says which episodes there are. A resumed run is the same in both.
resumption: how episodes are run and judged, as before where nothing else is said. invocation: of this call of pytest.
"""

RESUMED: Mapping[Belongs, str] = {
    "case": "A resumed run keeps it.",
    "run": "A resumed run keeps it.",
    "resumption": "A resumed run keeps it unless it is given again.",
    "invocation": "",
}
"""What a resumed run does with an option, for the reference page."""

KEPT: tuple[Belongs, ...] = ("case", "run")
"""To what those belong in which a resumed run is the same."""

_METADATA = "option"


# Methods that nobody calls take every project's time to make.
@dataclass(frozen=True, eq=False, repr=False)
class Option(Generic[Value]):
    """One ``--vla-NAME``, and the ini key ``vla_NAME`` where it has one.

    Attributes:
        name: as in ``--vla-NAME``; the attribute that has the value is called the same, with ``_``.
        help: for ``--help`` and the reference page.
        metavar: how its value is shown; None: a switch.
        parse: a text as the value. Raises ArgumentTypeError or VlaError. A relative path is relative to where it is
            said.
        default: the value where nothing is said; a relative path is relative to the rootdir.
        belongs: see `Belongs`.
        ini: the ini key's help; None: it has no key.
        bare: what the option means where it is given without a value; None: it needs one.
        joined: several of them mean all; of any other option the last stands.
        checked: what reads the text at pytest's start instead, where `parse` is more than every project shall wait for.
        write: the value as a text that `parse` reads.
        again: whether the command that runs one episode again has it as it was typed.
        asks: whether it asks for episodes by itself.
        into: the name of the option that it is another way to say; its value is kept there.
    """

    name: str
    help: str
    metavar: str | None
    parse: Callable[[str], Value]
    default: Value
    belongs: Belongs
    ini: str | None = None
    bare: str | None = None
    joined: bool = False
    checked: Callable[[str], Any] | None = None
    write: Callable[[Any], str] | None = None
    again: bool = False
    asks: bool = False
    into: str | None = None

    @property
    def attribute(self) -> str:
        """The attribute that has its value."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--vla-{self.name}"

    @property
    def key(self) -> str:
        """The ini key, and the name in pytest's options."""
        return f"vla_{self.attribute}"

    @property
    def kept_in(self) -> str:
        """The attribute that has its value, or that of the option that it is another way to say."""
        return self.attribute if self.into is None else self.into

    def text(self, value: Any) -> str:
        """A value of it as it could be typed; `parse` reads it."""
        if self.write is not None:
            return self.write(value)
        return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

    def typed(self, value: Any) -> str:
        """A value of it as pytest has it, as it could be typed: with the option."""
        return self.flag if self.metavar is None else f"{self.flag}={self.text(value)}"


def option(
    help: str,
    metavar: str,
    parse: Callable[[str], Value],
    *,
    default: Value,
    belongs: Belongs,
    ini: str | None = None,
    bare: str | None = None,
    joined: bool = False,
    checked: Callable[[str], Any] | None = None,
    write: Callable[[Any], str] | None = None,
    again: bool | None = None,
    asks: bool = False,
    into: str | None = None,
) -> Value:
    """An attribute of a table of options, see `Option`; what a case depends on is `again` unless it is said."""
    again = belongs == "case" if again is None else again
    declared = Option("", help, metavar, parse, default, belongs, ini, bare, joined, checked, write, again, asks, into)
    return _attribute(declared)


def switch(help: str, *, belongs: Belongs) -> bool:
    """Likewise, an option without a value: given or not."""
    return _attribute(Option("", help, None, bool, False, belongs, again=belongs == "case"))


def _attribute(declared: Option[Value]) -> Value:
    # dataclass takes what `field` gives; for types it is the value.
    value: Value = dataclasses.field(default=declared.default, metadata={_METADATA: declared})
    return value


def options_of(table: type) -> tuple[Option[Any], ...]:
    """The options of a table, by the names of its attributes."""
    return tuple(
        dataclasses.replace(field.metadata[_METADATA], name=field.name.replace("_", "-"))
        for field in dataclasses.fields(table)
        if _METADATA in field.metadata
    )


def declare(options: tuple[Option[Any], ...], parser: pytest.Parser) -> None:
    """Tell pytest of options and ini keys."""
    group = parser.getgroup("vla", "robot policies as tests (pytest-vla)")
    for each in options:
        if each.metavar is None:
            group.addoption(each.flag, dest=each.key, action="store_true", default=False, help=each.help)
        else:
            value: dict[str, Any] = {"metavar": each.metavar, "type": each.checked or each.parse, "default": None}
            if each.joined:
                value |= {"action": Joined}
            if each.bare is not None:
                value |= {"nargs": "?", "const": each.bare}
            group.addoption(each.flag, dest=each.key, help=each.help, **value)
        if each.ini is not None:
            parser.addini(each.key, each.ini, default="")


def said(options: tuple[Option[Any], ...], typed: argparse.Namespace) -> dict[str, Any]:
    """What was typed of them, by attribute. 0 is something; a switch that is not given is nothing."""
    values = {each.attribute: getattr(typed, each.key, None) for each in options}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def in_folder(value: Any, folder: Path) -> Any:
    """A path, or each of several, relative to the folder that it was said for; any other value as it is."""
    if isinstance(value, tuple):
        return tuple(in_folder(each, folder) for each in value)
    return folder / value if isinstance(value, Path) else value
