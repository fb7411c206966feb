"""Barriers, operations of a warp, and what else has no result."""

from tilewright.emulator.ptx.parse import Pair
from tilewright.emulator.ptx.writer import TYPES, Writer, call, instruction

call("nanosleep", 1, "__nanosleep({0});", *TYPES)
call("trap", 0, 'simt_trap("trap", __FILE__, __LINE__);')


@instruction("bar", "barrier")
def barrier(w: Writer) -> str:
    """A named barrier of the block, or that of __syncthreads."""
    w.ignore("cta", "aligned")
    if w.take("warp"):
        w.ignore("sync")
        w.done(1)
        return f"__syncwarp({w.value(w.operands[0])}, __FILE__, __LINE__);"
    way = w.take("sync", "arrive")
    if not way:
        raise w.unknown()
    w.done(1, 2)
    values = [*map(w.value, w.operands), "simt::ptx::block_threads()"][:2]
    if way == "sync":
        return f"simt::ptx::barrier_sync({w.call('sync_named')}, {', '.join(values)});"
    return f"simt_named_barrier(simt_thread(), {w.call('arrive_named')}, {', '.join(values)}, false);"


@instruction("barrier.cluster")
def of_cluster(w: Writer) -> str:
    """Barrier of all threads of the cluster, which arrive here when they wait."""
    w.ignore("aligned", "release", "relaxed", "acquire")
    waits = w.take("wait")
    w.ignore("arrive")
    w.done(0)
    return f"simt_cluster_sync(simt_thread(), {w.call('cluster_sync')});" if waits else ";"


_SHUFFLES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "bfly": "__shfl_xor_sync"}


@instruction("shfl.sync")
def shuffle(w: Writer) -> str:
    """Values of other lanes."""
    way = w.take(*_SHUFFLES)
    (kind,) = w.types()
    w.done(5)
    result, value, source, clamp, mask = w.operands
    if isinstance(result, Pair) or not way:
        raise w.unknown("with a predicate")
    values = f"{w.value(mask)}, {w.value(value, kind)}, {w.value(source)}, 32 - ({w.value(clamp)} >> 8 & 31)"
    return w.put(result, f"{_SHUFFLES[way]}({values}, __FILE__, __LINE__)")


@instruction("vote.sync")
def vote(w: Writer) -> str:
    """Vote of a warp: the lanes' predicates combined."""
    way = w.take("all", "any", "ballot")
    w.ignore("pred", "b32")
    w.done(3)
    result, holds, mask = w.operands
    if not way:
        raise w.unknown()
    value = f"__{way}_sync({w.value(mask)}, {w.value(holds, 'pred')}, __FILE__, __LINE__)"
    return w.put(result, value if way == "ballot" else f"{value} != 0")


@instruction("redux.sync")
def reduce(w: Writer) -> str:
    """A reduction over the lanes."""
    way = w.take("add", "min", "max", "and", "or", "xor")
    (kind,) = w.types()
    w.done(3)
    result, value, mask = w.operands
    return w.put(result, f"__reduce_{way}_sync({w.value(mask)}, {w.value(value, kind)}, __FILE__, __LINE__)")


@instruction("activemask")
def active(w: Writer) -> str:
    """The lanes that are here together."""
    w.types()
    w.done(1)
    return w.put(w.operands[0], "__activemask(__FILE__, __LINE__)")


@instruction("elect.sync")
def elect(w: Writer) -> str:
    """One lane of the warp."""
    w.done(2)
    result, mask = w.operands
    if not isinstance(result, Pair):
        raise w.unknown()
    holds = f"simt::ptx::elected({w.call('shuffle')}, {w.value(mask)})"
    lane = w.put(result.first, f"unsigned(__builtin_ctz({w.value(mask)}))")
    return f"{lane} {w.put(result.second, holds)}"


@instruction("setmaxnreg")
def registers(w: Writer) -> str:
    """Registers for this warpgroup, or from it."""
    way = w.take("inc", "dec")
    w.ignore("sync", "aligned", "u32")
    w.done(1)
    name = "setmaxnreg_inc" if way == "inc" else "setmaxnreg_dec"
    return f"simt_{name}(simt_thread(), {w.call(name)}, {w.value(w.operands[0])});"


@instruction("griddepcontrol")
def dependent(w: Writer) -> str:
    """The launches before and after this one."""
    waits = w.take("wait")
    w.ignore("launch_dependents")
    w.done(0)
    return "simt_grid_dependency_wait(simt_thread());" if waits else ";"
