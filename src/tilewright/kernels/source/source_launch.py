"""How kernels of source files are launched: one grammar, of words in comment lines and of a caller.

    // tilewright: block=(BM,BN) grid=(ceil(N/BN),ceil(M/BM)) BM=16:8,16,32 BN=16
    __global__ void my_gemm(const float* A, const float* B, float* C, int M, int N, int K)

    // tilewright: grid=rows block=256 x=float32[rows,cols] y=out:float32[rows,cols] rows=1024 cols=512
    __global__ void softmax(const float* x, float* y, int rows, int cols)

| word of any kernel | |
| --- | --- |
| block=(x,y,z) | threads of a block, one to three numbers, which may follow from integers and macros |
| grid=(x,y,z) | blocks, which of a matrix product may follow from M, N and K too |
| shared=bytes | dynamic shared memory of a block, 0 if left out |
| cluster=blocks | blocks of a cluster, if left out as `__cluster_dims__` has them |
| maps=a:A(64,64) | tensor maps among the parameters: see `map_words` |
| NAME=default:values | a macro of the source, in capitals, or an argument of its template, and values to try |
| entry=name<A,B> | a template's arguments, if not macros of the same names; or whose line this is |

`roles` has the words of matrix products, `buffers` those of other kernels. A kernel is a matrix product unless
a buffer is said, or none of its parameters is a pointer.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tilewright.core.errors import ConfigError, nearest
from tilewright.kernels.grid_tiles import SIZES
from tilewright.kernels.kernel import Parameter
from tilewright.kernels.source.buffers import BUFFER, LaunchContents, contents_of, integers, sizes_of
from tilewright.kernels.source.expressions import Expression
from tilewright.kernels.source.lines import (
    Extents,
    Known,
    chosen,
    cluster_of,
    expressions,
    read,
    split_words,
    template_arguments,
    typed,
    with_values,
    words_of,
)
from tilewright.kernels.source.map_words import TYPE, MapWord, arrays_of_maps, counts, map_words
from tilewright.kernels.source.roles import PRODUCT_WORDS, named_as_product, roles_of
from tilewright.kernels.source.signature import Argument, Signature, constant_memory

_WORDS = ("block", "grid", "shared", "entry", "maps", "cluster")
REFERENCE = "reference"
"""The word for a function in NumPy, as 'path.py:function'."""
_VALUES = re.compile(r"\d+(:[\d,]*)?")
"""A macro's default, and values to try."""


class Geometry(NamedTuple):
    """Blocks of a launch, threads of a block, its dynamic shared memory and the blocks of a cluster, as expressions."""

    grid: Extents
    block: Extents
    shared: Expression
    cluster: Expression


