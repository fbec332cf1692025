"""When no episode is begun any more."""

from math import inf, nan

from pytest_vla.scale.order import TimeLimit


def test_an_episode_begins_where_the_longest_would_end_in_time() -> None:
    limit = TimeLimit(100.0, wall=60.0)
    assert limit.may_begin(160.0), "nothing is known of episodes"
    limit.learn(20.0)
    limit.learn(5.0)
    assert limit.longest == 20.0
    assert limit.may_begin(140.0)
    assert (limit.is_up, limit.took) == (False, None)
    assert not limit.may_begin(140.5)
    assert (limit.is_up, limit.took) == (True, 40.5)


def test_once_time_is_up_it_is_for_all() -> None:
    limit = TimeLimit(0.0, wall=10.0)
    assert not limit.may_begin(11.0)
    assert not limit.may_begin(1.0), "whatever the clock says"


def test_a_budget_is_shared_by_the_workers() -> None:
    limit = TimeLimit(0.0, work=3600.0)
    assert (limit.seconds, limit.by_work) == (3600.0, True)
    limit.share(8)
    assert limit.seconds == 450.0
    assert limit.left(400.0) == 50.0
    assert limit.left(500.0) == 0.0
    both = TimeLimit(0.0, wall=600.0, work=3600.0)
    both.share(1)
    assert (both.seconds, both.by_work) == (600.0, False)
    both.share(8)
    assert (both.seconds, both.by_work) == (450.0, True)
    wall = TimeLimit(0.0, wall=600.0)
    wall.share(8)
    assert (wall.seconds, wall.by_work) == (600.0, False)


def test_what_is_no_time_is_not_learned() -> None:
    limit = TimeLimit(0.0, wall=10.0)
    for strange in (-1.0, inf, nan):
        limit.learn(strange)
    assert limit.longest == 0.0
