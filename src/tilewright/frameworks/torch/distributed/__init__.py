"""Products of several processes: products.py the functions, overlapped.py and sequences.py what runs next to what."""
