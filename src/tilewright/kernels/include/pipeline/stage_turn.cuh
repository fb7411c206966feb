// Stages of a pipeline that goes on from tile to tile: which one a step uses, and the parity of its barriers' phase.
#pragma once

template <int COUNT>
struct StageTurn {
    int stage = 0, parity = 0;
    int before = 0;  // the stage of the step before

    // Goes on to the next step.
    __device__ __forceinline__ void next() {
        before = stage;
        if (++stage < COUNT) return;
        stage = 0;
        parity ^= 1;
    }

    // Leaves out steps.
    __device__ __forceinline__ void skip(int steps) {
        stage += steps;
        parity ^= stage / COUNT & 1;
        stage %= COUNT;
    }
};
