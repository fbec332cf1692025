"""What is wrong with a task file, by its text alone: one module a sort of check, findings with stable codes."""
