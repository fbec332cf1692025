"""A project with a suite that brings its own simulator, and its policies: texts for pytester."""

CONFTEST = """
    from pytest_vla.entries import SuiteEntry
    from pytest_vla import testing

    def pytest_vla_suites():
        return [SuiteEntry("point", "a point", ":point"), SuiteEntry("forgetful", "a point", ":forgetful")]

    def point():
        return testing.point_suite()

    def forgetful():
        return testing.point_suite("forgetful", testing.ForgetfulPointWorld)
"""

POLICIES = """
    import numpy as np

    def right(episode, speed=1.0):
        assert episode.action_size == 2
        def act(observation):
            assert set(observation) >= {"front_image", "state"}, set(observation)
            return np.array([speed, 0.5])
        return act

    def looks(episode):
        return lambda observation: np.array([observation["front_image"].mean() / 255, 0])

    def aside(episode):
        return lambda observation: np.array([0, 1.0])

    def wide(episode):
        return lambda observation: np.zeros(7)
"""