@dataclass(frozen=True, kw_only=True)
class SourceLaunch:
    """A kernel of a source file, and how its lines and a caller say that it is launched.

    A matrix product is the launch whose parameters have `roles`, A, B and C among them: its sizes and its config come
    later. Any other kernel has `contents`, and numbers for all that it is launched with.

    What the compiler gets is known of every launch. Properties of the rest raise ConfigError, or DtypeError, where the
    words do not say it.
    """

    file: Path
    signature: Signature
    """Its parameters have types of the compiler's own, whatever the source calls them."""
    product: bool
    """Whether it is taken for a matrix product."""
    words: Mapping[str, str]
    """Values of all words that are said, by the words."""
    parameters: tuple[Parameter, ...]
    """Macros that are integers, and such arguments of the template."""
    texts: Mapping[str, str]
    """Other macros and arguments of the template, as 'half'."""
    template: str
    """Arguments of the template, as '<BM,float>', where names stand for what they are; '' of what is none."""
    known: Known
    """Names that the geometry may follow from."""
    values: Mapping[str, int]
    """These names at the parameters' defaults, and the integers that the kernel is launched with."""
    map_words: Mapping[str, MapWord]
    """Boxes and arrays of its tensor maps, by their names."""
    constants: Mapping[str, str]
    """Constant memory of the source of which something is said, and the C++ types of its elements."""

    @property
    def name(self) -> str:
        """As messages have it: 'softmax.cu:softmax'."""
        return f"{self.file}:{self.entry}"

    @property
    def entry(self) -> str:
        """The entry point, with a template's arguments."""
        return self.entry_with(self.known.names)

    def entry_with(self, values: Mapping[str, int]) -> str:
        """The entry point where names have these values."""
        return self.signature.name + with_values(self.template, {**self.texts, **values})

    @property
    def macros(self) -> dict[str, int | str]:
        """Macros of the source; arguments of a template are not among them."""
        given: dict[str, int | str] = {**{one.name: one.default for one in self.parameters}, **self.texts}
        return {name: value for name, value in given.items() if name not in self.signature.template}

    @property
    def defines(self) -> dict[str, int | str]:
        """Macros for the compiler: the source's, and how many maps pointers lead to."""
        return {**self.macros, **counts(self.map_words)}

    @property
    def has_geometry(self) -> bool:
        """Whether grid and block are said."""
        return {"grid", "block"} <= self.words.keys()

    @cached_property
    def geometry(self) -> Geometry:
        """How many blocks and threads there are; of a matrix product the grid may follow from M, N and K."""
        name, words = self.signature.name, self.words
        if not self.has_geometry:
            as_in = "block=(32,32) grid=(ceil(N/32),ceil(M/32))" if self.product else "block=256 grid=ceil(n/256)"
            raise ConfigError(
                f"{self.file.name} does not say how {name} is launched: write above it\n// tilewright: {as_in}\n"
                f"or give --block and --grid"
            )
        sizes = dict.fromkeys(SIZES, 0) if self.product else {}
        return Geometry(
            grid=Extents("grid", words["grid"], {**self.values, **sizes}),
            block=Extents("block", words["block"], self.values),
            shared=expressions("shared", words.get("shared", "0"), self.values)[0],
            cluster=cluster_of(words, self.signature, self.values),
        )

    @cached_property
    def roles(self) -> Mapping[str, Argument]:
        """The parameters of a matrix product by the names that runtime/arguments.py lays out."""
        return roles_of(self.file, self.signature, self.words, self._map_words)

    @cached_property
    def contents(self) -> LaunchContents:
        """Buffers, numbers and maps of a kernel that is no product."""
        return contents_of(self.signature, self.words, self.values, self._map_words, self.constants)

    @property
    def _map_words(self) -> Mapping[str, MapWord]:
        """The tensor maps; raises ConfigError where there is one of which nothing is said."""
        return self.map_words or map_words(self.signature, "", {})

    def checked(self) -> "SourceLaunch":
        """The launch of a kernel that is no product, whose words say all of it; else this raises what they lack."""
        _ = self.contents, self.grid, self.block, self.shared_bytes, self.cluster
        return self

    @cached_property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        return self.geometry.grid(self.values)

    @cached_property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return self.geometry.block(self.values)

    @cached_property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.geometry.shared(self.values)

    @cached_property
    def cluster(self) -> int:
        """Blocks of a cluster, along x."""
        return self.geometry.cluster(self.values)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)


def read_launch(place: str, args: str = "", defines: Mapping[str, str] | None = None, **words: str) -> SourceLaunch:
    """The launch of a kernel that is no matrix product, as a source's lines and these words say it.

    Args:
        place: the source file; behind a colon which of its kernels, where there are several.
        args: words of parameters and macros, as in 'x=float32[1024] y=out:float32[1024] n=1024'.
        defines: as `launch_of` takes them.
        words: further words, such as grid and block.

    Raises:
        KernelNotFoundError, ConfigError, DtypeError: as `launch_of`, or the words do not say all of it.
    """
    return launch_of(*read(place), split_words(args, "--args") | words, defines).checked()


