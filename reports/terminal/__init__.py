"""Lines on the terminal during a run and at its end."""
