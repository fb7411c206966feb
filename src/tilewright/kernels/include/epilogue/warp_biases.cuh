// The biases of the columns that a warp has sums of (warpgroup.cuh). A lane has a pair of every 8 columns.
#pragma once

#include "epilogue/result.cuh"

// Of COLS columns, a multiple of 8, from one on. Values of 16 bits are loaded at once, long before they are used: each lane
// holds two of every 64 columns, and hands them to the others. All lanes of a warp call the same.
template <typename T, int COLS, bool IN_REGISTERS = sizeof(T) == 2>
class WarpBiases {
  public:
    __device__ __forceinline__ WarpBiases(const Bias<T>& bias, int col) {
        if constexpr (BIAS::OF_COLUMNS) {
#pragma unroll
            for (int first = 0; first < COLS; first += 64) {
                const int own = first + threadIdx.x % 32 * 2;
                held[first / 64] = own < COLS ? bias.of_two_columns(col + own) : 0;
            }
        }
    }

    // This lane's pair of columns 8 * i to 8 * i + 7.
    __device__ __forceinline__ void get(int i, Number<T> (&pair)[2]) const {
        unsigned word = 0;
        if constexpr (BIAS::OF_COLUMNS) word = __shfl_sync(0xffffffff, held[i / 8], i % 8 * 4 + threadIdx.x % 4);
        pair[0] = to_number(reinterpret_cast<const T*>(&word)[0]);
        pair[1] = to_number(reinterpret_cast<const T*>(&word)[1]);
    }

  private:
    unsigned held[(COLS + 63) / 64];
};

// Of values of 32 bits there are too many to hold: they are loaded where they are used.
template <typename T, int COLS>
class WarpBiases<T, COLS, false> {
  public:
    __device__ __forceinline__ WarpBiases(const Bias<T>& bias, int col) : bias(bias), own(col + threadIdx.x % 4 * 2) {}

    __device__ __forceinline__ void get(int i, Number<T> (&pair)[2]) const {
        pair[0] = bias.of_column(own + 8 * i);
        pair[1] = bias.of_column(own + 8 * i + 1);
    }

  private:
    Bias<T> bias;
    int own;
};
