#pragma once

__forceinline__ unsigned load_relaxed(const unsigned* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
