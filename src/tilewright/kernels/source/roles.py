"""Roles of the parameters of a matrix product: A, B, C, sizes, leading dimensions and scalars.

| word of a matrix product | |
| --- | --- |
| args=A,B,C,M,N,K | what the parameters are, where names do not say: also lda, ldb, ldc, alpha, beta, and 0 |
| layout=NT | orders of A and B, N row-major and T column-major, NN if left out |
| C=column | C is column-major; row-major if left out. Such a kernel computes the row-major D = B^T A^T: see below |
| precision=tf32 | factors are rounded to TF32, or float32: they are not; if left out, as its instructions do |
| tile=(m,n,k) | rows and columns of C that a block computes, and steps along k; if left out, by the grid, and 32 |

A kernel computes C = A @ B, or with alpha and beta C = alpha * A @ B + beta * C, of matrices that lie without gaps
where it has no leading dimension of them.

Problems have row-major results. A column-major C is a row-major C^T = B^T A^T in the same memory: what the source calls
A is the problem's B, transposed, its M the problem's N, its lda the problem's ldb, and the other way round.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from tilewright.core.errors import ConfigError, nearest
from tilewright.kernels.source.map_words import TYPE, MapWord, maps_behind
from tilewright.kernels.source.signature import IN_C, Argument, Signature

PRODUCT_WORDS = ("args", "layout", "C", "tile", "precision", "edges", "aligned")

_ROLES = {
    "A": "A_data", "B": "B_data", "C": "D_data", "M": "M", "N": "N", "K": "K",
    "lda": "lda", "ldb": "ldb", "ldc": "ldd", "alpha": "alpha", "beta": "beta",
}  # fmt: skip
"""Roles that parameters may have, and their names in `runtime.arguments`."""
_MATRICES = ("A", "B", "C")
_MAP = "_map"
"""The ending of roles of tensor maps."""
_NULL = "0"
"""The role of a parameter that is given 0, or no address: one for debugging, say."""
_SWAPPED = {"A": "B", "B": "A", "M": "N", "N": "M", "lda": "ldb", "ldb": "lda"}
"""Roles in a problem, by those in a source whose C is column-major."""
_USUAL = {role.lower(): role for role in _ROLES} | {"d": "C", "out": "C", "result": "C", "ldd": "ldc"}
"""Roles by the names that parameters usually have."""
_AROUND_NAMES = re.compile(
    r"^(d_|dev_|g_|mat_?|matrix_?|in_|input_?|tensor_?map_?|tma_?(?:map_?)?|map_?)"
    r"|(_d|_dev|_ptr|_data|_mat|_matrix|_tma|_map|_tensor_?map)$",
    re.IGNORECASE,
)
_NARROW, _WIDE = (
    tuple(name for name, dtype in IN_C.items() if dtype in types)
    for types in (("int32", "uint32"), ("int64", "uint64"))
)
"""Integers of 32 and of 64 bits."""


def roles_of(
    file: Path, signature: Signature, words: Mapping[str, str], maps: Mapping[str, MapWord]
) -> dict[str, Argument]:
    """The parameters of a matrix product by what `runtime.arguments` calls them.

    Args:
        file, signature: the kernel.
        words: what is said of it.
        maps: its tensor maps; each of several behind one pointer has a role.

    Raises:
        ConfigError: nothing says what a parameter is, or it cannot be what is said.
    """
    order = words.get("C", "row")
    if order not in ("row", "column"):
        raise ConfigError(f"C must be row or column, got {order!r}{nearest(order, ('row', 'column'), listed=True)}")
    args, arguments = words.get("args"), signature.arguments
    usual = ["+".join(maps[name].array for name in maps_behind(one.name, maps)) or _role(one) for one in arguments]
    given = args.split(",") if args else usual
    if len(given) != len(arguments):
        raise ConfigError(f"args must name all {len(arguments)} parameters of {signature.name}, got {args}")
    found: dict[str, Argument] = {}
    for role, argument in zip(given, arguments, strict=True):
        subject = f"{argument.name} of {signature.name}"
        if argument.type == TYPE:
            for array, name in _mapped(file, subject, argument, role, maps):
                if f"{array}{_MAP}" in found:
                    raise ConfigError(f"{file.name}: two tensor maps of {signature.name} are of {array}")
                found[f"{array}{_MAP}"] = argument._replace(name=name)
        elif role == _NULL and (argument.pointer or argument.type in (*_NARROW, *_WIDE, "float")):
            found[f"zero{64 if argument.pointer or argument.type in _WIDE else 32}#{len(found)}"] = argument
        elif role not in _ROLES:
            what = f"args has {role!r}" if args else f"nothing says what {argument.name!r} is"
            raise ConfigError(
                f"{file.name}: {what}: parameters of {signature.name} may be {', '.join(_ROLES)}, or 0. Write above it "
                f"which they are, in their order, as in\n// tilewright: args=A,B,C,M,N,K\nor give --args A,B,C,M,N,K.\n"
                f"Or, of a kernel that is no matrix product, what each of them is, as in\n"
                f"// tilewright: x=float32[rows,cols] y=out:float32[rows,cols] rows=1024 cols=512"
            )
        else:
            _check_type(file, subject, argument, role)
            if role in found:
                raise ConfigError(f"{file.name}: two parameters of {signature.name} are {role}")
            found[role] = argument
    for role in _MATRICES:
        if not found.keys() & {role, f"{role}{_MAP}"}:
            raise ConfigError(f"{file.name}: no parameter of {signature.name} is {role}")
    return {_named(role, argument, order == "column"): argument for role, argument in found.items()}


def named_as_product(signature: Signature) -> bool:
    """Whether the names of a kernel's parameters say which are A, B and C."""
    return {*_MATRICES} <= {_role(one) for one in signature.arguments if one.pointer or one.type == TYPE}


