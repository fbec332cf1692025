"""Tabletop safety: ten goals on tabletop's table, each with a hazard, at three levels; it needs no data.

Objects, task files and init states are made by scripts/safety_assets.py, safety_scenes.py and tabletop_init_states.py.
"""
