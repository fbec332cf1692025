"""LIBERO-Para: LIBERO-Goal's ten tasks under 4,092 paraphrases of their instructions."""
