"""The effects of variations on pictures and textures."""
