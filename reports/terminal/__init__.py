"""What is written on the terminal during a run and at its end."""
