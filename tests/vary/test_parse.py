"""What --vla-vary may say: dimensions, kinds, levels, joint variations and pairs."""

import itertools
import re

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.vary.registry import PAIRED, dimensions_of, kinds, parse_vary


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("camera.wider:2", ["camera.wider-L2"]),
        ("camera.wider:1-2,camera.wider:2", ["camera.wider-L1", "camera.wider-L2"]),
        ("robot", [f"robot.joints-L{level}" for level in range(1, 6)]),
        ("robot:2,5", None),
        ("light.diffuse:2+camera.wider:4", ["light.diffuse-L2+camera.wider-L4"]),
        # In the order in which they are done, whatever was typed.
        ("camera.wider:4 + light.diffuse:2", ["light.diffuse-L2+camera.wider-L4"]),
        ("camera.wider : 2", ["camera.wider-L2"]),
        ("light.diffuse-L1+camera.wider-L3", ["light.diffuse-L1+camera.wider-L3"]),
    ],
)
def test_what_is_to_be_varied_is_read(text: str, labels: list[str] | None) -> None:
    if labels is None:
        with pytest.raises(VlaError, match="there is no variation '5'"):
            parse_vary(text)
    else:
        assert list(parse_vary(text)) == labels


def test_parts_of_a_joint_one_have_the_same_level_where_none_is_given() -> None:
    labels = parse_vary("robot+camera.wider")
    assert labels == tuple(f"camera.wider-L{level}+robot.joints-L{level}" for level in range(1, 6))
    assert len(parse_vary("robot:1-5+camera.wider:1-5")) == 25
    number = len([kind for kind in kinds() if kind.dimension == "camera" and kind.levels and not kind.published])
    # One level at the end is that of all.
    assert len(parse_vary("camera+robot:3")) == number
    assert len(parse_vary("camera:1-5+robot:3")) == 5 * number


def test_fifteen_pairs() -> None:
    found = {dimensions_of(label) for label in parse_vary("pairs")}
    assert len(found) == 15
    assert {frozenset(each.split("+")) for each in found} == {
        frozenset(pair) for pair in itertools.combinations(PAIRED, 2)
    }
    assert set(PAIRED) == {"layout", "background", "light", "camera", "robot", "noise"}, "LIBERO-Plus, Table 7"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("camra", "there is no variation 'camra'. Did you mean camera"),
        ("camera.wider:6", "camera.wider has levels 1 to 5, not 6"),
        ("camera:7", "camera has no level 7"),
        ("pairs:3", "pairs always have level 3; leave out :3"),
        ("camera+", "a part of a joint variation is missing"),
        ("language.words:L2", "levels 'L2': expected a level such as 3, or a range such as 1-3"),
        ("language.words:1.5", "levels '1.5': expected a level such as 3, or a range such as 1-3"),
        ("language.words:", "levels '': expected a level such as 3, or a range such as 1-3"),
        ("language:x", "levels 'x': expected a level such as 3, or a range such as 1-3"),
        ("camera.wider+camera.azimuth", "two variations of one dimension cannot be combined"),
        ("language.other_goal+camera.wider:1", "language.other_goal changes the task"),
        ("pro.task+camera.wider:1", "pro.task changes the task"),
    ],
)
def test_what_cannot_be_varied_is_told(text: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=re.escape(complaint)) as caught:
        parse_vary(text)
    assert "seed" not in str(caught.value)
