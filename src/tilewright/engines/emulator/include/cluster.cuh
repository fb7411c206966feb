#pragma once
#define __cluster_dims__(...)
#include "mbarrier.cuh"
#include "tensor_map.cuh"
inline int cluster_rank() { return 0; }
inline void cluster_sync() { __syncthreads(); }
inline void barrier_arrive_at(Barrier* b, int) { barrier_arrive(b); }
inline void load_tile_to(unsigned short, void* s, const TensorMap* m, int c, int r, int x, Barrier* b) { load_tile(s, m, c, r, x, b); }
template <typename T> T* in_block(T* p, int) { return p; }
