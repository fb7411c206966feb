"""`python -m tilewright`: the command line."""

from tilewright.tools.cli.main import main

main()
