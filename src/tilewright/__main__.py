"""`python -m tilewright`: the command line."""

from tilewright.cli.main import main

main()
