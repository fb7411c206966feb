"""Textual operators: each changes one place of a source in one way that may be a bug of its author."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Mutant(NamedTuple):
    """A change of one line of a file."""

    file: str
    operator: str
    line: int
    column: int
    before: str
    """The text that is replaced."""
    after: str

    def apply(self, text: str) -> str:
        lines = text.split("\n")
        line = lines[self.line - 1]
        assert line.startswith(self.before, self.column)
        lines[self.line - 1] = line[: self.column] + self.after + line[self.column + len(self.before) :]
        return "\n".join(lines)


@dataclass(frozen=True)
class Operator:
    name: str
    pattern: re.Pattern[str]
    changed: Callable[[re.Match[str]], str]


def _operator(name: str, pattern: str, replacement: str | dict[str, str]) -> Operator:
    if isinstance(replacement, str):
        return Operator(name, re.compile(pattern), lambda match: match.expand(replacement))
    return Operator(name, re.compile(pattern), lambda match: replacement[match[0]])


_CALL = r"(?:<[^;<>]*>)?\([^;{]*\);"

OPERATORS = (
    _operator(
        "no barrier",
        r"(?<![\w.])(?:__syncthreads|__syncwarp|cluster_sync|cluster_meet|sync_block|meet_warps)" + _CALL,
        ";",
    ),
    _operator("no fence", r"(?<![\w.])(?:__threadfence|fence_\w+)" + _CALL, ";"),
    _operator(
        "no wait",
        r"(?<![\w.])(?:wait_\w+|barrier_wait|commit_\w+)" + _CALL,
        ";",
    ),
    _operator("no arrival", r"(?<![\w.])(?:barrier_arrive\w*|barrier_expect_bytes)" + _CALL, ";"),
    _operator("one more pending", r"\b(wait_\w+)<([^<>;]+)>(?=\()", r"\1<\2 + 1>"),
    _operator(
        "comparison",
        r"(?<= )(?:<|<=|>|>=|==|!=)(?= )",
        {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    ),
    _operator("guard", r"(?<= )(?:&&|\|\|)(?= )", {"&&": "||", "||": "&&"}),
    _operator("no return", r"(?<=\) )return;", ";"),
    _operator("stage", r"\b(?:STAGES|COUNT) - 1\b", "(0)"),
    _operator("stage", r"\bstage - 1\b", "stage"),
    _operator("stage", r"\bstage \+ 1\b", "stage"),
    _operator("stage", r"(?<=if \()\+\+stage\b", "stage"),
    _operator("phase", r"\b(parity|buffer) \^= 1\b", r"\1 ^= 0"),
    _operator("phase", r"\b(parity|buffer) \^ 1\b", r"\1"),
    _operator("phase", r"(?<=, )((?:turn\.)?parity)(?=\);)", r"\1 ^ 1"),
    _operator("phase", r"\b(parity \^= .*) & 1\b", r"\1 & 0"),
    _operator("ticket", r"\b(atomic\w+)\(([^,]+), ([\w ]+) - 1\) == ", r"\1(\2, \3) == "),
    _operator("ticket", r" == (?!STAGES)([\w.]+) - 1\b(?!\))", r" == \1 - 2"),
)

_SKIPPED = re.compile(r"^\s*(?:#|static_assert|template\b|//)|asm volatile")


def mutants_of(text: str, file: str) -> Iterator[Mutant]:
    """All of a file, in the order of its lines. What is said to be there to be sure is no bug to leave out."""
    for number, line in enumerate(text.split("\n"), 1):
        code = line.partition("//")[0]
        if _SKIPPED.search(line) or "// to be sure" in line or re.match(r"__device__|extern", line):
            continue
        for operator in OPERATORS:
            for match in operator.pattern.finditer(code):
                yield Mutant(file, operator.name, number, match.start(), match[0], operator.changed(match))
