"""Matrix products from anybody's CUDA C++ source: their launches as kernels of this package."""

import hashlib
import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ConfigError, DtypeError
from tilewright.core.problem import LAYOUTS, PRECISIONS, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import PLAIN, CostFamily, Count, Staging, Warpgroups
from tilewright.kernels.grid_tiles import tile_of_grid
from tilewright.kernels.kernel import Kernel, Tile
from tilewright.kernels.source.host_code import reached
from tilewright.kernels.source.lines import SUFFIX, expressions, read, split_words
from tilewright.kernels.source.map_words import TYPE, counts
from tilewright.kernels.source.signature import Argument
from tilewright.kernels.source.source_kernel import Origin, SourceKernel
from tilewright.kernels.source.source_launch import SourceLaunch, launch_of
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox

START = Path(__file__).parents[1] / "start.cu"
"""A kernel to begin with, of this name."""
_STEP = 32
"""Elements of a step along k, where nothing is said."""

_ELEMENTS = {
    "float": "float32", "half": "float16", "__half": "float16",
    "nv_bfloat16": "bfloat16", "__nv_bfloat16": "bfloat16", "tf32": "float32",
}  # fmt: skip
_ROUNDED = "tf32"
"""The precision of factors that are rounded to it, and the element type of maps that round them."""
_FACTOR_MAPS = frozenset(("A_map", "B_map"))
_TENSOR_MAPS_CAPABILITY = (9, 0)
_FRAGMENTS = re.compile(r"\bmma\.sync\b|\bmma_sync\b")
"""In a source that multiplies by a warp's tensor-core instructions."""
_COPIES = re.compile(r"\bcp\.async\.c[ag]\b|\b__pipeline_memcpy_async\b|\bmemcpy_async\b")
"""In a source whose threads ask for asynchronous copies into shared memory."""
_TF32 = re.compile(r"\.tf32\.tf32\b|\bprecision\s*::\s*tf32\b")
"""In a source that multiplies by tensor-core instructions of TF32, wgmma's too."""


