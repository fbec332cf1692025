"""The quality metrics against upstream's own numbers: every vector, series and means, to 1e-7."""

import numpy as np

from pytest_vla.metrics.instability import episode_mean
from pytest_vla.metrics.quality import (
    is_static,
    optimal_trajectory,
    tcp_instability,
    trajectory_instability,
    trajectory_instability_value,
)
from tests.support.upstream_metrics import ORDERS, near, vectors


def test_every_series_and_mean_of_the_hand() -> None:
    for episode in vectors()["episodes"]:
        path = episode["tcp"]
        for name, order in ORDERS.items():
            series = tcp_instability(path, order)
            near(series, episode["series"][f"TCP-{name}"])
            near(episode_mean(series), episode["episode_mean"][f"TCP-{name}"])
        near(trajectory_instability(path), episode["series"]["TI"])
        near(trajectory_instability_value(path), episode["episode_mean"]["TI"])
        assert is_static(path) is (episode["kind"] == "static")


def test_the_papers_values_of_the_hand() -> None:
    (episode,) = (each for each in vectors()["episodes"] if "paper_mode_episode_value" in each)
    values, path = episode["paper_mode_episode_value"], episode["tcp"]
    for name, order in ORDERS.items():
        near(episode_mean(tcp_instability(path, order, protocol="paper")), values[f"TCP-{name}_L2"])
    for dt, name in ((1.0, "TI_rms_dt1"), (1 / 3, "TI_rms_dt0.3333"), (0.2, "TI_rms_dt0.2")):
        near(trajectory_instability_value(path, dt=dt, protocol="paper"), values[name])


def test_progress_and_its_mean() -> None:
    given = vectors()["OT"]
    series = optimal_trajectory(given["dist"], given["total_dist"])
    near(series, given["code_series"])
    near(episode_mean(series), given["code_mean"])
    shares = np.array(given["dist"]) / given["total_dist"]
    near(0.5 + (shares[-1] - shares[0]) / (2 * len(shares)), given["identity_mean"])
