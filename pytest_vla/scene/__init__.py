"""From task files to compiled scenes: BDDL and CBDDL text, init states, assets, MuJoCo models."""
