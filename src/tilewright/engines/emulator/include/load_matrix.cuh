// Matrices from shared memory on the emulator: every lane reads the row that it names, and the warp hands round what it
// has read.
#pragma once

__forceinline__ void load_matrices(float (&elements)[4], const float* row, SIMT_PLACE) {
    struct Lane {
        float4 row;
        float* elements;
    };
    const simt::Call call = {simt::Operation::load_matrices, file, line};
    simt_check_shared(simt_thread(), call, row, 16, 16);
    Lane own{*reinterpret_cast<const float4*>(row), elements};
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const auto of = [&](unsigned lane) SIMT_UNSEEN { return static_cast<const Lane*>(lanes[lane]); };
        for (unsigned lane = 0; lane < warpSize; ++lane) {
            for (unsigned matrix = 0; matrix < 4; ++matrix) {
                const float4& four = of(8 * matrix + lane / 4)->row;
                const float floats[] = {four.x, four.y, four.z, four.w};
                of(lane)->elements[matrix] = floats[lane % 4];
            }
        }
        return static_cast<const char*>(nullptr);
    });
}
