"""Steps of models under enable(): the first, before anything is compiled, and later ones next to PyTorch's own.

First steps are measured in processes of their own with an
empty cache, after two steps by PyTorch alone; later ones in turns, with all code loaded.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

import tilewright.torch
from studies.frameworks.models import Task, training
from studies.record import Measurement
from studies.runner import in_processes
from tilewright.runtime.base import Engine

STEPS, MOST_STEPS = 20, 400
"""Steps that follow without a product that waits, before the first steps end; steps in all."""

PAIRS = 9
"""Turns of the two ways."""

_SAMPLE_S, _MOST_COUNT = 0.3, 50
"""About how long a way's steps of a turn take, and how many there are at most."""

_TIMEOUT_S = 150


class Llama(NamedTuple):
    """Sizes of a Llama, and its tokens."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    vocabulary: int
    batch: int
    length: int

    def task(self) -> Task:
        """The model, and the loss of a step."""
        import transformers  # noqa: PLC0415 - slow to import

        library: Any = transformers
        config = library.LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
        )
        model = library.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        tokens = torch.randint(0, self.vocabulary, (self.batch, self.length))

        def loss(one: torch.nn.Module) -> Any:
            logits = one(input_ids=tokens, use_cache=False).logits
            return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())

        return Task(model, loss)


SMALL = Llama(4, 1024, 2816, 16, 4, 32000, 4, 777)
LARGER = Llama(6, 2048, 5632, 16, 4, 32000, 4, 1023)


class Vit(NamedTuple):
    """Sizes of a vision transformer, ViT-L's by default, and its images."""

    hidden: int = 1024
    layers: int = 24
    heads: int = 16
    batch: int = 32
    pixels: int = 224

    def task(self) -> Task:
        """The model, and the loss of a step."""
        import transformers  # noqa: PLC0415 - slow to import

        library: Any = transformers
        sizes = {"hidden_size": self.hidden, "intermediate_size": 4 * self.hidden, "image_size": self.pixels}
        config = library.ViTConfig(num_hidden_layers=self.layers, num_attention_heads=self.heads, **sizes)
        model = library.ViTForImageClassification(config)
        images, labels = torch.randn(self.batch, 3, self.pixels, self.pixels), torch.randint(2, (self.batch,))

        def loss(one: torch.nn.Module) -> Any:
            logits = one(pixel_values=images.to(next(one.parameters()).dtype)).logits
            return functional.cross_entropy(logits.float(), labels)

        return Task(model, loss)


VIT = Vit()


def _seconds(step: Callable[[], Any], count: int = 1) -> float:
    """Seconds of one of this many steps, until the GPU has ended them."""
    _wait()
    began = time.perf_counter()
    for _ in range(count):
        step()
    _wait()
    return (time.perf_counter() - began) / count


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def first(way: str, sizes: Llama = SMALL) -> Iterator[Measurement]:
    """Steps of this process, which has used the GPU for nothing else: from the third on by the way that is named."""
    step = training(sizes.task())
    stock = [_seconds(step) for _ in range(2)]
    began = time.perf_counter()
    with tilewright.torch.enable() if way == "enable()" else nullcontext():
        enabled = time.perf_counter() - began
        steps: list[float] = []
        settled = 0
        while settled < STEPS and len(steps) < MOST_STEPS:
            tilewright.torch.report(reset=True)
            steps.append(_seconds(step))
            waits = any(row.why == "while its code was compiled" for row in tilewright.torch.report())
            settled = 0 if waits else settled + 1
        facts = {
            "stock_steps_s": stock,
            "enable_s": enabled,
            "steps_s": steps,
            "steps_that_waited": len(steps) - settled,
            "waited_s": sum(steps[: len(steps) - settled]),
            "last_steps_us": 1e6 * statistics.median(steps[-STEPS:]),
            "ran": {} if way != "enable()" else dict(_where()),
        }
    what: dict[str, str | int] = {"work": "first step of a small Llama after two by PyTorch, empty cache"}
    yield Measurement(what=what, way=way, us=1e6 * steps[0], facts=facts)


