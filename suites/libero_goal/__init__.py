"""LIBERO-Goal: ten goals in one scene."""
