"""Variations of a task: one module for each dimension or benchmark, and one registry."""
