"""The command line, one file a command."""

import gc

gc.freeze()  # what is imported until here stays: collections during all other imports need not look at it
