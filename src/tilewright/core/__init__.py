"""The vocabulary of all other packages: problems and their words, GPUs, errors, files. Nouns without behaviour."""
