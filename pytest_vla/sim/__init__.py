"""The simulated world: MuJoCo's physics, the controller, the cameras. Knows no pytest."""
