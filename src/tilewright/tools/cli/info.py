"""The command line: `tilewright info`."""

from tilewright import version
from tilewright.api.engines import cuda_unavailable, resolve_engine
from tilewright.core.errors import EngineUnavailableError
from tilewright.runtime import cache
from tilewright.runtime.base import Engine
from tilewright.tools.bench.environment import environment
from tilewright.tools.cli.streams import out
from tilewright.tools.report.tables import info_table


def run_info() -> None:
    """Show what this machine offers: GPU or none, compilers, libraries, cache folder."""
    engine: Engine | None = None
    try:
        engine = resolve_engine("auto")
        runs_on = f"{engine.name} ({engine.device_name})"
    except EngineUnavailableError as error:
        runs_on = f"none: {error}"
    facts = environment(engine)
    gpu = facts.get("gpu")
    libraries = facts["libraries"]
    out.print(
        info_table(
            {
                "tilewright": version.__version__,
                "engine": runs_on,
                "GPU": gpu["name"] if gpu else f"none: {cuda_unavailable()}",
                **{f"  {name}": str(value) for name, value in (gpu or {}).items() if name != "name"},
                "CPU": f"{facts['cpu'].get('name', 'unknown')}, {facts['cpu'].get('cores', '?')} cores",
                "C++ compiler": facts.get("compiler", "none: the emulator needs one (apt install g++)"),
                "Python": facts["python"],
                "libraries": ", ".join(f"{name} {number}" for name, number in libraries.items()),
                "cache folder": str(cache.folder()),
            }
        )
    )
