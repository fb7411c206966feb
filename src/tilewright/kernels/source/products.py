"""Kernels from anybody's CUDA C++ source: how they are called is read from their signatures, and from comment lines.

    // tilewright: block=(BM,BN) grid=(ceil(N/BN),ceil(M/BM)) BM=16:8,16,32 BN=16
    __global__ void my_gemm(const float* A, const float* B, float* C, int M, int N, int K)

| word | |
| --- | --- |
| block=(x,y,z) | threads of a block, one to three numbers, which may follow from parameters |
| grid=(x,y,z) | blocks, which may follow from M, N and K too |
| shared=bytes | dynamic shared memory of a block, 0 if left out |
| args=A,B,C,M,N,K | what the parameters are, where names do not say: also lda, ldb, ldc, alpha, beta, and 0 |
| layout=NT | orders of A and B, N row-major and T column-major, NN if left out |
| C=column | C is column-major; row-major if left out. Such a kernel computes the row-major D = B^T A^T: see below |
| maps=a:A(64,64) | tensor maps among the parameters: see `map_words` |
| precision=tf32 | factors are rounded to TF32, or float32: they are not; if left out, as its instructions do |
| cluster=blocks | blocks of a cluster, if left out as `__cluster_dims__` has them |
| tile=(m,n,k) | rows and columns of C that a block computes, and steps along k; if left out, by the grid, and 32 |
| NAME=default:values | a parameter: a macro of the source, with values to try |
| entry=name<A,B> | a template's arguments, if not parameters of the same names; or whose line this is |

A kernel computes C = A @ B, or with alpha and beta C = alpha * A @ B + beta * C, of matrices that lie without gaps
where it has no leading dimension of them.

Problems have row-major results. A column-major C is a row-major C^T = B^T A^T in the same memory: what the source calls
A is the problem's B, transposed, its M the problem's N, its lda the problem's ldb, and the other way round.
"""

import hashlib
import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ConfigError, DtypeError, nearest
from tilewright.core.problem import LAYOUTS, PRECISIONS, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import PLAIN, CostFamily, Count, Staging, Warpgroups
from tilewright.kernels.grid_tiles import SIZES, tile_of_grid
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.source.host_code import reached
from tilewright.kernels.source.lines import (
    SUFFIX,
    Extents,
    Known,
    cluster_of,
    expressions,
    read,
    said_of,
    split_words,
    template_arguments,
    typed,
    with_values,
)
from tilewright.kernels.source.map_words import TYPE, MapWord, counts, map_words, maps_behind
from tilewright.kernels.source.signature import IN_C, Argument, Signature
from tilewright.kernels.source.source_kernel import Origin, SourceKernel
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox

START = Path(__file__).parents[1] / "start.cu"
"""A kernel to begin with, of this name."""
_KNOWN = ("block", "grid", "shared", "args", "layout", "C", "tile", "entry", "maps", "cluster", "precision")
_VALUES = re.compile(r"\d+(:[\d,]*)?")
_STEP = 32
"""Along k, where nothing is said."""

_ELEMENTS = {
    "float": "float32", "half": "float16", "__half": "float16",
    "nv_bfloat16": "bfloat16", "__nv_bfloat16": "bfloat16", "tf32": "float32",
}  # fmt: skip
_NARROW, _WIDE = (
    tuple(name for name, dtype in IN_C.items() if dtype in types)
    for types in (("int32", "uint32"), ("int64", "uint64"))
)
"""Integers of 32 and of 64 bits."""

