"""Built-in metrics, recorded if requested with ``--vla-metrics``."""

from collections.abc import Mapping
from math import inf

from pytest_vla.entries import HANDLING, REMAINING, SAMPLES, TOKENS, MetricEntry

# `pytest_vla.metrics.instability.WINDOW`, which brings numpy: every project reads this.
WINDOW = 8

# Upstream's zeros before its window is full, and its 0.5 in the first step, before anything has changed.
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
"""Ranges of a size by the code's definition, by the paper's, and for the arm alone."""


def pytest_vla_metrics() -> list[MetricEntry]:
    """Return eight metrics of uncertainty, seven of quality (two of them on request only), and five of economy."""
    tokens = (
        ("token_probability", "TB-TP", "1 - largest probability, mean over tokens, 0 (certain) to 1"),
        ("token_pcs", "TB-PCS", "1 - (largest - second largest probability), mean over tokens, 0 (certain) to 1"),
        ("token_deepgini", "TB-D", "1 - sum of squared probabilities, mean over tokens, 0 (certain) to 1"),
        ("token_entropy", "TB-E", "entropy / ln(vocabulary size), mean over tokens, 0 (certain) to 1"),
    )
    actions = (
        ("action_position_instability", "A-PI", "first difference of actions, share of their range"),
        ("action_velocity_instability", "A-VI", "second difference of actions, share of their range"),
        ("action_acceleration_instability", "A-AI", "third difference of actions, share of their range"),
    )
    hand = (
        ("tcp_position_instability", "TCP-PI", "first difference of the hand's position, m, mean over axes"),
        ("tcp_velocity_instability", "TCP-VI", "second difference of the hand's position, m, mean over axes"),
        ("tcp_acceleration_instability", "TCP-AI", "third difference of the hand's position, m, mean over axes"),
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
            ("execution_variability", "EV", "spread of 4 additional draws of each action, share of its range"),
            _SIZES,
            needs=(SAMPLES,),
            looks_back=1,
        ),
        *(_entry(_QUALITY, each, _SIZES, beside=(_STATIC,), padding=_OF_WINDOW[:1]) for each in hand),
        _entry(_QUALITY, jerk, _SIZES, beside=(_STATIC,)),
        _entry(
            _QUALITY,
            ("optimal_trajectory", "OT", "change of the remaining distance, below 0.5 if it decreases"),
            {},
            needs=(REMAINING,),
            padding=_OF_CHANGE,
        ),
        MetricEntry(
            _STATIC,
            "1 if the hand's path is shorter than 2 cm, which motion metrics would rate as perfect",
            f"{_QUALITY}:static_robot",
            on_request=True,
            within={"": _SHARE},
        ),
        MetricEntry(
            "object_turn",
            "turn of the task's object from start to end, degrees",
            f"{_QUALITY}:object_turn",
            on_request=True,
            needs=(REMAINING,),
            within=dict.fromkeys(("", "tilt"), (0.0, 180.0)),
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
                ("hand_path", "length of the hand's path, m"),
                ("hand_jerk", "root mean square of the hand's jerk, m/s^3"),
            )
        ),
        *(
            MetricEntry(name, about, f"{at}:{name}", on_request=True, needs=(HANDLING,), within=within)
            for name, about, within in (
                (
                    "near_joint_limits",
                    "share of steps with an arm joint close to a limit (within 5% of its range)",
                    {"": _SHARE},
                ),
                (
                    "regrasps",
                    "number of times that an object is grasped again",
                    {"": _FROM_ZERO, "grasps": _FROM_ZERO},
                ),
                (
                    "other_contacts",
                    "number of new robot contacts with things that the goal does not name",
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
