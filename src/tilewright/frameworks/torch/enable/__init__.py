"""enable(): products of PyTorch that run here, and what decides which."""
