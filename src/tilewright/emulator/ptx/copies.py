"""Asynchronous copies, and the barriers in shared memory that count them."""

from tilewright.emulator.ptx.parse import Name, NumberLiteral
from tilewright.emulator.ptx.writer import Writer, call, instruction

_PREFETCHES = ("L2::64B", "L2::128B", "L2::256B")
_BARRIER = ("shared", "shared::cta", "b64")
_BULK = ("shared::cluster", "shared::cta", "global", "mbarrier::complete_tx::bytes", "bulk_group", "tile")


call("cp.async.commit_group", 0, "simt_commit_copies(simt_thread());")
call("cp.async.wait_group", 1, "simt_wait_copies(simt_thread(), {0});")
call("cp.async.wait_all", 0, "simt_commit_copies(simt_thread()); simt_wait_copies(simt_thread(), 0);")
call("cp.async.bulk.commit_group", 0, "simt_commit_tiles(simt_thread());")
call("mbarrier.init", 2, "simt_barrier_init(simt_thread(), {call:barrier_init}, {0:barrier}, {1});", *_BARRIER)
call("mbarrier.inval", 1, "simt_barrier_inval(simt_thread(), {call:barrier_inval}, {0:barrier});", *_BARRIER)


@instruction("cp.async.ca", "cp.async.cg")
def copy(w: Writer) -> str:
    """Copy of one thread: 4, 8 or 16 bytes."""
    w.ignore("shared", "shared::cta", "global", *_PREFETCHES)
    hinted = w.take("L2::cache_hint")
    w.done(3, 5)
    to, of, size, *rest = w.operands[: -1 if hinted else None]
    if w.instruction.opcode.startswith("cp.async.cg") and isinstance(size, NumberLiteral) and size.text != "16":
        raise w.unknown(f"of {size.text} bytes, where it copies 16")
    read = w.value(size)
    if rest and isinstance(rest[0], Name) and w.kinds.get(rest[0].name) == "pred":
        read = f"{w.value(rest[0], 'pred')} ? 0 : {read}"
    elif rest:
        read = w.value(rest[0])
    places = f"{w.shared(to)}, {w.generic(of)}"
    return f"simt_copy_async(simt_thread(), {w.call('copy_async')}, {places}, {w.value(size)}, {read});"


@instruction("mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.arrive.expect_tx")
def arrive(w: Writer) -> str:
    """At the current phase, of which bytes are announced."""
    w.ignore("shared", "shared::cta", "shared::cluster", "b64", "release", "relaxed", "cta", "cluster")
    announces = "expect_tx" in w.instruction.opcode
    arrives = w.instruction.opcode.startswith("mbarrier.arrive")
    has_state = arrives and not hasattr(w.operands[0], "base")
    w.done(has_state + 1 + announces, has_state + 2)
    address, *values = w.operands[has_state:]
    number = w.value(values[0]) if values else "1"
    arrivals, count_of_bytes = (("1" if arrives else "0"), number) if announces else (number, "0")
    place = f"simt_thread(), {w.call('barrier_arrive')}"
    if w.is_pointer(address):
        return f"simt_barrier_arrive({place}, {w.barrier(address)}, {count_of_bytes});"
    call = f"simt_barrier_arrive_by({place}, {w.shared_number(address)}, {arrivals}, {count_of_bytes})"
    return w.put(w.operands[0], call) if has_state else f"{call};"


@instruction("mbarrier.try_wait", "mbarrier.test_wait")
def test(w: Writer) -> str:
    """Whether a phase has ended."""
    parity = w.take("parity")
    w.ignore("shared", "shared::cta", "b64", "acquire", "relaxed", "cta", "cluster")
    w.done(3, 4)
    ended, address, phase = w.operands[:3]
    value = w.value(phase, "u32" if parity else "u64") + ("" if parity else " & 1")
    given = f"(simt_thread(), {w.call('barrier_wait')}, {w.barrier(address)}, {value})"
    # A function of ours tests again until it has.
    return w.put(ended, f"(simt_barrier_wait{given}, true)" if w.of_ours else f"simt_barrier_test{given}")


@instruction("cp.async.bulk")
def bulk(w: Writer) -> str:
    """A row of bytes by the copy engine."""
    load = "mbarrier::complete_tx::bytes" in w.modifiers
    if "multicast::cluster" in w.modifiers or not (load or "bulk_group" in w.modifiers):
        raise w.unknown()
    w.ignore(*_BULK)
    hinted = w.take("L2::cache_hint")
    w.done(4 if load else 3, 5)
    to, of, size, *barrier = w.operands[: -1 if hinted else None]
    if load:
        places = f"{w.shared(to)}, {w.generic(of)}, {w.value(size)}, {w.barrier(barrier[0])}"
        return f"simt_load_bytes(simt_thread(), {w.call('load_tile')}, {places});"
    places = f"{w.generic(to)}, {w.shared(of)}, {w.value(size)}"
    return f"simt_store_bytes(simt_thread(), {w.call('store_tile_async')}, {places});"


@instruction("cp.async.bulk.tensor")
def tile(w: Writer) -> str:
    """A tile of a tensor map."""
    dimensions = w.take("1d", "2d", "3d", "4d", "5d")
    if not dimensions:
        raise w.unknown("without dimensions")
    load, several = "mbarrier::complete_tx::bytes" in w.modifiers, w.take("multicast::cluster")
    w.ignore(*_BULK)
    hinted = w.take("L2::cache_hint")
    w.done(3 if load else 2, 5)
    operands = w.operands[: -1 if hinted else None]
    map_ = w.address(operands[1 if load else 0])
    at = [w.value(one, "s32") for one in w.parts(map_.rest[0], int(dimensions[0]))] if map_.rest else []
    if not at:
        raise w.unknown("without coordinates")
    call = w.call("load_tile_to" if several else "load_tile" if load else "store_tile_async")
    pointer = w.value(map_.base, "u64")
    if w.of_ours:  # its type says that it is a map of this many dimensions
        box = f"{{reinterpret_cast<const simt::TensorMap*>({pointer}), {{{', '.join(at)}}}}}"
    else:
        box = f"simt::ptx::in_map({', '.join([call, pointer, *at])})"
    if not load:
        return f"simt_store_tile(simt_thread(), {call}, {box}, {w.shared(operands[1])});"
    name, blocks = ("simt_load_tile_to", f"{w.value(operands[3], 'u16')}, ") if several else ("simt_load_tile", "")
    return f"{name}(simt_thread(), {call}, {blocks}{w.shared(operands[0])}, {box}, {w.barrier(operands[2])});"


@instruction("cp.async.bulk.wait_group")
def wait_bulk(w: Writer) -> str:
    """Until at most some are on their way, or have not read shared memory."""
    read = w.take("read")
    w.done(1)
    return f"simt_wait_tiles(simt_thread(), {w.value(w.operands[0])}, {'false' if read else 'true'});"
