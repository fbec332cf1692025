"""What VLA-Arena's costs charge, by its code (`upstream`) and by its paper (`paper`)."""
