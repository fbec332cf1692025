"""Checks of a task file by its text alone: one module for each sort of check, findings with stable codes."""