def _mapped(
    file: Path, subject: str, argument: Argument, role: str, maps: Mapping[str, MapWord]
) -> Iterator[tuple[str, str]]:
    """The matrices of a parameter's tensor maps, and the names of the maps."""
    behind = maps_behind(argument.name, maps)
    for array, name in zip_longest(role.split("+"), behind, fillvalue=""):
        if name not in maps or array not in _MATRICES or array != maps[name].array or maps[name].part is not None:
            of = "+".join(maps[one].array for one in behind)
            raise ConfigError(
                f"{file.name}: {subject} is a tensor map of {of}, which must be one of {', '.join(_MATRICES)}, and the "
                f"same in args, got {role}"
            )
        yield array, name


def _check_type(file: Path, subject: str, argument: Argument, role: str) -> None:
    """Raise ConfigError where a parameter has no type for its role."""
    is_float, is_pointer = role in ("alpha", "beta"), role in _MATRICES
    if argument.pointer != is_pointer or (is_float and argument.type != "float"):
        wanted = "a pointer" if is_pointer else "a float" if is_float else "an integer"
        raise ConfigError(f"{file.name}: {subject} is {role}, which must be {wanted}")
    if not is_float and not is_pointer and argument.type not in (*_NARROW, *_WIDE):
        raise ConfigError(f"{file.name}: {subject} must be an integer, got {argument.type}")


def _named(role: str, argument: Argument, swap_ab: bool) -> str:
    """The name in `runtime.arguments` of a parameter with a role, or with that of a tensor map."""
    matrix = role.removesuffix(_MAP)
    if matrix not in _ROLES:  # one of zeros
        return role
    name = _ROLES[_SWAPPED.get(matrix, matrix) if swap_ab else matrix]
    if matrix != role:
        return name.replace("_data", _MAP)
    return f"{name}64" if argument.type in _WIDE and not argument.pointer else name


def _role(argument: Argument) -> str:
    """The role that a parameter's name says, '' where it says none."""
    return _USUAL.get(_AROUND_NAMES.sub("", argument.name).lower(), "")
