"""LIBERO-Spatial: one black bowl, ten places to pick it up from."""
