"""Which of the items that wait go to the policy next: in their order, at most so many, and nobody for ever."""

import math
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.serving.batch_former import BatchFormer, Dispatch
from tests.support.examples import scaled


@dataclass(eq=False)
class Item:
    came: float
    alone: bool = False


class Patient(Dispatch):
    """Lets every incomplete batch wait until one moment."""

    moment = math.inf

    def until(self, waiting: int, now: float) -> float:
        return self.moment


def former_of(*items: Item, most: int = 4, moment: float = math.inf) -> BatchFormer[Item]:
    rule = Patient(most)
    rule.moment = moment
    former: BatchFormer[Item] = BatchFormer(rule)
    for item in items:
        former.add(item, alone=item.alone)
    return former


def test_questions_go_oldest_first_and_no_more_than_a_batch_holds() -> None:
    items = [Item(number) for number in range(6)]
    former = former_of(*items, most=4)
    assert former.take(6.0) == (items[:4], None)
    assert former.take(6.0) == ([], math.inf), "the other two wait for more"
    assert [*former.together] == items[4:]


def test_an_incomplete_batch_goes_at_the_moment_that_the_rule_says() -> None:
    items = [Item(0.0), Item(0.1)]
    former = former_of(*items, moment=0.5)
    assert former.take(0.4) == ([], 0.5)
    assert former.take(0.5) == (items, None)
    assert former.take(0.6) == ([], None), "nothing waits"


def test_a_batch_that_is_wanted_at_once_waits_for_nobody() -> None:
    item = Item(0.0)
    assert former_of(item).take(0.1, at_once=True) == ([item], None)


def test_one_that_is_alone_goes_before_a_batch_of_younger_questions() -> None:
    alone, question = Item(0.0, alone=True), Item(0.1)
    former = former_of(question, alone, most=1)
    assert former.take(1.0) == ([alone], None)
    assert former.take(1.0) == ([question], None)


def test_one_that_is_alone_goes_after_a_batch_that_is_ready_and_has_an_older_question() -> None:
    first, alone, last = Item(0.0), Item(0.1, alone=True), Item(0.2)
    former = former_of(first, alone, last, most=2)
    assert former.take(1.0) == ([first, last], None)
    assert former.take(1.0) == ([alone], None)


def test_one_that_is_alone_goes_while_an_older_question_waits_for_more() -> None:
    question, alone = Item(0.0), Item(0.1, alone=True)
    former = former_of(question, alone, moment=9.0)
    assert former.take(1.0) == ([alone], None)
    assert former.take(1.0) == ([], 9.0)


def test_what_is_removed_does_not_go() -> None:
    items = [Item(0.0), Item(0.1, alone=True), Item(0.2)]
    former = former_of(*items, moment=0.0)
    for item in items[:2]:
        former.remove(item)
    former.remove(Item(0.0))
    assert [*former] == items[2:]
    assert former.take(1.0) == (items[2:], None)


@settings(max_examples=scaled(100))
@given(
    events=st.lists(st.sampled_from(["question", "alone", "take"]), max_size=80),
    most=st.integers(1, 5),
    patience=st.floats(0.0, 10.0),
)
def test_all_go_once_in_their_order_and_who_is_alone_is_overtaken_by_less_than_a_batch(
    events: list[str], most: int, patience: float
) -> None:
    rule = Patient(most)
    former: BatchFormer[Item] = BatchFormer(rule)
    came: list[Item] = []
    went: list[Item] = []

    def take(now: float) -> bool:
        rule.moment = min((item.came for item in former.together), default=now) + patience
        batch, due = former.take(now)
        assert len(batch) == 1 or (len(batch) <= most and not any(item.alone for item in batch))
        assert due is None or (due > now and not batch)
        for item in batch:
            if item.alone:
                assert sum(other.came > item.came for other in went) < most
        went.extend(batch)
        return bool(batch)

    for now, event in enumerate(events):
        if event == "take":
            take(float(now))
        else:
            came.append(Item(float(now), alone=event == "alone"))
            former.add(came[-1], alone=came[-1].alone)
    while take(len(events) + patience):
        pass
    assert not [*former]
    for alone in (False, True):
        assert [item for item in went if item.alone is alone] == [item for item in came if item.alone is alone]
