"""Meta-World as lerobot evaluates it: suites of its fifty tasks by difficulty, MT10, and ML45's five held-out tasks."""
