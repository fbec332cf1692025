"""Numbers computed from records."""
