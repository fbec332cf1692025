"""Tests that run alone and under pytest-xdist."""

import pytest

BOTH = pytest.mark.parametrize("workers", ["-n0", "-n2"])
"""Both ways in every run of the tests: one test a feature."""

ALONE = pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
"""With workers in the slow part only: what a feature's other tests look at does not pass between processes."""
