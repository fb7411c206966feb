// Approximate functions on the emulator: exact to a unit in the last place, with 0 for subnormal results too.
#pragma once

__forceinline__ float exp2_approx(float x) { return x < -126.0f ? 0.0f : exp2f(x); }

__forceinline__ float reciprocal_approx(float x) {
    const float y = 1.0f / x;
    return y > -1.17549435e-38f && y < 1.17549435e-38f ? y * 0.0f : y;
}
