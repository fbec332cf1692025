"""The policies: their protocol, and the ones that come with pytest-vla."""
