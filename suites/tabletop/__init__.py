"""Tabletop: ten goals in one scene that needs no data but what lies here.

A further task is a file under bddl_files, a further object a folder under assets/objects (scene/catalog.py),
here or in a user's own folder: see docs/how-to/scenes.md.
"""
