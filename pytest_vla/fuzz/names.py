"""What searches are called, and where they lie."""

FOLDER, FILE = "searches", "search.jsonl"
"""Below the folder of all runs a folder for each search, with its file."""

LAST = "last"
"""In the place of a search's name: the one that began last."""
