"""Float32 products of values that 16-bit parts cannot represent."""
