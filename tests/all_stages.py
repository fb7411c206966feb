"""The cases of a check whose user names no problem, whatever their stage."""

import itertools

from tilewright.tools.bench.check_cases import stages


def own_cases(*arguments, **options):
    """The cases of `check_cases.stages`, which says what the arguments are."""
    return list(itertools.chain(*stages(*arguments, **options)))
