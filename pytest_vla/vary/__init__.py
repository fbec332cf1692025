"""What can be varied about a task: one module a dimension or benchmark, one registry."""
