"""Sources that say of themselves how their kernels are launched: files with entries, and `// tilewright:` lines."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tilewright.core.errors import ConfigError, KernelNotFoundError, nearest
from tilewright.kernels.constants import aliases, values_of, whole
from tilewright.kernels.source.expressions import Expression
from tilewright.kernels.source.host_code import without_host_code
from tilewright.kernels.source.signature import Signature, closing, signatures, split, without_comments

SUFFIX = ".cu"

_LINE = re.compile(r"^[ \t]*//[ \t]*tilewright:(.*)$", re.MULTILINE)
_WORD = re.compile(r"(\w+)=((?:\([^()]*(?:\([^()]*\)[^()]*)*\)|<[^<>]*>|\[[^\[\]]*\]|[^\s(<\[])+)")


_NAMED = re.compile(r'[^"\\]+')
"""Names of files that can stand in a source, in quotes."""


def read(source_name: str) -> tuple[Path, str, str]:
    """A source file, its text, and which of its kernels is meant, '' where that is not said.

    Args:
        source_name: the file's path; behind a colon the kernel.

    Raises:
        KernelNotFoundError: there is no such file, or its name cannot stand in a source.
    """
    path, _, entry = source_name.partition(f"{SUFFIX}:")
    file = Path(path + SUFFIX if entry else source_name)
    if not _NAMED.fullmatch(file.name) or not file.name.isprintable():
        raise KernelNotFoundError(
            f"no kernel can be read from {file}: compilers do not take such a name of a file, which has a quote, a "
            f"backslash or a control character in it, or is no UTF-8"
        )
    try:
        return file, file.read_text(encoding="utf-8"), entry
    except OSError as error:
        raise KernelNotFoundError(f"no kernel can be read from {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KernelNotFoundError(f"no kernel can be read from {file}: it is no text") from None


def is_source(text: str) -> bool:
    """Whether a kernel's name is that of a file, as in 'my_gemm.cu' or 'my_gemm.cu:entry'."""
    return text.partition(f"{SUFFIX}:")[0].removesuffix(SUFFIX) != text


def chosen(file: Path, text: str, name: str) -> Signature:
    """The kernel of this name, or the only one.

    Raises:
        KernelNotFoundError: the text has none, or several of which none is named.
        ConfigError: what runs on the GPU launches kernels.
    """
    if "<<<" in text and "<<<" in without_comments(without_host_code(text)):
        raise ConfigError(f"{file.name} launches kernels (<<<) on the GPU, or where its brackets do not match")
    found = {signature.name: signature for signature in signatures(text)}
    if not found:
        raise KernelNotFoundError(f"{file.name} defines no __global__ function")
    if not name:
        if len(found) > 1:
            raise KernelNotFoundError(
                f"{file.name} has several kernels: name one, as in {file.name}:{next(iter(found))}; "
                f"there are {', '.join(found)}"
            )
        return next(iter(found.values()))
    if name not in found:
        raise KernelNotFoundError(f"{file.name} has no kernel {name!r}{nearest(name, found)}")
    return found[name]


def words_of(file: Path, text: str, name: str) -> dict[str, str]:
    """Words of the comment lines of all kernels, and of those with entry=name.

    Raises:
        ConfigError: a line does not read NAME=VALUE.
    """
    found: dict[str, str] = {}
    for line in _LINE.finditer(text):
        words = split_words(line[1], f"{file.name}:{text.count(chr(10), 0, line.start()) + 1}: a tilewright line")
        if words.get("entry", name).partition("<")[0] == name:
            found |= words
    return found


def split_words(text: str, subject: str) -> dict[str, str]:
    """Words NAME=VALUE by their names; a value has spaces only inside of brackets.

    Args:
        text: the words.
        subject: how a message begins.

    Raises:
        ConfigError: the text has something else.
    """
    if rest := _WORD.sub("", text).strip():
        raise ConfigError(f"{subject} must read NAME=VALUE ..., got {rest!r}")
    return dict(_WORD.findall(text))


def definitions(texts: Iterable[str]) -> dict[str, str]:
    """Values by their names, of texts such as 'TS=16' or 'TS=16:8,16,T=half'.

    Raises:
        ConfigError: one does not read NAME=VALUE.
    """
    found: dict[str, str] = {}
    for text in texts:
        name = ""
        for part in split(text):
            if named := re.fullmatch(r"\s*([A-Za-z_]\w*)=\s*(\S.*?)\s*", part):
                name, found[named[1]] = named[1], named[2]
            elif name and "=" not in part:  # as in '16:8,16'
                found[name] += f",{part.strip()}"
            else:
                raise ConfigError(f"--define must read NAME=VALUE, as in TS=16 or T=half, got {text!r}")
    return found


