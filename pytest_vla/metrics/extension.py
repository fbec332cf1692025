"""The metrics that come with pytest-vla, kept where ``--vla-metrics`` asks for them."""

from collections.abc import Mapping
from math import inf

from pytest_vla.entries import HANDLING, REMAINING, SAMPLES, TOKENS, MetricEntry

# `pytest_vla.metrics.instability.WINDOW`, which brings numpy: every project reads this.
WINDOW = 8

# Upstream's zeros, where its window is not full, and its 0.5 of the first step, where nothing has changed yet.
_OF_WINDOW = (("", WINDOW - 1), ("arm", WINDOW - 1))
_OF_CHANGE = (("", 1),)

_UNCERTAINTY = "pytest_vla.metrics.uncertainty"
_QUALITY = "pytest_vla.metrics.quality"
_STATIC = "static_robot"
# The plain name is that of the function of numbers in the same module.
_OF_EPISODES = frozenset(
    (
        *("token_probability", "token_pcs", "token_deepgini", "token_entropy", "execution_variability"),
        *("trajectory_instability", "optimal_trajectory"),
    )
)

_SHARE, _FROM_ZERO = (0.0, 1.0), (0.0, inf)
_SIZES = dict.fromkeys(("", "paper", "arm"), _FROM_ZERO)
"""Of how far something moves or strays: in the paper's way, in its code's, and of the arm alone."""


def pytest_vla_metrics() -> list[MetricEntry]:
    """Eight of uncertainty, five of quality, whether the robot stood still, and five of economy."""
    tokens = (
        ("token_probability", "TB-TP", "1 - probability of each token's likeliest choice, 0 (sure) to 1"),
        ("token_pcs", "TB-PCS", "1 - (first - second choice's probability) of each token, 0 (sure) to 1"),
        ("token_deepgini", "TB-D", "1 - sum of squared probabilities of each token, 0 (sure) to 1"),
        ("token_entropy", "TB-E", "entropy of each token's choice over ln of the vocabulary, 0 (sure) to 1"),
    )
    actions = (
        ("action_position_instability", "A-PI", "change of actions from step to step, share of their range"),
        ("action_velocity_instability", "A-VI", "change of that change, share of the actions' range"),
        ("action_acceleration_instability", "A-AI", "third difference of actions, share of their range"),
    )
    hand = (
        ("tcp_position_instability", "TCP-PI", "how far the hand goes in a step, m, mean of axes"),
        ("tcp_velocity_instability", "TCP-VI", "change of the hand's step, m, mean of axes"),
        ("tcp_acceleration_instability", "TCP-AI", "third difference of the hand's position, m, mean of axes"),
    )
    jerk = ("trajectory_instability", "TI", "jerk of the hand, m / step^3")
    return [
        *(
            _entry(
                _UNCERTAINTY,
                each,
                {"": _SHARE, "paper": _FROM_ZERO if "entropy" in each[0] else _SHARE},
                needs=(TOKENS,),
                looks_back=1,
            )
            for each in tokens
        ),
        *(_entry(_UNCERTAINTY, each, _SIZES, looks_back=WINDOW, padding=_OF_WINDOW) for each in actions),
        _entry(
            _UNCERTAINTY,
            ("execution_variability", "EV", "spread of 4 further draws of each action, share of its range"),
            _SIZES,
            needs=(SAMPLES,),
            looks_back=1,
        ),
        *(_entry(_QUALITY, each, _SIZES, beside=(_STATIC,), padding=_OF_WINDOW[:1]) for each in hand),
        _entry(_QUALITY, jerk, _SIZES, beside=(_STATIC,)),
        _entry(
            _QUALITY,
            ("optimal_trajectory", "OT", "below 0.5 the hand and the object come nearer to the goal"),
            {},
            needs=(REMAINING,),
            padding=_OF_CHANGE,
        ),
        MetricEntry(
            _STATIC,
            "1 where the hand's path is shorter than 2 cm: it looks perfect to metrics of motion",
            f"{_QUALITY}:static_robot",
            on_request=True,
            within={"": _SHARE},
        ),
        *_economy(),
    ]


def _economy() -> list[MetricEntry]:
    """Return metrics for smooth and economical motion, which need no labels."""
    at = "pytest_vla.metrics.quality"
    return [
        *(
            MetricEntry(name, about, f"{at}:{name}", on_request=True, within={"": _FROM_ZERO})
            for name, about in (
                ("hand_path", "m, how far the hand went"),
                ("hand_jerk", "m/s^3, root mean square of the hand's jerk"),
            )
        ),
        *(
            MetricEntry(name, about, f"{at}:{name}", on_request=True, needs=(HANDLING,), within=within)
            for name, about, within in (
                (
                    "near_joint_limits",
                    "share of steps with a joint of the arm within 5% of its range of a limit",
                    {"": _SHARE},
                ),
                (
                    "regrasps",
                    "how often an object was taken that had been held before",
                    {"": _FROM_ZERO, "grasps": _FROM_ZERO},
                ),
                (
                    "other_contacts",
                    "how often the robot came to touch what the goal does not name",
                    {"": _FROM_ZERO, "share": _SHARE},
                ),
            )
        ),
    ]


def _entry(
    module: str,
    named: tuple[str, str, str],
    within: Mapping[str, tuple[float, float]],
    needs: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
    looks_back: int = 0,
    padding: tuple[tuple[str, int], ...] = (),
) -> MetricEntry:
    name, alias, about = named
    load = f"{module}:{'episode_' if name in _OF_EPISODES else ''}{name}"
    return MetricEntry(
        name,
        about,
        load,
        on_request=True,
        aliases=(alias,),
        needs=needs,
        beside=beside,
        looks_back=looks_back,
        padding=padding,
        within=within,
    )
