"""Faults of the host's part in products on a GPU: plans, addresses, layouts, streams, copies, launch arguments."""

from .fault import Fault

FAULTS = (
    Fault(
        "a batch without one distance used in place",
        "        if far != near * whole:\n            return None\n",
        "        if far < near * whole:\n            return None\n",
        "wrong results of batches of more than one dimension that are slices",
    ),
    Fault(
        "a batch with gaps taken for one tall matrix",
        'fits = layout.order == "row" and stride == m * ld and max(length, 1)',
        'fits = layout.order == "row" and max(length, 1)',
        "wrong results where the matrices of a batch are not right behind each other",
    ),
    Fault(
        "plans do not depend on alignment",
        "left = operand.pointer % VECTOR_BYTES if operand.device != HOST else 0",
        "left = 0",
        "a plan for aligned arrays is launched on others: a misaligned access on the GPU",
    ),
    Fault(
        "launched on the engine's own stream",
        "planned.engine.start(planned.plan, pointers, call.scalars, call.stream)",
        "planned.engine.start(planned.plan, pointers, call.scalars)",
        "products race with the caller's other work",
    ),
    Fault(
        "one copy for all of a prepared factor's kernels",
        "memory = self._copies.get(cached.copy)",
        "memory = next(iter(self._copies.values()), None)",
        "a second kernel reads the copy that the first one wanted",
    ),
    Fault(
        "bias and activation with every part of k",
        "epilogue = ends and not self._finishes",
        "epilogue = not self._finishes",
        "wrong results of products larger than the GPU's memory, where k is divided",
    ),
    Fault(
        "the leading dimension of out for c",
        "return d.batch_stride or 0, c.batch_stride or 0, ldd, ldd if c is d else _ld(c, p.m, p.n)",
        "return d.batch_stride or 0, c.batch_stride or 0, ldd, ldd",
        "a c with gaps between its rows is read from wrong places",
    ),
    Fault(
        "the launcher's key without strides",
        "        for (int i = 0; i < tensor->ndim; ++i) add(tensor->strides[i]);\n",
        "",
        "a slice is read as the dense array of the call before",
    ),
    Fault(
        "memory of a capture kept for the stream",
        "if (!capturing) known_[owner] = memory;",
        "known_[owner] = memory;",
        "ordinary launches use memory that belongs to a graph",
    ),
    Fault(
        "leading dimensions of other sizes not swapped",
        "            m, n, lda, ldb = n, m, ldb, lda\n",
        "            m, n = n, m\n",
        "wrong results of column-major products of new sizes",
    ),
)