_ROLES = {
    "A": "A_data", "B": "B_data", "C": "D_data", "M": "M", "N": "N", "K": "K",
    "lda": "lda", "ldb": "ldb", "ldc": "ldd", "alpha": "alpha", "beta": "beta",
}  # fmt: skip
"""What parameters may be, and what `engines.arguments` calls them."""
_ROUNDED = "tf32"
"""The precision of factors that are rounded to it, and the element type of maps that round them."""
_NULL = "0"
"""Of a parameter that is given 0, or no address: one for debugging, say."""
_EXCHANGED = {"A": "B", "B": "A", "M": "N", "N": "M", "lda": "ldb", "ldb": "lda"}
"""What a problem calls that of a source whose C is column-major."""
_MATRICES = ("A", "B", "C")
_FACTOR_MAPS = frozenset(("A_map", "B_map"))
_TENSOR_MAPS_CAPABILITY = (9, 0)
_USUAL = {role.lower(): role for role in _ROLES} | {"d": "C", "out": "C", "result": "C", "ldd": "ldc"}
_FRAGMENTS = re.compile(r"\bmma\.sync\b|\bmma_sync\b")
"""Of a source that multiplies by a warp's tensor-core instructions."""
_COPIES = re.compile(r"\bcp\.async\.c[ag]\b|\b__pipeline_memcpy_async\b|\bmemcpy_async\b")
"""Of one whose threads ask for asynchronous copies into shared memory."""
_TF32 = re.compile(r"\.tf32\.tf32\b|\bprecision\s*::\s*tf32\b")
"""Of one that multiplies by those of TF32, wgmma's too."""
_AROUND_NAMES = re.compile(
    r"^(d_|dev_|g_|mat_?|matrix_?|in_|input_?|tensor_?map_?|tma_?(?:map_?)?|map_?)"
    r"|(_d|_dev|_ptr|_data|_mat|_matrix|_tma|_map|_tensor_?map)$",
    re.IGNORECASE,
)


def from_source(
    place: str | Path,
    entry: str = "",
    defines: Mapping[str, str | int] | None = None,
    **words: str | int | tuple[str | int, ...],
) -> SourceKernel:
    """The kernel of a source file, or of a source's text.

    Args:
        place: the file's path, behind a colon which of its kernels, where there are several; or the text itself.
        entry: the same as behind a colon.
        defines: macros of the source, or arguments of its template, by name: integers, which are parameters then, and
            may have values to try, as in '16:8,16,32', and other texts, as in 'half'. They replace parameters of lines.
        words: as in a `// tilewright:` line, whose words they replace.

    Raises:
        KernelNotFoundError: there is no such file, or it has no such kernel.
        ConfigError: the file does not say how the kernel is launched, or what a parameter is.
        DtypeError: A, B and C have element types that there are no products of.
    """
    if isinstance(place, str) and "__global__" in place:
        file, text, named = _written(place), place, ""
    else:
        file, text, named = read(str(place))
    said = {
        word: f"({','.join(map(str, value))})" if isinstance(value, tuple) else f"{value}"
        for word, value in words.items()
    }
    for word, value in said.items():
        split_words(f"{word}={value}", word)
    given = tuple((name, f"{value}") for name, value in (defines or {}).items())
    return _made(file, text, Origin(str(place), entry or named, tuple(said.items()), given))


Kernel.reader = from_source


