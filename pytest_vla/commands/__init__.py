"""The commands of pytest-vla, a module each."""
