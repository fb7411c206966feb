// Launches that begin while the one before runs: on the emulator each begins when the one before has ended, but the
// checker is told which threads have waited for that.
#pragma once

__forceinline__ void wait_for_grid_before() { simt_wait_for_grid(simt_thread()); }

__forceinline__ void let_grid_after_start() {}
