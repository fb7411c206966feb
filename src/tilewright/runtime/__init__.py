"""Where kernels run: `cuda` on a GPU, `emulator` on this machine's CPU. Same verbs, see base.Engine."""
