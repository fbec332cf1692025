"""What variations do to pictures and textures."""
