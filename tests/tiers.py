"""The two tiers of tests: `make test` runs one of each kind, `make test-all` the rest.

    @pytest.mark.further        the whole test is of further configs, sizes, architectures or records
    @pytest.mark.one_of_each("kernel", "case.dtype")
                                of its parameters, these are kinds: it runs once with each value of each,
                                and what shows no new one is further
    @pytest.mark.first(3)       its parameters are of one kind: it runs with the first three

A test without any of them runs in `make test`.
"""

from collections import defaultdict
from functools import reduce

import pytest


def mark_further(items):
    """Mark what `first` and `one_of_each` leave over, the same in every process: tests are in the same order there."""
    groups = defaultdict(list)
    for item in items:
        groups[item.nodeid.partition("[")[0]].append(item)
    for of_test in groups.values():
        if marker := of_test[0].get_closest_marker("first"):
            left = of_test[marker.args[0] :]
        elif of_test[0].get_closest_marker("one_of_each"):
            left = _of_no_new_kind(of_test)
        else:
            continue
        for item in left:
            item.add_marker(pytest.mark.further)


def _of_no_new_kind(items):
    """Items of a test that are left when each that adds most kinds has been taken, one by one."""
    left, seen = [(item, _kinds(item)) for item in items], set()
    while left:
        item, kinds = max(left, key=lambda one: len(one[1] - seen))
        if kinds <= seen:
            break
        seen |= kinds
        left.remove((item, kinds))
    return [item for item, _ in left]


def _kinds(item):
    """The values of the parameters that are kinds."""
    names = item.get_closest_marker("one_of_each").args
    if not names:
        raise pytest.UsageError(f"{item.nodeid}: one_of_each names the parameters that are kinds")
    return {(name, _value(item, name)) for name in names}


def _value(item, name):
    """A parameter, or an attribute or element of one, as text."""
    parameter, *attributes = name.split(".")
    if parameter not in item.callspec.params:
        raise pytest.UsageError(f"{item.nodeid}: one_of_each names {parameter}, and its parameters are others")
    return repr(reduce(_part, attributes, item.callspec.params[parameter]))


def _part(value, name):
    return value[int(name)] if name.isdigit() else getattr(value, name)
