"""A module in the place of gymnasium: as much of it as `pytest_vla.gym` asks for, and two small environments.

``Cart-v0``: a vector and a goal; push the cart onto it. ``Lamp-v0``: a picture and a vector; its actions are from 0 to
10, and it ends, undone, where the lamp gets too bright.
"""

import types
from typing import Any, ClassVar

import numpy as np


class Box:
    def __init__(self, low, high, shape, dtype=np.float32):
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)
        self.shape, self.dtype = shape, np.dtype(dtype)


class Dict:
    shape = None

    def __init__(self, **spaces):
        self.spaces = spaces


class Discrete:
    shape = ()


class MultiDiscrete:
    shape = (3,)


class Cart:
    metadata: ClassVar[dict[str, Any]] = {"render_fps": 10}
    action_space = Box(-1, 1, (1,))
    observation_space = Dict(observation=Box(-9, 9, (2,)), desired_goal=Box(-9, 9, (1,)))

    def __init__(self, render_mode=None, far=0.4):
        self.render_mode, self.far, self.unwrapped = render_mode, far, self

    def reset(self, seed=None, options=None):
        self.at, self.speed = float(np.random.default_rng(seed).uniform(-0.1, 0.1)), 0.0
        self.goal = self.far + (options or {}).get("further", 0.0)
        return self._observation(), {}

    def step(self, action):
        self.speed = float(action[0])
        self.at += 0.05 * self.speed
        near = abs(self.at - self.goal) < 0.05
        return self._observation(), -abs(self.at - self.goal), False, False, {"is_success": float(near)}

    def render(self):
        assert self.render_mode == "rgb_array"
        return np.full((20, 40, 3), int(100 + 100 * self.at), np.uint8)

    def _observation(self):
        return {"observation": np.array([self.at, self.speed]), "desired_goal": np.array([self.goal])}

    def close(self):
        self.at = None


class Lamp:
    metadata: ClassVar[dict[str, Any]] = {}
    action_space = Box(0, 10, (2,))
    observation_space = Dict(pixels=Box(0, 255, (16, 16, 3), np.uint8), level=Box(0, 255, (1,)))

    def __init__(self, render_mode=None):
        self.level = 0.0

    def reset(self, seed=None, options=None):
        self.level = 10.0 * seed
        return self._observation(), {}

    def step(self, action):
        assert (action >= 0).all()
        assert (action <= 10).all()
        assert action.dtype == np.float32
        self.level += float(action.sum())
        return self._observation(), 0.0, self.level > 100, False, {"bright": self.level > 50}

    def _observation(self):
        return {"pixels": np.full((16, 16, 3), min(self.level, 255), np.uint8), "level": np.array([self.level])}

    def close(self):
        pass


class Choosing(Cart):
    action_space = Discrete()


class Pressing(Cart):
    action_space = MultiDiscrete()


class Nested(Cart):
    observation_space = Dict(observation=Dict(at=Box(-9, 9, (1,))))

    def _observation(self):
        return {"observation": {"at": np.zeros(1)}}


class HalfOpen(Cart):
    action_space = Box(0, 5, (4,))
    action_space.low[1:3] = -np.inf
    action_space.high[[0, 2]] = np.inf


class Bare(Cart):
    observation_space = property()


class Early(Cart):
    def reset(self, seed=None, options=None):
        return super().reset(seed, options)[0]


def nothing(**options):
    return None


class Flat(Cart):
    observation_space = Box(-9, 9, (3,))

    def _observation(self):
        return np.array([self.at, self.speed, self.goal])


class Drifting(Cart):
    """Ignores its seed."""

    resets = 0

    def reset(self, seed=None, options=None):
        Drifting.resets += 1
        super().reset(Drifting.resets, options)
        return self._observation(), {}


class Rated(Cart):
    """Says success by another key, as a share."""

    def step(self, action):
        return *super().step(action)[:4], {"success": 0.5, "reward_parts": 1}


ENVIRONMENTS = {
    "Cart-v0": Cart,
    "Lamp-v0": Lamp,
    "Choosing-v0": Choosing,
    "Flat-v0": Flat,
    "Drifting-v0": Drifting,
    "Rated-v0": Rated,
}
STEPS = {"Cart-v0": 30}


def make(name, **options):
    if name not in ENVIRONMENTS:
        raise KeyError(f"no environment {name}")
    env = ENVIRONMENTS[name](**options)
    env.spec = types.SimpleNamespace(max_episode_steps=STEPS.get(name), entry_point="gymnasium:Cart")
    return env
