"""Steps of models under enable(): `python -m studies.steps measure --out FILE`."""

from studies.runner import run
from studies.steps import measuring

if __name__ == "__main__":
    raise SystemExit(run("steps", measuring.__doc__, measuring.measurements, options=measuring.options))
