"""LIBERO-Plus: LIBERO-Goal's ten tasks under 2,591 perturbations."""
