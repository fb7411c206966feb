"""Files of this repository that no page of records is made of, by what their items have."""

from tilewright.core.files import Kind, json_kind, parsed


def _items_kind(name: str, *fields: str) -> Kind:
    """The kind of JSON lists whose first item has these fields."""

    def holds(content: bytes) -> bool:
        found = parsed(content)
        return isinstance(found, list) and bool(found) and isinstance(found[0], dict) and found[0].keys() >= set(fields)

    return Kind(name, holds)


COUNTERS = json_kind("a comparison of counters", "environment", "rows")

OF_REPOSITORY = (
    _items_kind("counts of rungs for the worklog", "kernel", "groups", "requested_bytes"),
    _items_kind("errors of ways to multiply for the worklog", "way", "inputs", "toward_zero"),
    _items_kind("times that the cost model predicts, next to measured ones", "predicted_us", "measured_us"),
    json_kind("counts of the sources' variants for the worklog", "accesses", "presets", "sweep"),
)
