"""Files, text, limits and other tools that know no robot."""
