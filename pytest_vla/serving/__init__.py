"""One process owns the device and answers the policy's questions of all workers, in batches."""
