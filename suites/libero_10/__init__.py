"""LIBERO-10: ten long tasks in kitchen, living room and study."""
