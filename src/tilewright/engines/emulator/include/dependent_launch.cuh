// Launches that begin while the one before runs: on the emulator each begins when the one before has ended.
#pragma once

__forceinline__ void wait_for_grid_before() {}

__forceinline__ void let_grid_after_start() {}
