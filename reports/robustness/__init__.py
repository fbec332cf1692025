"""What a run says of robustness: rates by dimension and level of variation."""
