"""Loads, stores, atomic operations and fences."""

from tilewright.emulator.ptx.parse import Operand, RegisterGroup
from tilewright.emulator.ptx.writer import TYPES, Writer, instruction

_HINTS = (
    *("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak"),
    *("L2::64B", "L2::128B", "L2::256B", "L2::evict_first", "L2::evict_last", "L2::evict_normal"),
)
_SCOPES = ("cta", "cluster", "gpu", "sys")
_POLICY = "L2::cache_hint"


def _pointer(w: Writer, operand: Operand) -> str:
    """By the instruction's state space."""
    space = w.take("global", "shared", "shared::cta", "shared::cluster")
    return w.shared(operand) if space.startswith("shared") else w.generic(operand)


def _order(w: Writer) -> str:
    """How accesses of other threads see it."""
    w.ignore(*_HINTS)
    order = w.take("volatile", "relaxed", "acquire", "release", "acq_rel")
    w.ignore(*_SCOPES, "mmio", "noftz")
    return order


def _access(w: Writer, of_registers: int, of_address: int) -> tuple[str, tuple[Operand, ...], str, str]:
    """Parts of a load or a store, whose operands are registers and an address, maybe with a policy of the caches behind
    them: its order, the registers, their type, and a pointer."""
    order = _order(w)
    hinted = bool(w.take(_POLICY))
    vector = w.take("v2", "v4", "v8")
    kinds = w.types()
    if len(kinds) != 1:
        raise w.unknown()
    if vector and not any(isinstance(one, RegisterGroup) and len(one.parts) == int(vector[1]) for one in w.operands):
        raise w.unknown()
    operands = w.operands[: 2 if hinted else None]
    if len(operands) != 2:
        raise w.unknown(f"with {len(w.operands)} operands")
    pointer = _pointer(w, operands[of_address])
    w.done(2, 3)
    return order, w.parts(operands[of_registers]), kinds[0], pointer


@instruction("ld", "ldu")
def load(w: Writer) -> str:
    """One access, of a whole vector too."""
    order, parts, kind, pointer = _access(w, 0, 1)
    of = TYPES[kind]
    way = "load_now" if order and len(parts) == 1 else "load"
    after = " __threadfence();" if order == "acquire" else ""
    if len(parts) == 1:
        return w.put(parts[0], f"simt::ptx::{way}<{of}>({pointer})") + after
    each = " ".join(w.put(one, f"simt_ptx_v.parts[{i}]") for i, one in enumerate(parts))
    vector = f"simt::ptx::load<simt::ptx::Vector<{of}, {len(parts)}>>({pointer})"
    return f"{{ const auto simt_ptx_v = {vector}; {each} }}{after}"


@instruction("st")
def store(w: Writer) -> str:
    """Store to memory."""
    order, parts, kind, pointer = _access(w, 1, 0)
    of = TYPES[kind]
    before = "__threadfence(); " if order == "release" else ""
    values = ", ".join(w.value(one, kind) for one in parts)
    if len(parts) == 1:
        return f"{before}simt::ptx::{'store_now' if order else 'store'}<{of}>({pointer}, {values});"
    return f"{before}simt::ptx::store<simt::ptx::Vector<{of}, {len(parts)}>>({pointer}, {{{{{values}}}}});"


_ATOMICS = {
    **{name: f"atomic{name.capitalize()}" for name in ("add", "min", "max", "and", "or", "xor", "inc", "dec")},
    "exch": "atomicExch",
    "cas": "atomicCAS",
}


@instruction("atom", "red")
def atomic(w: Writer) -> str:
    """A change that no other comes between."""
    order = _order(w)
    name = w.take(*_ATOMICS)
    if not name:
        raise w.unknown()
    w.ignore(_POLICY)
    returns = w.instruction.opcode.startswith("atom")
    address, *values = w.operands[returns:]
    pointer = _pointer(w, address)
    (kind,) = w.types()
    w.done(returns + (3 if name == "cas" else 2), returns + 3)
    of = TYPES[kind] if kind != "s32" or name in ("min", "max", "add", "exch", "cas") else "unsigned"
    if (name, kind) == ("add", "s64"):
        of = TYPES["u64"]
    arguments = ", ".join(w.value(one, kind) for one in values[: 2 if name == "cas" else 1])
    call = f"{_ATOMICS[name]}(reinterpret_cast<{of}*>({pointer}), {arguments})"
    written = w.put(w.operands[0], call) if returns else f"{call};"
    before = "__threadfence(); " if order in ("release", "acq_rel") else ""
    return before + written + (" __threadfence();" if order in ("acquire", "acq_rel") else "")


@instruction("membar", "fence")
def fence(w: Writer) -> str:
    """Order of a thread's accesses."""
    w.ignore("acq_rel", "sc", "acquire", "release")
    if w.take("proxy"):
        if not w.take("async"):
            raise w.unknown()
        w.ignore("global", "shared::cta", "shared::cluster")
        w.done(0)
        return "simt_fence_async_shared(simt_thread());"
    if w.take("mbarrier_init"):
        w.ignore("cluster")
        w.done(0)
        return "simt_fence_barriers(simt_thread());"
    scope = w.take("cta", "cluster", "gpu", "sys", "gl")
    w.done(0)
    return "__threadfence_block();" if scope == "cta" else "__threadfence();"


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def prefetch(_: Writer) -> str:
    """A hint, which changes nothing here."""
    return ";"


@instruction("createpolicy")
def policy(w: Writer) -> str:
    """A hint for others."""
    return w.put(w.operands[0], "0ull")