def launch_of(
    file: Path,
    text: str,
    entry: str,
    words: Mapping[str, str] | None = None,
    defines: Mapping[str, str] | None = None,
    config: str = "",
) -> SourceLaunch:
    """The launch of a kernel, as a source's lines and these words say it.

    Args:
        file, text: the source.
        entry: the kernel's name, and behind it arguments of its template; '' for the only one.
        words: what replaces words of the source's lines.
        defines: macros, or arguments of its template, by name; they replace words of these names.
        config: values of macros, as in 'BM=64,BN=64'. A matrix product that can be launched takes none of them: its
            configs are chosen later.

    Raises:
        KernelNotFoundError: there is no such kernel.
        ConfigError: a word is not understood, or an argument of its template is missing; the message has what it got
            and what it takes.
    """
    name, _, template = entry.partition("<")
    signature, defines = chosen(file, text, name), defines or {}
    said = words_of(file, text, signature.name)
    if REFERENCE in said:  # from where the source lies
        said[REFERENCE] = str(file.parent / said[REFERENCE])
    said |= words or {}
    template = template or said.get("entry", "").partition("<")[2]
    product, certain = _is_product(signature, said)
    if config and not (product and {"grid", "block"} <= said.keys()):
        said |= split_words(config.replace(",", " "), "--config")
    said = {word: value for word, value in said.items() if word not in defines}
    own = tuple(one.name for one in signature.arguments)
    constants = {} if product else {one: of for one, of in constant_memory(text).items() if one in {*said} - {*own}}
    arrays = () if product else (*arrays_of_maps(said.get("maps", "")), *constants)
    takes = (*_WORDS, *PRODUCT_WORDS) if product else (*own, *_WORDS, REFERENCE, *arrays)
    sizes = sizes_of(arrays, said) - {*takes}
    macros = {**{word: value for word, value in said.items() if word not in {*takes, *sizes}}, **defines}
    for macro, value in macros.items():
        in_words = _VALUES.fullmatch(value) and (macro.isupper() or macro in signature.template)
        if not (in_words or macro in defines) or (product and macro in SIZES):
            raise _unknown(signature, f"{macro}={value}", takes if certain else (*own, *takes))
    counted = {macro: value for macro, value in macros.items() if _VALUES.fullmatch(value)}
    parameters = tuple(_parameter(macro, value) for macro, value in counted.items())
    texts = {macro: value for macro, value in macros.items() if macro not in counted}
    known = Known(text, {one.name: one.default for one in parameters})
    template = template_arguments(signature, template, {**known.names, **texts})
    signature = typed(signature, template.removeprefix("<"), {**known.texts, **texts})
    values = known.names if product else integers(signature, said, sizes, known.names)
    return SourceLaunch(
        file=file,
        signature=signature,
        product=product,
        words=said,
        parameters=parameters,
        texts=texts,
        template=template,
        known=known,
        values=values,
        map_words=map_words(signature, said["maps"], values) if "maps" in said else {},
        constants=constants,
    )


def _is_product(signature: Signature, said: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether a kernel is taken for a matrix product, and whether anything says so or that it is none.

    Args:
        signature: the kernel's.
        said: words by their names.
    """
    pointers = any(one.pointer or one.type == TYPE for one in signature.arguments)
    if not pointers or REFERENCE in said or any(BUFFER.fullmatch(value) for value in said.values()):
        return False, True
    if named_as_product(signature) or said.keys() & {*PRODUCT_WORDS}:
        return True, True
    numbers = said.keys() & {one.name for one in signature.arguments}
    return not numbers, bool(numbers)


def _unknown(signature: Signature, word: str, takes: Sequence[str]) -> ConfigError:
    """An error for a word that is none of those that a kernel takes."""
    known, name = (*takes, *signature.template), word.partition("=")[0]
    return ConfigError(
        f"{word} is nothing that {signature.name} takes: there are {', '.join(known)}, and macros of the source in "
        f"capitals, which are integers, as in BM=64 or BM=64:32,64,128{nearest(name, known, listed=True)}"
    )


def _parameter(name: str, text: str) -> Parameter:
    """A macro of the source, of a default and values to try."""
    default, _, others = text.partition(":")
    values = {int(default), *map(int, filter(None, others.split(",")))}
    return Parameter(name, int(default), tuple(sorted(values)), "of the source", 0)
