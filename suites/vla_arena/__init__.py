"""VLA-Arena: its visual perturbations."""
