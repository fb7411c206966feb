"""`__launch_bounds__`, worked out by the compiler: a host's has no place for it, so that a source gets a constant with
its numbers ahead of the kernel that it is of, where all names mean the same.
"""

import re

from tilewright.kernels.source.signature import closing, edited, heads, split, without_comments, without_directives

_BOUNDS = re.compile(r"\b__launch_bounds__\s*(?=\()")
_TEMPLATE = re.compile(r"\btemplate\s*(?=<)")
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?!\()((?:\\\n|[^\n])*\b__launch_bounds__(?:\\\n|[^\n])*)", re.MULTILINE
)
"""One without parameters that has launch bounds, alone or with others."""
_NAME = "simt_launch_bounds_of_kernel"


def with_launch_bounds(text: str, entry: str) -> str:
    """A source with a constant of its kernel's launch bounds for launches to look at: three numbers, of which 0 says
    nothing. For compilers all else is on the lines where it was.

    Args:
        text: the source.
        entry: the kernel; of a template, with its arguments.
    """
    if "__launch_bounds__" not in text:
        return text
    code = without_comments(text)
    macros = {one[1]: one[2].replace("\\\n", " ") for one in _MACRO.finditer(code)}
    code = without_directives(code)
    name, _, arguments = entry.partition("<")
    edits = []
    for head in heads(code):
        before = head.before[max(map(head.before.rfind, ";{}")) + 1 :]
        said = before + code[len(head.before) : head.begin]
        said = re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), said)
        if head.name != name or (bounds := _BOUNDS.search(said)) is None:
            continue
        numbers = split(said[bounds.end() + 1 : closing(said, bounds.end())])
        template = _TEMPLATE.search(before)
        parameters = before[template.start() : closing(before, template.end()) + 1] if template else ""
        values = ", ".join(f"unsigned({one})" for one in numbers)
        constant = " ".join(f"{parameters} constexpr unsigned {_NAME}[3] = {{{values}}};".split())
        begin = len(head.before) - len(before.lstrip())
        known = f"\n#ifndef {_NAME}_known\n{constant}\n#define {_NAME}_known\n#endif\n"
        edits.append((begin, begin, f"{known}#line {text.count(chr(10), 0, begin) + 1}\n"))
    if not edits:
        return text
    asked = f"\n#ifdef {_NAME}_known\nSIMT_LAUNCH_BOUNDS({_NAME}{f'<{arguments}' if arguments else ''})\n#endif"
    return edited(text, edits) + asked