def from_source(
    source_name: str | Path,
    entry: str = "",
    defines: Mapping[str, str | int] | None = None,
    **words: str | int | tuple[str | int, ...],
) -> SourceKernel:
    """The kernel of a source file, or of a source's text.

    Args:
        source_name: the file's path, behind a colon which of its kernels, where there are several; or the text itself.
        entry: the same as behind a colon.
        defines: macros of the source, or arguments of its template, by name: integers, which are parameters then, and
            may have values to try, as in '16:8,16,32', and other texts, as in 'half'. They replace parameters of lines.
        words: as in a `// tilewright:` line, whose words they replace.

    Raises:
        KernelNotFoundError: there is no such file, or it has no such kernel.
        ConfigError: the file does not say how the kernel is launched, or what a parameter is.
        DtypeError: A, B and C have element types that there are no products of.
    """
    if isinstance(source_name, str) and "__global__" in source_name:
        file, text, named = _written(source_name), source_name, ""
    else:
        file, text, named = read(str(source_name))
    said = {
        word: f"({','.join(map(str, value))})" if isinstance(value, tuple) else f"{value}"
        for word, value in words.items()
    }
    for word, value in said.items():
        split_words(f"{word}={value}", word)
    given = tuple((name, f"{value}") for name, value in (defines or {}).items())
    return _made(file, text, Origin(str(source_name), entry or named, tuple(said.items()), given))


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
    launch = launch_of(file, text, origin.entry, dict(origin.words), dict(origin.defines))
    if not launch.product:
        raise ConfigError(
            f"{launch.name} is no matrix product, by its parameters and what is said of them: check, explain and sass "
            f"take it"
        )
    signature, words, maps, roles = launch.signature, launch.words, launch.map_words, launch.roles
    known, swap_ab = launch.known, words.get("C") == "column"
    values, (grid, block, shared, cluster) = lru_cache(known), launch.geometry
    support = _support(launch, words.get("layout", "NN"), swap_ab)
    code = reached(text, signature.name)
    precision = _precision(file, words.get("precision", ""), code, support.factors[0])
    support = replace(support, precision=precision)
    if "wgmma" in code:
        support = replace(support, least_capability=_TENSOR_MAPS_CAPABILITY, architectures=("sm_90a",))
    boxes = {role: maps[argument.name].box for role, argument in roles.items() if argument.type == TYPE}
    constants: dict[str, int | str] = {**launch.texts, **counts(maps)}
    tile = expressions("tile", words["tile"], known.names) if "tile" in words else []
    if len(tile) not in (0, 3):
        raise ConfigError(f"tile must have three numbers, got {words['tile']}")

    def extents(problem: Problem, config: Config) -> tuple[int, int, int]:
        m, n = (problem.n, problem.m) if swap_ab else (problem.m, problem.n)
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
        return found._replace(m=found.n, n=found.m) if swap_ab else found

    def box(name: str, config: Config) -> TensorBox | None:
        of = boxes.get(f"{name}_map")
        return of(values(config)) if of else None

    def stages(config: Config) -> int:
        of, item = tile_of(config), ITEM_BYTES[support.factors[0]]
        return max(shared(values(config)) // max((of.m + of.n) * of.k * item, 1), 1)

    def unknown_tile(config: Config) -> ConfigError | None:
        by_grid = None if tile else tile_by_grid(config)
        return by_grid if isinstance(by_grid, ConfigError) else None

    return SourceKernel(
        name=f"{file}:{origin.entry or signature.name}",
        idea=f"from {file}",
        source=file,
        parameters=launch.parameters,
        tile=tile_of,
        unknown_tile=unknown_tile,
        block=lambda config: block(values(config)),
        support=support,
        arguments=_arguments(roles),
        shared_bytes=lambda config, layout: shared(values(config)),
        tensor_maps=(lambda config, *_: (box("A", config), box("B", config))) if boxes.keys() & _FACTOR_MAPS else None,
        stored_box=(lambda config, item_bytes: box("D", config)) if "D_map" in boxes else None,
        cluster=lambda config: cluster(values(config)),
        extents=extents,
        edges=_macro(file, words, "edges"),
        aligned=_macro(file, words, "aligned"),
        rounding_maps=any(maps[roles[role].name].dtype == _ROUNDED for role in boxes.keys() & _FACTOR_MAPS),
        cost=_cost(code, bool(boxes.keys() & _FACTOR_MAPS), stages),
        constants=lambda config: constants,
        template=signature.template,
        entry_point=lambda config: launch.entry_with(values(config)),
        origin=origin,
        swap_ab=lambda config: swap_ab,
    )


def _macro(file: Path, words: Mapping[str, str], word: str) -> str:
    """The macro that a word names; '' where it is not said."""
    name = words.get(word, "")
    if name and not name.isidentifier():
        raise ConfigError(f"{file.name}: {word} must be a macro's name, as in {word}={word.upper()}, got {name}")
    return name


def _precision(file: Path, said: str, code: str, factors: str) -> str | None:
    """The precision that factors are rounded to before they are multiplied: said, or that of the instructions."""
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


def _arguments(roles: Mapping[str, Argument]) -> tuple[str, ...]:
    """Names of the parameters in `runtime.arguments`: several tensor maps behind one pointer are one."""
    found: list[str] = []
    for role, argument in roles.items():
        if "[" in argument.name and not argument.name.endswith("[0]"):
            found[-1] += f"+{role}"
        else:
            found.append(role)
    return tuple(found)


def _support(launch: SourceLaunch, layout: str, swap_ab: bool) -> Support:
    if layout not in LAYOUTS:
        raise ConfigError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    if swap_ab:  # the transposes of B and A
        layout = layout[::-1].translate(str.maketrans("NT", "TN"))
    subject, roles, maps = launch.signature.name, launch.roles, launch.map_words
    said = {name: _element(launch, name) for name in "ABD"}
    usual = next(filter(None, said.values()), "")
    if not usual:
        raise DtypeError(
            f"{launch.file.name}: nothing says of which elements the tensor maps of {subject} are: write it behind the "
            f"box of one, as in A(64,64,dtype=bfloat16)"
        )
    kinds = [kind or usual for kind in said.values()]
    if kinds[0] != kinds[1]:
        raise DtypeError(f"{launch.file.name}: A and B of {subject} must have one type, got {kinds[0]} and {kinds[1]}")
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
        vectorized="D" in of_maps or "aligned" in launch.words,
        aligned=bool(of_maps),
        aligned_result="D" in of_maps,
        panels=(panel_a, panel_b, panel_d),
        least_capability=_TENSOR_MAPS_CAPABILITY if of_maps else Support.least_capability,
    )


def _element(launch: SourceLaunch, name: str) -> str:
    """The element type of a matrix; '' where it has a tensor map that does not say."""
    pointer, map_ = launch.roles.get(f"{name}_data"), launch.roles.get(f"{name}_map")
    given = pointer.type if pointer else launch.map_words[map_.name].dtype if map_ else ""
    if not given or given in _ELEMENTS.values():
        return given
    if given not in _ELEMENTS:
        points = (
            f"{pointer.name} of {launch.signature.name} points to" if pointer else f"the dtype of a map of {name} is"
        )
        raise DtypeError(f"{launch.file.name}: {points} {given}; there are {', '.join(_ELEMENTS)}")
    return _ELEMENTS[given]
