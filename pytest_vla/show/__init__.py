"""Pictures: sheets of tasks and of runs, videos, and the viewer."""
