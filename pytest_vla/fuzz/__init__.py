"""Search for scenes that break a policy, and for the smallest change of each that still does."""
