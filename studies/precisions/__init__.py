"""What float32 products may be computed in, speed against error: `python -m studies.precisions`."""