@lru_cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where texts are kept for as long as this process lives: compilers and profilers want files."""
    return tempfile.TemporaryDirectory(prefix="tilewright-sources-")


def _written(text: str) -> Path:
    """A file of a text, the same for the same text."""
    file = Path(_folder().name, hashlib.sha256(text.encode()).hexdigest()[:16], f"kernel{SUFFIX}")
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@lru_cache
def _made(file: Path, text: str, origin: Origin) -> SourceKernel:
    """Made once for each text: engines know a compiled kernel by this object."""
    *_, signature, words, given = said_of(file, text, origin.entry, dict(origin.words))
    defines = dict(origin.defines)
    counted = {name: value for name, value in defines.items() if _VALUES.fullmatch(value)}
    texts = {name: value for name, value in defines.items() if name not in counted}
    words = {word: value for word, value in words.items() if word not in defines}
    parameters = [*_parameters(words), *_parameters(counted, free=True)]
    known = Known(text, {parameter.name: parameter.default for parameter in parameters})
    values = lru_cache(known)
    template = template_arguments(signature, given, {**known.names, **texts})
    signature = typed(signature, template.removeprefix("<"), known.texts | texts)
    order = words.get("C", "row")
    if order not in ("row", "column"):
        raise ConfigError(f"C must be row or column, got {order!r}{nearest(order, ('row', 'column'), listed=True)}")
    exchanged = order == "column"
    maps = map_words(signature, words.get("maps", ""), known.names)
    roles = _roles(file, signature, words.get("args"), maps, exchanged)
    support = _support(file, signature, roles, maps, words.get("layout", "NN"), exchanged)
    code = reached(text, signature.name)
    precision = _precision(file, words.get("precision", ""), code, support.factors[0])
    support = replace(support, precision=precision)
    if "wgmma" in code:
        support = replace(support, least_capability=_TENSOR_MAPS_CAPABILITY, architectures=("sm_90a",))
    boxes = {role: maps[argument.name].box for role, argument in roles.items() if argument.type == TYPE}
    constants: dict[str, int | str] = {**texts, **counts(maps)}
    for word in ("block", "grid"):
        if word not in words:
            raise ConfigError(
                f"{file.name} does not say how {signature.name} is launched: write above it\n"
                f"// tilewright: block=(32,32) grid=(ceil(N/32),ceil(M/32))\nor give --block and --grid"
            )
    block, grid = (
        Extents("block", words["block"], known.names),
        Extents("grid", words["grid"], {**known.names, **dict.fromkeys(SIZES)}),
    )
    shared = expressions("shared", words.get("shared", "0"), known.names)[0]
    cluster = cluster_of(words, signature, known.names)
    tile = expressions("tile", words["tile"], known.names) if "tile" in words else []
    if len(tile) not in (0, 3):
        raise ConfigError(f"tile must have three numbers, got {words['tile']}")

    def extents(problem: Problem, config: Config) -> tuple[int, int, int]:
        m, n = (problem.n, problem.m) if exchanged else (problem.m, problem.n)
        return grid({**values(config), "M": m, "N": n, "K": problem.k})

    @lru_cache
    def tile_by_grid(config: Config) -> Tile | ConfigError:
        try:
            m, n = tile_of_grid(lambda sizes: grid.floored({**values(config), **sizes}))
        except ConfigError as error:
            return ConfigError(
                f"grid={words['grid']} of {file.name} does not say which tile of C a block computes: {error}. Write "
                f"it, as in tile=(64,64,32)"
            )
        return Tile(m, n, _STEP)

    def tile_of(config: Config) -> Tile:
        if tile:
            m, n, k = (of(values(config)) for of in tile)
            found = Tile(m, n, k)
        else:
            by_grid = tile_by_grid(config)
            found = by_grid if isinstance(by_grid, Tile) else Tile(1, math.prod(block(values(config))), _STEP)
        return found._replace(m=found.n, n=found.m) if exchanged else found

    def box(name: str, config: Config) -> TensorBox | None:
        of = boxes.get(f"{name}_map")
        return of(values(config)) if of else None

    def stages(config: Config) -> int:
        of, item = tile_of(config), ITEM_BYTES[support.factors[0]]
        return max(shared(values(config)) // max((of.m + of.n) * of.k * item, 1), 1)

    def untold(config: Config) -> ConfigError | None:
        by_grid = None if tile else tile_by_grid(config)
        return by_grid if isinstance(by_grid, ConfigError) else None

    return SourceKernel(
        name=f"{file}:{origin.entry or signature.name}",
        idea=f"from {file}",
        source=file,
        parameters=tuple(parameters),
        tile=tile_of,
        untold=untold,
        block=lambda config: block(values(config)),
        support=support,
        arguments=_arguments(roles),
        shared_bytes=lambda config, layout: shared(values(config)),
        tensor_maps=(lambda config, *_: (box("A", config), box("B", config))) if boxes.keys() & _FACTOR_MAPS else None,
        stored_box=(lambda config, item_bytes: box("D", config)) if "D_map" in boxes else None,
        cluster=lambda config: cluster(values(config)),
        extents=extents,
        rounding_maps=any(maps[roles[role].name].dtype == _ROUNDED for role in boxes.keys() & _FACTOR_MAPS),
        cost=_cost(code, bool(boxes.keys() & _FACTOR_MAPS), stages),
        constants=lambda config: constants,
        template=signature.template,
        entry_point=lambda config: signature.name + with_values(template, {**texts, **values(config)}),
        origin=origin,
        exchanged=exchanged,
    )


def _precision(file: Path, said: str, code: str, factors: str) -> str | None:
    """What factors are rounded to before they are multiplied: said, or by the instructions of a kernel's code."""
    if said not in ("", _ROUNDED, PRECISIONS[0]):
        raise ConfigError(f"{file.name}: precision must be {_ROUNDED} or {PRECISIONS[0]}, got {said}")
    if said == _ROUNDED and factors != "float32":
        raise DtypeError(f"{file.name}: precision={said} is for factors of float32, got {factors}")
    rounds = said == _ROUNDED if said else factors == "float32" and _TF32.search(code) is not None
    return _ROUNDED if rounds else None


