"""Faults of the tools and of the files that they keep."""

from .fault import Fault

FAULTS = (
    Fault(
        "bench: a limit that grows with k",
        "allowed = unit * (0.5 * math.sqrt(problem.k) + 4)",
        "allowed = unit * (0.5 * problem.k + 4)",
        "wrong kernels are called verified",
    ),
    Fault(
        "explain: shared memory that the system takes",
        "per_bundle = round_up(shared_bytes + sm.reserved_shared_bytes, sm.shared_granularity)",
        "per_bundle = round_up(shared_bytes, sm.shared_granularity)",
        "a block more is said to fit than a GPU runs",
    ),
    Fault(
        "sass: kernels whose names begin alike",
        "inside = section[1] == entry",
        "inside = section[1].startswith(entry)",
        "the code of two kernels is counted as one",
    ),
    Fault(
        "tune: the slowest configs first",
        "return sorted(costs, key=lambda cost: -cost[1])",
        "return sorted(costs, key=lambda cost: cost[1])",
        "a search with a budget ends before it comes to what is fast",
    ),
    Fault(
        "report: names in the page as they are",
        "autoescape=True, trim_blocks=True",
        "autoescape=False, trim_blocks=True",
        "what a file of others says is markup, or a script, of the page",
    ),
    Fault(
        "new: over a file that is there",
        '    if path.exists():\n        raise PathError(f"{path} is there already")\n',
        "",
        "`tilewright new` replaces the user's kernel",
    ),
    Fault(
        "check: success whatever is found",
        "raise typer.Exit(1 if faulty else 0)",
        "raise typer.Exit(0)",
        "a script that asks check's exit status sees no fault",
    ),
    Fault(
        "tables: the older measurement counts",
        "kept = best_of_kernels((*self.entries, *entries))",
        "kept = best_of_kernels((*entries, *self.entries))",
        "what was measured anew is not in the table",
    ),
    Fault(
        "cache: damaged entries loaded",
        "if _is_own(file, state, root) and _is_whole(file.path, name, suffix, _state(state)):",
        "if _is_own(file, state, root):",
        "half a file, as a full disk leaves, is loaded as code",
    ),
    Fault(
        "journal: trials of a kernel that has changed",
        "            and kernels.get(trial.kernel) == trial.digest\n",
        "            and trial.kernel in kernels\n",
        "tune takes times of an older source for those of today",
    ),
)
