"""Names of devices and of what tells one, and how long a question may take."""

REQUEST_TIMEOUT = 60.0
"""Seconds that a policy in another process has for an answer, where ``--vla-policy-timeout`` is not given."""

DEFAULT_BATCH = 32
"""Questions that a policy answers at once, at most, where ``--vla-batch`` is not given."""

AUTO = "auto"
"""The device that there is: cuda, mps, cpu."""

DEVICE = "PYTEST_VLA_DEVICE"
"""The environment variable in which a user's own policy finds its device: torch's name of one, never `AUTO`."""
