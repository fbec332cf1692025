"""Reports that people read after a run, each made from records alone."""
