// Kernels that measure a GPU. Each block writes four numbers to `times`: clock cycles at its begin and its end, and the GPU's
// nanoseconds at both.
//
//   fma_chain      one thread: each FMA waits for the one before it
//   shared_chase   one thread: the word that a load of shared memory returns is the next load's address
//   chase          one thread: likewise in global memory, whose lines are linked first
//   fma_rate       all threads: CHAINS sums each, which do not wait for each other
//   shared_read    all threads: 16 bytes each from shared memory, without bank conflicts
//   global_read    all threads: 16 bytes each from global memory, LOADS of them in flight
//
// Macros: CHAINS; LOADS; L1, whether loads of global memory may hit in the L1 cache, else L2 answers.
//
// tilewright: entry=fma_chain grid=1 block=1 from=float32[1] to=out:float32[1] times=out:int64[4] steps=128
// tilewright: entry=shared_chase grid=1 block=1 to=out:uint32[1] times=out:int64[4] steps=128
// tilewright: entry=chase grid=1 block=32 chain=zeros:uint64[lines*words] to=out:uint64[1] times=out:int64[4]
// tilewright: entry=chase lines=64 words=4 group=16 links=1 warm=64 steps=128 L1=1
// tilewright: entry=fma_rate grid=2 block=64 from=float32[32] to=out:float32[128] times=out:int64[8] steps=32 CHAINS=3
// tilewright: entry=shared_read grid=2 block=64 from=float32[4096] to=out:float32[128] times=out:int64[8] steps=16
// tilewright: entry=global_read grid=2 block=32 from=float32[4*2*32*2*rounds] to=out:float32[64] times=out:int64[8]
// tilewright: entry=global_read blocks=2 rounds=3 passes=2 LOADS=2 L1=0
#include "ptx/shared_address.cuh"

#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef LOADS
#define LOADS 1
#endif
#ifndef L1
#define L1 0
#endif

constexpr int UNROLLED = 32, SHARED_BYTES = 16384;

__device__ __forceinline__ long long nanoseconds() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// From one barrier of a block to another.
struct Stopwatch {
    long long cycles, ns;

    __device__ void start() {
        __syncthreads();
        ns = nanoseconds();
        cycles = clock64();
    }

    __device__ void stop(long long* times) {
        __syncthreads();
        const long long end = clock64(), end_ns = nanoseconds();
        if (threadIdx.x == 0) {
            times += 4 * blockIdx.x;
            times[0] = cycles;
            times[1] = end;
            times[2] = ns;
            times[3] = end_ns;
        }
    }
};

// The compiler must have a value here, before the clock is read.
__device__ __forceinline__ void keep(float value) { asm volatile("" ::"f"(value) : "memory"); }
__device__ __forceinline__ void keep(unsigned value) { asm volatile("" ::"r"(value) : "memory"); }
__device__ __forceinline__ void keep(unsigned long long value) { asm volatile("" ::"l"(value) : "memory"); }

// x becomes -x at each step. A step reads one register, so that no two operands wait for one bank of registers.
// steps: a multiple of UNROLLED, as in all that follows.
extern "C" __global__ void fma_chain(const float* from, float* to, long long* times, int steps) {
    float x = from[0];
    Stopwatch watch;
    watch.start();
#pragma unroll 1
    for (int i = 0; i < steps; i += UNROLLED) {
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j) x = fmaf(x, -2.0f, x);
    }
    keep(x);
    watch.stop(times);
    to[0] = x;
}

extern "C" __global__ void shared_chase(unsigned* to, long long* times, int steps) {
    constexpr int WORDS = 1024;
    __shared__ unsigned chain[WORDS];
    for (int i = 0; i < WORDS; ++i) chain[i] = shared_address(&chain[(i + 33) % WORDS]);
    unsigned at = shared_address(chain);
    Stopwatch watch;
    watch.start();
#pragma unroll 1
    for (int i = 0; i < steps; i += UNROLLED) {
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(at) : "memory");
    }
    keep(at);
    watch.stop(times);
    to[0] = at;
}

__device__ __forceinline__ unsigned long long next(unsigned long long at) {
    if constexpr (L1) {
        asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(at) : "l"(at) : "memory");
    } else {
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(at) : "l"(at) : "memory");
    }
    return at;
}

