"""robosuite's own tasks for one arm, such as Lift and Door."""
