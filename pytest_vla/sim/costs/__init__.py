"""VLA-Arena's costs, charged as its code does (`upstream`) and as its paper says (`paper`)."""
