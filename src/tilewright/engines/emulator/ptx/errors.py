"""What is said of PTX that the emulator does not have."""


class UnknownError(Exception):
    """An instruction, or a form of one, that is not known here; the message names it."""
