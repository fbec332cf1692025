"""LIBERO: five suites, a manifest each, and beside it what was measured of its init states.

Goal: ten goals in one scene. Object: ten things to put into the basket, on the floor. Spatial: one black bowl, ten
places to pick it up from. 10 and 90: long and short tasks in kitchen, living room and study.
"""
