"""The product as an operation of JAX: call.py checks arrays, product.py is the primitive, lowering.py how it runs."""