def _cost(code: str, by_maps: bool, stages: Count) -> CostFamily:
    """The family of kernels whose times are predicted alike, by what multiplies.

    stages: of tiles, as many as dynamic shared memory has room for.
    """
    if "wgmma" in code:
        return Warpgroups(copies="tensor maps" if by_maps else "registers", stages=stages)
    tensor_cores, copies = (found.search(code) is not None for found in (_FRAGMENTS, _COPIES))
    return Staging(tensor_cores=tensor_cores, copies=copies) if tensor_cores or copies else PLAIN


def _parameters(words: Mapping[str, str], free: bool = False) -> list[Parameter]:
    """The parameters that comment lines name.

    free: whether names need not be in capitals.
    """
    found = []
    for name, value in words.items():
        if name in _KNOWN:
            continue
        default, _, values_to_try = value.partition(":")
        numbers = [default, *filter(None, values_to_try.split(","))]
        if not (free or name.isupper()) or name in SIZES or not all(re.fullmatch(r"\d+", number) for number in numbers):
            raise ConfigError(
                f"{name}={value} is nothing that a tilewright line takes: there are {', '.join(_KNOWN)}, and "
                f"parameters of the source, as in BM=64:32,64,128, in capitals{nearest(name, _KNOWN, listed=True)}"
            )
        default_value, *others = map(int, numbers)
        values = tuple(sorted({default_value, *others}))
        found.append(Parameter(name, default_value, values, "of the source", 0))
    return found


def _roles(
    file: Path, signature: Signature, args: str | None, maps: Mapping[str, MapWord], exchanged: bool
) -> dict[str, Argument]:
    """The parameters by what `engines.arguments` calls them; of a pointer to several tensor maps, each of these."""
    behind = {one.name: maps_behind(one.name, maps) for one in signature.arguments if one.type == TYPE}
    usual = [
        "+".join(maps[name].array for name in behind[one.name]) if one.type == TYPE else _role(one)
        for one in signature.arguments
    ]
    given = args.split(",") if args else usual
    if len(given) != len(signature.arguments):
        raise ConfigError(f"args must name all {len(signature.arguments)} parameters of {signature.name}, got {args}")
    found: dict[str, Argument] = {}
    for role, argument in zip(given, signature.arguments, strict=True):
        if argument.type == TYPE:
            for array, name in zip_longest(role.split("+"), behind[argument.name], fillvalue=""):
                if (
                    name not in maps
                    or array not in _MATRICES
                    or array != maps[name].array
                    or maps[name].part is not None
                ):
                    of = "+".join(maps[one].array for one in behind[argument.name])
                    raise ConfigError(
                        f"{file.name}: {argument.name} of {signature.name} is a tensor map of {of}, "
                        f"which must be one of {', '.join(_MATRICES)}, and the same in args, got {role}"
                    )
                named = _named(array, exchanged).replace("_data", "_map")
                if named in found:
                    raise ConfigError(f"{file.name}: two tensor maps of {signature.name} are of {array}")
                found[named] = argument._replace(name=name)
            continue
        if role == _NULL and (argument.pointer or argument.type in (*_NARROW, *_WIDE, "float")):
            found[f"zero{64 if argument.pointer or argument.type in _WIDE else 32}#{len(found)}"] = argument
            continue
        if role not in _ROLES:
            what = f"args has {role!r}" if args else f"nothing says what {argument.name!r} is"
            raise ConfigError(
                f"{file.name}: {what}: parameters of {signature.name} may be {', '.join(_ROLES)}, or 0. Write above it "
                f"which they are, in their order, as in\n// tilewright: args=A,B,C,M,N,K\nor give --args A,B,C,M,N,K.\n"
                f"Or, of a kernel that is no matrix product, what each of them is, as in\n"
                f"// tilewright: x=float32[rows,cols] y=out:float32[rows,cols] rows=1024 cols=512"
            )
        name = _named(role, exchanged)
        is_float, is_pointer = role in ("alpha", "beta"), role in _MATRICES
        if argument.pointer != is_pointer or (is_float and argument.type != "float"):
            wanted = "a pointer" if is_pointer else "a float" if is_float else "an integer"
            raise ConfigError(f"{file.name}: {argument.name} of {signature.name} is {role}, which must be {wanted}")
        if not is_float and not is_pointer:
            if argument.type not in (*_NARROW, *_WIDE):
                raise ConfigError(
                    f"{file.name}: {argument.name} of {signature.name} must be an integer, got {argument.type}"
                )
            name += "64" if argument.type in _WIDE else ""
        if name in found:
            raise ConfigError(f"{file.name}: two parameters of {signature.name} are {role}")
        found[name] = argument
    for role in _MATRICES:
        if _ROLES[role] not in found and _ROLES[role].replace("_data", "_map") not in found:
            raise ConfigError(f"{file.name}: no parameter of {signature.name} is {role}")
    return found


