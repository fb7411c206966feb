"""Steps of models under enable()."""
