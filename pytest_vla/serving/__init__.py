"""Serving a policy: one process holds the device and answers the questions of all workers, in batches."""
