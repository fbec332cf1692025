"""``--vla-model=expert``: scripted skills that look at the simulator's own state, rehearsed before they are shown."""
