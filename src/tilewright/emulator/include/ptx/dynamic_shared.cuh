// DYNAMIC_SHARED(type, name): on the emulator, the buffer that the launch gave the block.
#pragma once

#define DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(simt_thread()->block->dynamic_shared)
