"""docs/performance.md, and the tables of README.md, docs/emulator.md, docs/counters.md and docs/tools.md."""