// Line i of a group is followed by line 5 i + 1, modulo the group's lines, a power of two: this visits each of them once, in an
// order that has no one distance. The last is followed by the first of the next group.
__device__ unsigned following(unsigned line, unsigned lines, unsigned group) {
    const unsigned first = line / group * group, inside = (5 * (line - first) + 1) % group;
    return inside ? first + inside : (first + group) % lines;
}

// lines: of the chain, words of 8 bytes apart from each other, in groups. links: whether they are linked first.
extern "C" __global__ void chase(
    unsigned long long* chain, unsigned long long* to, long long* times, int lines, int words, int group, int links, int warm, int steps
) {
    if (links) {
        for (int line = threadIdx.x; line < lines; line += blockDim.x) {
            unsigned long long* after = chain + static_cast<long long>(following(line, lines, group)) * words;
            chain[static_cast<long long>(line) * words] = reinterpret_cast<unsigned long long>(after);
        }
        __syncthreads();
    }
    unsigned long long at = reinterpret_cast<unsigned long long>(chain);
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 0; i < warm; ++i) at = next(at);
    }
    keep(at);
    Stopwatch watch;
    watch.start();
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 0; i < steps; i += UNROLLED) {
#pragma unroll
            for (int j = 0; j < UNROLLED; ++j) at = next(at);
        }
    }
    keep(at);
    watch.stop(times);
    if (threadIdx.x == 0) to[0] = at;
}

extern "C" __global__ void fma_rate(const float* from, float* to, long long* times, int steps) {
    float x[CHAINS];
    for (int i = 0; i < CHAINS; ++i) x[i] = from[threadIdx.x % 32] + i;
    Stopwatch watch;
    watch.start();
#pragma unroll 1
    for (int i = 0; i < steps; i += UNROLLED) {
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain) x[chain] = fmaf(x[chain], -2.0f, x[chain]);
        }
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; ++i) sum += x[i];
    keep(sum);
    watch.stop(times);
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ __forceinline__ void add(float4& sum, const float4& more) {
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
}

// A block has at most 1024 threads.
extern "C" __global__ void shared_read(const float4* from, float* to, long long* times, int steps) {
    constexpr int WORDS = SHARED_BYTES / sizeof(float4);
    __shared__ float4 words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words[i] = from[i];
    const unsigned address = shared_address(words + threadIdx.x);
    float4 sum = {};
    Stopwatch watch;
    watch.start();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            float4 word;
            asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(word.x), "=f"(word.y), "=f"(word.z), "=f"(word.w) : "r"(address) : "memory");
            add(sum, word);
        }
    }
    const float all = sum.x + sum.y + sum.z + sum.w;
    keep(all);
    watch.stop(times);
    to[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

__device__ __forceinline__ float4 loaded(const float4* from) {
    float4 word;
    if constexpr (L1) {
        asm volatile("ld.global.ca.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(word.x), "=f"(word.y), "=f"(word.z), "=f"(word.w) : "l"(from) : "memory");
    } else {
        asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(word.x), "=f"(word.y), "=f"(word.z), "=f"(word.w) : "l"(from) : "memory");
    }
    return word;
}

// rounds * LOADS * blocks * blockDim.x float4 are read, in each of several passes; in the next pass another block reads what one
// has read. blocks: of the grid, or 1 where all blocks read the same.
extern "C" __global__ void global_read(const float4* from, float* to, long long* times, int blocks, int rounds, int passes) {
    const long long apart = static_cast<long long>(blocks) * blockDim.x;
    float4 sum = {};
    Stopwatch watch;
    watch.start();
    int block = blockIdx.x % blocks;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        const float4* at = from + static_cast<long long>(block) * blockDim.x + threadIdx.x;
#pragma unroll 1
        for (int round = 0; round < rounds; ++round) {
            float4 words[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; ++i) words[i] = loaded(at + i * apart);
            // All words are there before the first is added: else the compiler, to save registers, would load the last later.
            unsigned bits = 0;
#pragma unroll
            for (int i = 0; i < LOADS; ++i) bits |= __float_as_uint(words[i].x);
            if (bits == 0xffffffff) __trap();
#pragma unroll
            for (int i = 0; i < LOADS; ++i) add(sum, words[i]);
            at += LOADS * apart;
        }
        block = block + 1 == blocks ? 0 : block + 1;
    }
    const float all = sum.x + sum.y + sum.z + sum.w;
    keep(all);
    watch.stop(times);
    to[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
