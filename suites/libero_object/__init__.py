"""LIBERO-Object: ten things to put into the basket, on the floor."""