def _arguments(roles: Mapping[str, Argument]) -> tuple[str, ...]:
    """What `engines.arguments` calls the parameters: several tensor maps behind one pointer are one."""
    found: list[str] = []
    for role, argument in roles.items():
        if "[" in argument.name and not argument.name.endswith("[0]"):
            found[-1] += f"+{role}"
        else:
            found.append(role)
    return tuple(found)


def _named(role: str, exchanged: bool) -> str:
    """What `engines.arguments` calls a parameter."""
    return _ROLES[_EXCHANGED.get(role, role) if exchanged else role]


def reads_as_product(place: str) -> bool:
    """Whether the names of a kernel's parameters say which are A, B and C.

    Raises:
        KernelNotFoundError, ConfigError: as `from_source`.
    """
    arguments = said_of(*read(place)).signature.arguments
    return set(_MATRICES) <= {_role(one) for one in arguments if one.pointer or one.type == TYPE}


def _role(argument: Argument) -> str:
    """What a parameter's name says that it is, if anything."""
    return _USUAL.get(_AROUND_NAMES.sub("", argument.name).lower(), "")


def _support(
    file: Path,
    signature: Signature,
    roles: Mapping[str, Argument],
    maps: Mapping[str, MapWord],
    layout: str,
    exchanged: bool,
) -> Support:
    if layout not in LAYOUTS:
        raise ConfigError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    if exchanged:  # the transposes of B and A
        layout = layout[::-1].translate(str.maketrans("NT", "TN"))
    said = {name: _element(file, signature, roles, maps, name) for name in "ABD"}
    usual = next(filter(None, said.values()), "")
    if not usual:
        raise DtypeError(
            f"{file.name}: nothing says of which elements the tensor maps of {signature.name} are: write it behind the "
            f"box of one, as in A(64,64,dtype=bfloat16)"
        )
    kinds = [kind or usual for kind in said.values()]
    if kinds[0] != kinds[1]:
        raise DtypeError(f"{file.name}: A and B of {signature.name} must have one type, got {kinds[0]} and {kinds[1]}")
    of_maps = {name: maps[roles[f"{name}_map"].name] for name in "ABD" if f"{name}_map" in roles}
    gaps = all(
        f"ld{name.lower()}" in roles or f"ld{name.lower()}64" in roles or f"{name}_data" not in roles for name in "ABD"
    ) and all(len(one.extents) > 1 for one in of_maps.values())
    panel_a, panel_b, panel_d = (of_maps[name].panel or 1 if name in of_maps else 1 for name in "ABD")
    return Support(
        factors=(kinds[0],),
        results=(kinds[2],),
        layouts=(layout,),
        gaps=gaps,
        vectorized="D" in of_maps,
        aligned=bool(of_maps),
        aligned_result="D" in of_maps,
        panels=(panel_a, panel_b, panel_d),
        least_capability=_TENSOR_MAPS_CAPABILITY if of_maps else Support.least_capability,
    )


def _element(
    file: Path, signature: Signature, roles: Mapping[str, Argument], maps: Mapping[str, MapWord], name: str
) -> str:
    """The element type of a matrix; '' where it has a tensor map that does not say."""
    pointer, map_ = roles.get(f"{name}_data"), roles.get(f"{name}_map")
    given = pointer.type if pointer else maps[map_.name].dtype if map_ else ""
    if not given or given in _ELEMENTS.values():
        return given
    if given not in _ELEMENTS:
        points = f"{pointer.name} of {signature.name} points to" if pointer else f"the dtype of a map of {name} is"
        raise DtypeError(f"{file.name}: {points} {given}; there are {', '.join(_ELEMENTS)}")
    return _ELEMENTS[given]
