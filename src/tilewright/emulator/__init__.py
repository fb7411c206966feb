"""The CPU engine: compiles `.cu` files with this machine's C++ compiler and runs them, a fiber for each GPU thread."""
