"""TOML, YAML, XML and JSON from untrusted files, within bounds: any fault of a file is an OSError or a ValueError.

Parsers recurse once for each bracket, YAML's aliases multiply content, and integers of thousands of digits break code
that needs their size or their text.
"""

import errno
import io
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_BYTES = 32 * 1024 * 1024
DEEPEST = 100
"""Levels of tables and lists, or of XML's elements; scenes of LIBERO's have 12."""

MAX_NODES = 2_000_000
"""The most nodes of a YAML document, aliases counted each time."""

_LARGEST = 2**63


def read_plain(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Return the content of a plain file. Raises OSError, and ValueError if it is no plain file or too large."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "its name has a null byte")
    # O_NONBLOCK: a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no plain file")
        # No more than the file's size: read() allocates what it is asked for.
        data = file.read(min(about.st_size, limit) + 1)
    if len(data) > limit:
        raise ValueError(f"expected up to {limit} bytes, found more")
    return data


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises OSError, and ValueError."""
    try:
        value = json.loads(read_plain(path))
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST}") from None
    _check_value(value)
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file. Raises OSError, and ValueError."""
    return read_toml_with_lines(path, "")[0]


def read_toml_with_lines(path: Path, name: str) -> tuple[dict[str, Any], "TableLines"]:
    """Return the table of a TOML file, and the lines of its tables ``[[NAME]]``. Raises OSError, and ValueError."""
    return parse_toml(read_plain(path), path, name)


def parse_toml(data: bytes, path: Path, name: str) -> tuple[dict[str, Any], "TableLines"]:
    """Return what `read_toml_with_lines` does, for the content of a file. Raises ValueError."""
    import tomllib

    try:
        # Some editors begin a file with a byte order mark.
        text = data.decode("utf-8-sig")
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST}") from None
    _check_value(table)
    return table, TableLines(path, text, name)


class TableLines:
    """The line numbers of a TOML file's tables ``[[NAME]]``, which tomllib does not report.

    Args:
        file: the file, named in messages.
        text: the file's content.
        name: the tables' name.
    """

    def __init__(self, file: Path, text: str, name: str) -> None:
        self._file, self._lines, self._name = file, text.splitlines(), name
        head = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
        self._heads = [number for number, line in enumerate(self._lines) if head.match(line)]

    def where(self, number: int | None = None, key: str = "", within: str = "") -> str:
        """Return the prefix ``FILE:LINE: NAME[NUMBER].KEY: ``, without the line if it is not known.

        The key is searched in the table's part with the name `within`, if that is given; its own line is next best.
        """
        if number is None:
            return f"{self._file}: "
        path = f"{self._name}[{number}]{f'.{key}' if key else ''}"
        line = self._line(number, key, within)
        return f"{self._file}:{line}: {path}: " if line else f"{self._file}: {path}: "

    def _line(self, number: int, key: str, within: str) -> int:
        if number >= len(self._heads):
            return 0
        first = self._heads[number]
        last = self._heads[number + 1] if number + 1 < len(self._heads) else len(self._lines)
        if within:
            name = re.escape(within)
            part = re.compile(rf"""\s*\[.*{name}\W*\]|.*["']{name}["']""")
            first = next((n for n in range(first, last) if part.match(self._lines[n])), first)
            last = next((n for n in range(first + 1, last) if self._lines[n].lstrip().startswith("[")), last)
        said = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
        return 1 + next((n for n in range(first, last) if key and said.match(self._lines[n])), first)


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file of plain data: tables, lists, texts, numbers. Raises OSError, and ValueError."""
    import yaml

    data = read_plain(path)
    try:
        depth = 0
        # As a stream: the parser's time grows with the square of what is open.
        for event in yaml.parse(data, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"it is nested deeper than {DEEPEST}")
        loader = yaml.SafeLoader(data)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            # Before anything is made of it: a merge of merges doubles with each line.
            _nodes(node, {}, 0)
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST}") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    _check_value(value)
    return value


def read_xml(path: Path) -> "Element":
    """Return the root of an XML file. Raises OSError, ElementTree.ParseError (not well formed), and ValueError."""
    return parse_xml(read_plain(path))


def parse_xml(data: bytes) -> "Element":
    """Return the root of an XML text. Raises ElementTree.ParseError (not well formed), and ValueError."""
    import xml.etree.ElementTree as ElementTree

    depth = 0
    events = ElementTree.iterparse(io.BytesIO(data), events=("start", "end"))
    root: Element | None = None
    for event, element in events:
        root = element if root is None else root
        depth += 1 if event == "start" else -1
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST}")
    if root is None:
        raise ValueError("it has no element")
    return root


def _nodes(node: Any, known: dict[int, int], depth: int) -> int:
    """Return the number of nodes below this one, aliases counted each time; 0 in `known` marks one in progress."""
    if depth > DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST}")
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("it holds itself")
        return known[id(node)]
    known[id(node)] = 0
    count = 1
    if isinstance(node.value, list):
        for inner in node.value:
            for each in inner if isinstance(inner, tuple) else (inner,):
                count += _nodes(each, known, depth + 1)
                if count > MAX_NODES:
                    raise ValueError(f"it has more than {MAX_NODES} values, with those that its aliases repeat")
    known[id(node)] = count
    return count


def _check_value(value: Any) -> None:
    left, seen = [(value, 0)], set()
    while left:
        each, depth = left.pop()
        if isinstance(each, int) and abs(each) >= _LARGEST:
            raise ValueError("it has an integer beyond 64 bits")
        if not isinstance(each, dict | list) or id(each) in seen:
            continue
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST}")
        seen.add(id(each))
        left += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
