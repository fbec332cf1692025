"""Helpers that know nothing of robots: files, text, limits and more."""
