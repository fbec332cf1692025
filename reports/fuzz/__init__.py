"""What a search for failing scenes has found: in words, as JSON, and on its page."""
