"""LIBERO-Plus: LIBERO-10's ten tasks under 2,519 perturbations."""