def _where() -> Iterator[tuple[str, int]]:
    """Calls of the last step by where they ran, and why."""
    key = lambda row: f"{row.where} {row.why}".strip()  # noqa: E731
    for name, rows in itertools.groupby(sorted(tilewright.torch.report(), key=key), key):
        yield name, sum(row.calls for row in rows)


def in_turns(work: str, step: Callable[[], Any], pairs: int = PAIRS) -> Iterator[Measurement]:
    """A step by PyTorch, under enable(), and by PyTorch again, in turns: the medians, and of each turn the quotient to
    the first."""
    enable = partial(tilewright.torch.enable, wait=True)
    ways: dict[str, Callable[[], Any]] = {"PyTorch": nullcontext, "enable()": enable, "PyTorch again": nullcontext}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    count = 1
    for number in range(pairs + 1):
        for way, context in ways.items():
            with context():
                step()
                seconds = _seconds(step, count)
            if number:
                taken[way].append(seconds)
        if not number:  # what has to be compiled is compiled now
            count = max(2, min(_MOST_COUNT, int(_SAMPLE_S / seconds)))
    for way, samples in taken.items():
        ratios = [own / one for own, one in zip(taken["PyTorch"], samples, strict=True)]
        facts = {"speedup": statistics.median(ratios), "speedups": sorted(ratios)}
        yield Measurement(what={"work": work}, way=way, us=1e6 * statistics.median(samples), facts=facts)


def _token(sizes: Llama) -> Callable[[], Any]:
    """One token of one sequence, after 512 that are cached."""
    model = sizes.task().model.eval()
    with torch.no_grad():
        past = model(
            input_ids=torch.randint(0, sizes.vocabulary, (1, min(512, sizes.length))), use_cache=True
        ).past_key_values
    token = torch.zeros(1, 1, dtype=torch.long)

    def step() -> Any:
        with torch.no_grad():
            model(input_ids=token, past_key_values=past, use_cache=True)
            past.crop(-1)  # the token that was added

    return step


def models(larger: Llama = LARGER, vit: Vit = VIT, pairs: int = PAIRS) -> Iterator[Measurement]:
    """Training in float32 while PyTorch's allow_tf32 is False, and training and generation in bfloat16."""
    settings = torch.backends.cuda.matmul
    for name, sizes in (("Llama", larger), ("ViT-L", vit)):
        before, settings.fp32_precision = settings.fp32_precision, "ieee"
        try:
            yield from in_turns(f"{name}, training, float32, allow_tf32 = False", training(sizes.task()), pairs)
        finally:
            settings.fp32_precision = before
    torch.set_default_dtype(torch.bfloat16)
    try:
        for name, sizes in (("Llama", larger), ("ViT-L", vit)):
            yield from in_turns(f"{name}, training, bfloat16", training(sizes.task()), pairs)
        yield from in_turns("Llama, a token, bfloat16", _token(larger), pairs)
    finally:
        torch.set_default_dtype(torch.float32)


def measurements(engine: Engine, way: str | None = None) -> Iterator[Measurement]:
    """First steps in processes of their own, then the others here; or with a way, first steps in this process."""
    if engine.capability is not None:
        torch.set_default_device("cuda")
    if way is not None:
        yield from first(way)
        return
    for one in ("PyTorch", "enable()"):
        with tempfile.TemporaryDirectory() as empty:
            command = ["studies.steps", "measure", "--way", one, "--out"]
            yield from in_processes(command, [{"TILEWRIGHT_CACHE": str(Path(empty, "cache"))}], _TIMEOUT_S)
    yield from models()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a process measures first steps alone."""
    parser.add_argument("--way", choices=("PyTorch", "enable()"), help="first steps by this way, in this process")
