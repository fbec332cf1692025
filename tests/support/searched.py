"""What tests of scenes and searches put into a project: policies, and an expert of the point in MuJoCo's place."""

POLICIES = """
import numpy as np

def straight(episode):
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])

def still(episode):
    return lambda observation: np.zeros((50, 7))

def broken(episode):
    return lambda observation: 1 / 0

def impatient(episode):
    # Goes, and gives up where three answers have moved nothing.
    seen = []
    def session(observation):
        seen.append(float(observation["robot0_eef_pos"][0]))
        stuck = len(seen) > 3 and len({round(each, 9) for each in seen[:4]}) == 1
        return np.zeros((300, 7)) if stuck else np.array([[1.0, 0, 0, 0, 0, 0, 0]])

    return session
"""
# Where the point stands in for MuJoCo, the expert knows nothing.
EXPERT = """
import sys, types
import policies

sys.modules["pytest_vla.expert.policy"] = types.SimpleNamespace(expert_policy=policies.straight)
"""
