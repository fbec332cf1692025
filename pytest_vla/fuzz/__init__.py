"""Search for scenes that break a policy, and for the smallest change of each that still does."""

FOLDER, FILE = "searches", "search.jsonl"
"""Each search has a folder in this folder of the results, with its file."""

LAST = "last"
"""In place of a search's name: the one that began last."""
