"""Results of a search for failing scenes: in words, as JSON, and on a page."""
