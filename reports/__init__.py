"""What people read after a run: each report is made from records alone."""
