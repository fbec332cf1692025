"""Task files and compiled scenes: BDDL and CBDDL text, init states, assets, MuJoCo models."""
