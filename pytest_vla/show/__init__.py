"""Pictures: sheets of tasks and of runs, videos, the viewer."""
