"""Many machines: the shards and their merge, the order of a run with a time limit, and Ray."""
