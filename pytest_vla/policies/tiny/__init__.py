"""tiny: a small learned policy that ships; its inference needs numpy only."""
