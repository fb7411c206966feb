"""`__launch_bounds__`, worked out by the compiler: a host's has no place for it, so that a source gets a constant with
its numbers behind the kernel that it is of, where all names mean the same.
"""

import re

from tilewright.kernels.signature import closing, heads, split, without_comments, without_directives

_BOUNDS = re.compile(r"\b__launch_bounds__\s*(?=\()")
_TEMPLATE = re.compile(r"\btemplate\s*(?=<)")
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?!\()((?:\\\n|[^\n])*\b__launch_bounds__(?:\\\n|[^\n])*)", re.MULTILINE
)
"""One without parameters that has launch bounds, alone or with others."""
_NAME = "simt_launch_bounds_of_"


def with_launch_bounds(text: str, entry: str) -> tuple[str, str]:
    """A source with a constant of its kernel's launch bounds, three numbers of which 0 says nothing, and what C++ calls
    that; '' where it has none.

    Args:
        text: the source; its lines stay where they are.
        entry: the kernel; of a template, with its arguments.
    """
    if "__launch_bounds__" not in text:
        return text, ""
    code = without_comments(text)
    macros = {one[1]: one[2].replace("\\\n", " ") for one in _MACRO.finditer(code)}
    code = without_directives(code)
    name, _, arguments = entry.partition("<")
    for head in heads(code):
        if head.name != name or not head.body:
            continue
        before = head.before[max(map(head.before.rfind, ";{}")) + 1 :]
        said = before + code[len(head.before) : head.begin]
        said = re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), said)
        if (bounds := _BOUNDS.search(said)) is None:
            continue
        numbers = split(said[bounds.end() + 1 : closing(said, bounds.end())])
        template = _TEMPLATE.search(before)
        parameters = before[template.start() : closing(before, template.end()) + 1] if template else ""
        values = ", ".join(f"unsigned({' '.join(one.split())})" for one in numbers)
        constant = f" {' '.join(parameters.split())} constexpr unsigned {_NAME}{name}[3] = {{{values}}};"
        end = closing(code, head.body - 1) + 1
        return text[:end] + constant + text[end:], _NAME + name + (f"<{arguments}" if arguments else "")
    return text, ""
