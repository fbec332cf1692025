"""LIBERO-Plus: LIBERO-Object's ten tasks under 2,518 perturbations."""
