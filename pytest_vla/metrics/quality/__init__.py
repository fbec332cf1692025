"""How well a robot moved, from the path of its hand: the five quality metrics of arXiv 2507.17049.

Each function gives a series, a value for each control step. Smaller is better.
"""
