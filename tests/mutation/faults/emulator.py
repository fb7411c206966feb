"""Faults of the emulator, in Python and in its C++ runtime."""

from .fault import Fault

FAULTS = (
    Fault(
        "counters that are left, not said",
        "        if counters.any() and watch.blocks is None:\n            raise LaunchError(",
        "        if counters.any() and watch.blocks is None:\n            LaunchError(",
        "a kernel that is wrong from its second launch on is right here",
    ),
    Fault(
        "fresh memory holds zeros",
        "memory = np.full(size + _ALIGNMENT, 0xFF, dtype=np.uint8)\n    start = -memory.ctypes.data % _ALIGNMENT\n",
        "memory = np.zeros(size + _ALIGNMENT, dtype=np.uint8)\n    start = -memory.ctypes.data % _ALIGNMENT\n",
        "elements that a kernel leaves unwritten look like results",
    ),
    Fault(
        "compiled kernels known without their headers",
        "cache.key(compiler.key, options, build.ahead, build.spacing, unit, headers, runtime.name)",
        "cache.key(compiler.key, options, build.ahead, build.spacing, unit, runtime.name)",
        "after a change of a header the old code runs",
    ),
    Fault(
        "atomicInc begins anew a step late",
        "[=](T old) { return old >= value ? 0 : old + 1; }",
        "[=](T old) { return old > value ? 0 : old + 1; }",
        "counters of a kernel that is right never come back to 0",
    ),
    Fault(
        "the rest of a short asynchronous copy",
        "        std::memset(copy.shared + copy.read, 0, copy.bytes - copy.read);\n",
        "",
        "elements past the end of a matrix are NaN, and zeros on a GPU",
    ),
    Fault(
        "groups of copies counted from the start",
        "        for (std::size_t& end : group_ends_) end -= count;\n",
        "",
        "a pipeline of asynchronous copies goes wrong in its second step",
    ),
    Fault(
        "tensor cores of Hopper keep a bit less",
        "using Hopper = Adder<16, FactorType::half, 25, 23>;",
        "using Hopper = Adder<16, FactorType::half, 24, 23>;",
        "errors of long sums are not those of an H100",
    ),
    Fault(
        "a parameter named as dynamic shared memory",
        "return name not in function.declared and not word.search(function.head) and word.search(body) is not None",
        "return name not in function.declared and word.search(body) is not None",
        "a kernel that compiles for a GPU does not compile here",
    ),
    Fault(
        "PTX: unordered comparisons do not hold for NaN",
        '    if sign in _UNORDERED:\n        holds = f"({holds} || {a} != {a} || {b} != {b})"\n',
        "",
        "inline PTX goes another way at NaN than on a GPU",
    ),
    Fault(
        "code that does not load stays",
        "        drop(entry)\n    return load(make())\n",
        "        pass\n    return load(make())\n",
        "a home folder of another kind of machine: kernels fail until the cache is removed by hand",
    ),
)
