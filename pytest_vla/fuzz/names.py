"""Names of searches, and where they lie. Light: the command's help reads them."""

FOLDER, FILE = "searches", "search.jsonl"
"""Each search has a folder in this folder of the results, with its file."""

LAST = "last"
"""In place of a search's name: the one that began last."""
