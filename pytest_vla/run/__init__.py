"""A pytest run: options, collection, resuming, results, progress."""
