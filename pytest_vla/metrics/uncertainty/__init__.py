"""How unsure a policy was, from what it answered: the eight uncertainty metrics of arXiv 2507.17049.

Each function gives a series, a value for each control step, as the paper or as its code has it. Larger is less sure.
"""
