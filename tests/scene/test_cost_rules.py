"""Files of costs: what they say, and what is wrong in them, located."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import load_suite
from pytest_vla.errors import VlaError
from pytest_vla.scene.cost_rules import RULES, read_costs

TEXT = """
# A comment.
[[cost]]
literal = "(InContact bowl_1  Plate_1)"

[[cost]]
name = "hard"
rule = "force"
on = "Table"
above = 50
weight = 2.5
when = "once"
tasks = ["put_*", "libero_goal/*"]
missing = "skip"

[[cost]]
literal = "(Fall bottle_1)"
"""


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "costs.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_what_a_file_says(tmp_path: Path) -> None:
    costs = read_costs(written(tmp_path, TEXT))
    contact, hard, fall = costs.rules
    assert (contact.name, contact.when, contact.weight) == ("(incontact bowl_1 plate_1)", "instant", 1.0)
    assert (fall.when, fall.weight) == ("terminal", 10.0)
    assert (hard.values, hard.weight, hard.when, hard.missing) == ({"on": "table", "above": 50.0}, 2.5, "once", "skip")
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    assert [rule.is_of(task) for rule in costs.rules] == [True, True, True]
    assert [rule.is_of(load_suite("tabletop").task("turn_on_the_stove")) for rule in costs.rules] == [True, False, True]
    assert read_costs(written(tmp_path, TEXT)).digest == costs.digest != read_costs(written(tmp_path, TEXT[1:])).digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "costs.toml: expected one [[cost]] table or more"),
        ("cost = 3", "costs.toml: expected one [[cost]] table or more"),
        ("[[costs]]\nx = 1", "costs.toml: unknown key 'costs': expected nothing but [[cost]] tables"),
        ("[[cost]]\nname = ", "costs.toml: no valid TOML: Invalid value (at "),
        (b"[[cost]]\nname = '\xff'", "costs.toml: expected UTF-8, found the byte 0xff"),
        (f"[[cost]]\nabove = {'9' * 5000}", "costs.toml: no valid TOML: Exceeds the limit (4300 digits)"),
        (f"[[cost]]\nmissing = 0x{'f' * 5000}", "costs.toml: no valid TOML: it has an integer beyond 64 bits"),
        ("cost = " + "[" * 200_000, "costs.toml: no valid TOML: it is nested deeper than 100"),
        ("[[cost]]", "costs.toml:1: cost[0]: expected either literal"),
        ("[[cost]]\nrule = 'touch'\nliteral = '(Up a)'", "costs.toml:1: cost[0]: expected either literal"),
        ("[[cost]]\nrule = 'tuch'", "costs.toml:2: cost[0].rule: expected one of touch, force"),
        ("[[cost]]\nname = 'a'\nrule = 'touch'", "costs.toml:1: cost[0]: rule 'touch' lacks 'by'"),
        ("[[cost]]\nrule = 'touch'\nby = 'arm'", "costs.toml:1: cost[0]: rule 'touch' lacks name"),
        (
            "\n[[cost]]\nname='a'\nrule='joint'\nwithin=2",
            "costs.toml:5: cost[0].within: expected a share of the joint's range, 0 to 0.5, found 2",
        ),
        (
            "[[cost]]\nname='a'\nrule='speed'\nof='held'\nabove=nan",
            "cost[0].above: expected a speed in m/s, 0 to 1000, found nan",
        ),
        ("[[cost]]\nname='a'\nrule='speed'\nof='held'\nabove=true", "cost[0].above: expected a speed in m/s"),
        ("[[cost]]\nname='a'\nrule='touch'\nby='arm'\nthings=[]", "cost[0].things: expected a name or a list of names"),
        ("[[cost]]\nliteral='(Up a'", "costs.toml:2: cost[0].literal:1:"),
        ("[[cost]]\nliteral='(Upp a)'", "unknown predicate 'Upp'; did you mean up?"),
        ("[[cost]]\nliteral='(And (Up a) (Up b))'", "cost[0].literal: expected one literal, found 2"),
        ("[[cost]]\nrule='speed'\nname='arm_contact'\nof='held'\nabove=1", "give it another name"),
        ("[[cost]]\nrule='speed'\nname='(Fall a)'\nof='held'\nabove=1", "give it another name"),
        (
            "[[cost]]\nliteral='(Up a)'\nweight=-1",
            "costs.toml:3: cost[0].weight: expected an amount, 1e-06 to 1e+12, found -1",
        ),
        (
            "[[cost]]\nliteral='(Up a)'\n[[cost]]\nliteral='(up a)'",
            "costs.toml:3: cost[1].name: '(up a)' is used twice",
        ),
        (
            "[[cost]]\nliteral='(Up a)'\nwhen='always'",
            "costs.toml:3: cost[0].when: expected one of instant, once, terminal",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(VlaError) as raised:
        read_costs(written(tmp_path, text))
    assert message in str(raised.value)
    assert str(tmp_path / "costs.toml") in str(raised.value)


VALUES = st.one_of(
    st.integers(-5, 5),
    st.floats(),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_characters="'\x7f", exclude_categories=["Cc", "Cs"]), max_size=12),
)
KEYS = ["name", "rule", "literal", "weight", "when", "tasks", "missing", "by", "of", "on", "above", "within", "things"]


@given(entry=st.dictionaries(st.sampled_from(KEYS), VALUES | st.sampled_from([*RULES, "once", "(up a)"]), max_size=6))
def test_any_table_is_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, entry: dict[str, object]
) -> None:
    lines = [f"{key} = {_toml(value)}" for key, value in entry.items()]
    file = written(tmp_path_factory.mktemp("costs"), "\n".join(["[[cost]]", *lines]))
    try:
        (rule,) = read_costs(file).rules
    except VlaError as error:
        told = str(error)
    else:
        told = f"{file}: {rule.name}" if rule.weight >= 0 else ""
    assert told.startswith(str(file))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f"'{value}'"
