"""What all else is said in: problems and their words, GPUs, errors, files. Nouns without behaviour of their own."""
