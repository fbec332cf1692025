"""The dimensions along which tasks are varied, a module each."""
