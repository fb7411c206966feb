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
    needs_name: bool = False
    """Whether what it becomes is a name, which the file must have."""


def _operator(name: str, pattern: str, replacement: str | dict[str, str]) -> Operator:
    if isinstance(replacement, str):
        return Operator(name, re.compile(pattern), lambda match: match.expand(replacement))
    return Operator(name, re.compile(pattern), lambda match: replacement[match[0]])


def _exchange(name: str, pattern: str, *pairs: tuple[str, str]) -> Operator:
    """One name in the place of another, either way."""
    other = {one: two for pair in pairs for one, two in (pair, pair[::-1])}
    return Operator(name, re.compile(pattern % "|".join(other)), lambda match: other[match[0]], needs_name=True)


_USED = r"(?:(?<=\.)|(?<=[*/] )|(?<=\b[ABCD], ))(?:%s)\b(?!, 0, )"
"""A member or a factor of an address, and no declaration; not the length of lines of which the first begins there."""

_CALL = r"(?:<[^;<>]*>)?\([^;{]*\);"


def _compared(match: re.Match[str]) -> str:
    return "true" if "!=" in match[0] else "false"


OPERATORS = (
    _operator(
        "no barrier",
        r"(?<![\w.])(?:__syncthreads|__syncwarp|cluster_sync|cluster_sync_relaxed|sync_block|sync_warps)" + _CALL,
        ";",
    ),
    _operator("no fence", r"(?<![\w.])(?:__threadfence|fence_\w+)" + _CALL, ";"),
    _operator(
        "no wait",
        r"(?<![\w.])(?:wait_\w+|\w+_wait|commit_\w+)" + _CALL,
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
    _operator("epilogue", r"__fadd_rn\(x, (of_\w+)\)", r"__fadd_rn(ACTIVATION::of<T>(x), \1)"),
    _operator("epilogue", r"(?<=return )ACTIVATION::of<T>\(x\)", "x"),
    _operator("epilogue", r"(?<=if \()BIAS::OF_(?:ROWS|COLUMNS)(?=\) x)", "false"),
    _exchange("epilogue", r"(?<=bias\.)(?:%s)(?=\()", ("of_row", "of_column")),
    _exchange("lines and steps", _USED, ("ldd", "ldc"), ("lda", "ldb"), ("step_a", "step_b")),
    _exchange("lines and steps", _USED, ("batch_stride_d", "batch_stride_c"), ("batch_stride_a", "batch_stride_b")),
    _exchange("lines and steps", _USED, ("step_k_a", "step_k_b")),
    _operator("no scale", r"\b(?:alpha|beta) \* (?=[*\w(])", ""),
    _operator("no scale", r"(?<=\*= )(?:of_\w+(?:\[[^\]]*\])?|__uint_as_float\([^;]*\))(?=;)", "1.0f"),
    _operator("no scale", r"__fmul_rn\(alpha, (\w+)\)", r"\1"),
    _operator("no scale", r"fmaf\(beta, (\w+), (\w+)\)", r"(\1 + \2)"),
    _operator("no scale", r"\b(?:result\.)?scale\(((?:sum|pair)s?(?:\[[^\]]*\])*)\)", r"\1"),
    _operator("no scale", r"\bsum_scales\.scale\([^;]*\);", ";"),
    _operator("no scale", r"(?<=scale_of\()(?:scales\.)?[ab](?=, )", "nullptr"),
    _operator("no scale", r"(?<=[\w\]]) \* now\.of_columns", ""),
    _operator("NaN and infinity", r"(\w+) < 0\.0f \? 0\.0f : \1", r"\1 > 0.0f ? \1 : 0.0f"),
    _operator("NaN and infinity", r"!\((fabsf\([^()]*\)) >= (\w+)\)", r"(\1 < \2)"),
    Operator("NaN and infinity", re.compile(r"(?:\w+\.)?(?:beta|alpha) (?:== |!= )0\.0f"), _compared),
    _operator("NaN and infinity", r"0x7f800000\b", "0x7f800001"),
    _operator("swizzle width", r"\bswizzled\((?=\w+, )", "swizzled<LINE_BYTES / 2>("),
    _operator("swizzle width", r"(?<=[\w)] )% \(BYTES / 16\)", "% (BYTES / 32)"),
    _operator("swizzle width", r"(?<=\^ )\(?(\w+) / (4|PIECE)\b(?!\))", r"(\1 / (2 * \2)"),
    _operator("swizzle width", r"(?<=% )SWIZZLED\b", "(SWIZZLED / 2)"),
    _operator("swizzle width", r">> 3 & \(BK / 4 - 1\)", ">> 3 & (BK / 8 - 1)"),
    _operator("off by one", r"\b(barrier_init\(&[^,]+, )1\)", r"\g<1>2)"),
    _operator("off by one", r"\b(barrier_init\(&[^,]+, )(?!1\))([^;]+)\);", r"\1\2 - 1);"),
    _operator("off by one", r"\b(barrier_expect_bytes\([^;]*, )([^;,]+)\);", r"\1\2 - 16);"),
    _operator("off by one", r"(?<=wait_turn\()number\b", "number + 1"),
    _operator("off by one", r"(?<=release\()(?:turn\.)?before\b", "(turn.stage)"),
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
                after = operator.changed(match)
                if operator.needs_name and not re.search(rf"\b{after}\b", text):
                    continue
                yield Mutant(file, operator.name, number, match.start(), match[0], after)
