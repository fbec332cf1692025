"""What a run says of language: paraphrases, PRIDE, failure types, listening."""
