"""Instructions as language: parsed, compared, paraphrased."""
