"""What decides whether a run is good enough."""
