"""Documents from elsewhere are read within bounds; whatever else they are is a ValueError that says why."""

import tracemalloc
from pathlib import Path
from xml.etree.ElementTree import ParseError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.util.documents import read_toml, read_xml, read_yaml
from tests.support.examples import scaled

MERGES = "\n".join(["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: 1}}" for i in range(1, 60))])
LAUGHS = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (MERGES, "more than 2000000 values"),
        (LAUGHS, "more than 2000000 values"),
        ("a: &a [*a]", "holds itself"),
        ("a: &a {b: *a}", "holds itself"),
        ("[" * 5000, "nested deeper"),
        ("- " * 300 + "x", "nested deeper"),
        (f"a: {'9' * 400}", "beyond 64 bits"),
        (f"a: {'9' * 5000}", "digits"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: [", "line 1"),
        ("a: \x07", "not allowed"),
        ("--- a\n--- b", "expected a single document"),
        ("{[1]: 2}", "unhashable"),
    ],
)
def test_a_yaml_bomb_is_refused_before_anything_is_made_of_it(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=complaint):
            read_yaml(file)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_aliases_and_merges_of_a_common_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("base: &base {x: 1, y: [2, 3]}\nmore:\n  <<: *base\n  y: 4\nsame: *base\n")
    base = {"x": 1, "y": [2, 3]}
    assert read_yaml(file) == {"base": base, "more": {"x": 1, "y": 4}, "same": base}
    file.write_text("")
    assert read_yaml(file) is None


@given(st.binary(max_size=60) | st.text("[]{}a:-&*<! \n'\"#|>%@`,?0x.", max_size=60).map(str.encode))
@settings(max_examples=scaled(150))
def test_any_bytes_are_a_document_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    for read in (read_yaml, read_toml, read_xml):
        try:
            read(file)
        except (ValueError, ParseError):
            continue


def test_xml_is_read_to_a_depth_and_without_bombs(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text("<a>" * 100 + "</a>" * 100)
    assert len([*read_xml(file).iter()]) == 100
    file.write_text("<a>" * 101 + "</a>" * 101)
    with pytest.raises(ValueError, match="nested deeper than 100"):
        read_xml(file)
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    file.write_text(f'<!DOCTYPE a [<!ENTITY e0 "x">{entities}]><a>&e11;</a>')
    with pytest.raises(ParseError, match="amplification"):
        read_xml(file)
