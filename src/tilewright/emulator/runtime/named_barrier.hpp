// A block's named barriers (PTX manual, "barrier"): each opens when as many threads have come as these say, and begins anew.
#pragma once

#include <vector>

namespace simt {

struct GpuThread;

struct NamedBarrier {
    static constexpr int COUNT = 16;  // of a block; 0 is that of __syncthreads

    unsigned threads = 0;  // for which it opens, as the first that came has said
    unsigned arrived = 0;
    std::vector<GpuThread*> waiting = {};
};

}  // namespace simt
