"""LIBERO-Plus: LIBERO-Spatial's ten tasks under 2,402 perturbations."""
