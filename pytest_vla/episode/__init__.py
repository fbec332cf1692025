"""One episode: how it starts, how a policy acts in it, what is recorded of it."""
