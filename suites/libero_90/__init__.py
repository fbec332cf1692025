"""LIBERO-90: ninety short tasks in kitchen, living room and study."""