def arguments_of(template: Sequence[str], entry: str) -> dict[str, str]:
    """A template's arguments by the names of its parameters, of an entry point such as 'own<16,float>'."""
    given = split(entry.partition("<")[2].removesuffix(">"))
    return {name: argument.strip() for name, argument in zip(template, given, strict=False)}


def typed(signature: Signature, arguments: str, kinds: Mapping[str, str]) -> Signature:
    """A signature with types of the compiler's own for those that a template's arguments or macros name.

    Args:
        signature: a kernel's.
        arguments: arguments of its template, as in '16,float>', or ''.
        kinds: what other names stand for.
    """
    of_template = arguments_of(signature.template, f"<{arguments}")
    known = {**kinds, **{name: given for name, given in of_template.items() if given != name}}

    def kind_of(name: str) -> str:
        left = dict(known)
        while name in left:
            name = " ".join(left.pop(name).split())
        return name

    return signature._replace(arguments=tuple(one._replace(type=kind_of(one.type)) for one in signature.arguments))


@lru_cache
def _named_in(text: str) -> Mapping[str, str]:
    """Values and types that a source gives names to, as it writes them."""
    code = without_comments(without_host_code(text, functions_alone=True))
    return {**aliases(code), **values_of([code], {})}


class Known:
    """Names that expressions may have: parameters, and what the source itself gives values to.

    texts: the source's own values, and types, as it writes them.
    """

    def __init__(self, text: str, defaults: Mapping[str, int]) -> None:
        """Take them from a source's text, and from parameters with their defaults."""
        self.texts = _named_in(text)
        self._own = [name for name in self.texts if name not in defaults]
        self.names = self(defaults)

    def __call__(self, values: Mapping[str, int]) -> dict[str, int]:
        """The values of all, from those of the parameters."""
        texts = {**self.texts, **{name: str(value) for name, value in values.items()}}
        found = {name: whole(texts[name], texts) for name in self._own}
        return {**{name: value for name, value in found.items() if value is not None}, **values}


def template_arguments(signature: Signature, given: str, known: Mapping[str, object]) -> str:
    """The arguments of a template as C++ has them, '' of what is none: those given, else parameters of its names."""
    if not signature.template:
        return ""
    if given:
        return f"<{given}"
    for name in signature.template:
        if name not in known:
            raise ConfigError(
                f"nothing says what {name} of {signature.name} is: write above it what its template's arguments are, "
                f"as in\n// tilewright: {name}=16 or // tilewright: entry={signature.name}<16,float>\n"
                f"or give --define {name}=16"
            )
    return f"<{','.join(signature.template)}>"


def with_values(template: str, values: Mapping[str, int | str]) -> str:
    """A template's arguments with values in the place of these names."""
    return re.sub(r"\w+", lambda word: str(values.get(word[0], word[0])), template)


def expressions(word: str, text: str, known: Mapping[str, object]) -> list[Expression]:
    """One expression, or those between brackets and commas, of known names.

    Raises:
        ConfigError: one is no number, or has an unknown name.
    """
    bracketed = text.startswith("(") and closing(text, 0) == len(text) - 1
    found = [Expression(part, word) for part in split(text[1:-1] if bracketed else text)]
    for expression in found:
        expression.check_names(known)
    return found


def cluster_of(words: Mapping[str, str], signature: Signature, known: Mapping[str, object]) -> Expression:
    """Blocks of a cluster, along x: by the word, or by the kernel's `__cluster_dims__`; 1 where there is neither.

    Raises:
        ConfigError: it is no number, or has an unknown name, or clusters have blocks along y or z.
    """
    blocks, *others = split(words.get("cluster") or signature.cluster or "1")
    if others and any(one.strip() != "1" for one in others):
        raise ConfigError(f"clusters must have blocks along x alone, got {signature.cluster} of {signature.name}")
    return expressions("cluster", blocks, known)[0]


class Extents:
    """Extents along x, y and z of a grid or a block, which follow from other numbers."""

    def __init__(self, word: str, text: str, known: Mapping[str, object]) -> None:
        """One to three expressions of known names.

        Args:
            word: what they are of, for messages.
            text: the expressions.
            known: names that they may have.

        Raises:
            ConfigError: as `expressions`, or there are more.
        """
        self._found = expressions(word, text, known)
        if len(self._found) > 3:
            raise ConfigError(f"{word} must have one to three numbers, got {text}")

    def __call__(self, values: Mapping[str, int]) -> tuple[int, int, int]:
        """The extents.

        Raises:
            ConfigError: one is not whole.
        """
        x, y, z = [*(of(values) for of in self._found), 1, 1][:3]
        return x, y, z

    def floored(self, values: Mapping[str, int]) -> int:
        """Their product where quotients are rounded down, see `Expression.floored`."""
        return math.prod(of.floored(values) for of in self._found)
