"""docs/results.md, records.md, how-measured.md, lab-notebook.md and worklog/measured.md, and tables of README.md,
docs/emulator.md, docs/counters.md and docs/tools/bench.md."""
