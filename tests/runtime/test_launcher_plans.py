"""Which plan the launcher finds for a call, and which calls it leaves to Python."""

import struct
import sys
from types import SimpleNamespace

import pytest
from exchange import BFLOAT16, FLOAT16, Array, capsule, older_api
from launcher_products import STEP, factors

from tilewright.core.errors import LaunchError
from tilewright.runtime.plan import Slot

INT32 = (0, 32, 1)

# Which plan.


KINDS = {
    "plain": {},
    "shape": {"a": Array(6, 3, at=0x10000000)},
    "dimensions": {"a": Array(4, 3, 1, at=0x10000000)},
    "stride": {"a": Array(4, 3, at=0x10000000, strides=(8, 1))},
    "transposed": {"a": Array(4, 3, at=0x10000000, strides=(1, 4))},
    "dtype": {"a": Array(4, 3, at=0x10000000, dtype=FLOAT16)},
    "bfloat16": {"a": Array(4, 3, at=0x10000000, dtype=BFLOAT16)},
    "lanes": {"a": Array(4, 3, at=0x10000000, dtype=(2, 32, 4))},
    "alignment": {"a": Array(4, 3, at=0x10000004)},
    "offset": {"a": Array(4, 3, at=0x10000000, byte_offset=8)},
    "b": {"b": Array(3, 5, at=0x20000004)},
    "c": {"c": Array(4, 5, at=0x30000000)},
    "scaled": {"c": Array(4, 5, at=0x30000000), "beta": 1.0},
    "out": {"out": Array(4, 5, at=0x40000000)},
    "out's alignment": {"out": Array(4, 5, at=0x40000008)},
    "bias": {"bias": Array(5, at=0x50000000)},
    "column bias": {"bias": Array(4, 1, at=0x50000000)},
    "options": {"options": ("float32", None)},
    "other options": {"options": ("float32", "gelu")},
}


def test_kinds_of_calls_are_distinguished(driver, product):
    a, b = factors()
    kinds = {name: {"a": a, "b": b} | kind for name, kind in KINDS.items()}
    for number, kind in enumerate(kinds.values()):
        assert product.misses(**kind)
        named = {name: value for name, value in kind.items() if name != "beta"}
        assert product.remember(**named, steps=(STEP._replace(function=number),), scaled="beta" in kind)
    for kind in kinds.values():
        assert not product.misses(**kind)
    assert [launch.function for launch in driver.launches] == list(range(len(KINDS)))
    assert len(product.launcher) == len(KINDS)


def test_all_devices_have_their_own_plans(driver, product):
    for device in range(8):
        a, b = factors(device=device)
        step = STEP._replace(function=device)
        product.remember(a, b, steps=(step,), new=(product.new, (4, 5), {"device": device}), context=device + 1)
    for device in range(8):
        assert not product.misses(*factors(device=device))
        assert (driver.launches[-1].function, driver.launches[-1].context) == (device, device + 1)


def test_a_copy_that_is_kept_is_the_plan_s(driver, product):
    a, b = factors()
    step = STEP._replace(slots=(Slot(0, "pointer", "A"), Slot(8, "pointer", "cached", 64)))
    for name, address in (("x", 0x7000), ("y", 0x9000)):
        product.remember(a, b, options=name, steps=(step,), cached=address)
    for name, address in (("y", 0x9000), ("x", 0x7000)):
        assert not product.misses(a, b, options=name)
        assert struct.unpack_from("2Q", driver.launches[-1].parameters) == (0x10000000, address + 64)


def test_a_grouped_product_has_its_offsets_in_the_bias_s_place(driver, product):
    """A batch of matrices, and int32 numbers."""
    a, b = Array(9, 3, at=0x10000000, dtype=FLOAT16), Array(4, 3, 5, at=0x20000000, dtype=FLOAT16)
    step = STEP._replace(slots=(Slot(0, "pointer", "D"), Slot(8, "pointer", "offsets")))
    key = ("grouped", None)
    product.remember(a, b, bias=Array(4, at=0x50000000, dtype=INT32), options=key, steps=(step,))
    for number, address in enumerate((0x50000000, 0x60000000)):
        product(a, b, bias=Array(4, at=address, dtype=INT32), options=key)
        result = 0x90000000 + (number << 16)  # as `Product.new` makes it
        assert struct.unpack_from("2Q", driver.launches[-1].parameters) == (result, address)
    assert product.misses(a, b, bias=Array(4, at=0x50000000, dtype=(0, 64, 1)), options=key)
    assert product.misses(a, b, bias=Array(3, at=0x50000000, dtype=INT32), options=key)


def test_a_plan_is_replaced(driver, product):
    a, b = factors()
    for function in (1, 2):
        product.remember(a, b, steps=(STEP._replace(function=function),))
    product(a, b)
    assert driver.launches[0].function == 2
    assert len(product.launcher) == 1


def test_many_plans(driver, product):
    _, b = factors()
    rows = range(1, 1500)
    for m in rows:
        product.remember(Array(m, 3), b, steps=(STEP._replace(grid=(m, 1, 1)),))
    for m in rows:
        product(Array(m, 3), b)
        assert driver.launches[(m - 1) % 64 if m > 64 else -1].grid[0] == m


def test_plans_are_forgotten(product):
    a, b = factors()
    product.remember(a, b, options=("x",))
    product.launcher.forget()
    assert product.misses(a, b, options=("x",))
    assert len(product.launcher) == 0
    for m in range(1, 4097):
        product.remember(Array(m, 3), b)
    assert not product.misses(Array(1, 3), b)
    product.remember(a, b, scaled=True)
    assert product.misses(Array(1, 3), b)
    assert len(product.launcher) == 1


# What goes the long way.


class Subclass(Array):
    """Has the API from its base, whose meaning it may have changed."""


class NoApi:
    pass


@pytest.mark.parametrize(
    "call",
    [
        {"a": NoApi()},
        {"a": [[1.0]]},
        {"a": None},
        {"a": Subclass(4, 3, at=0x10000000)},
        {"b": Array(3, 5, at=0x20000000, device_type=1)},
        {"b": Array(3, 5, at=0x20000000, device=1)},
        {"a": Array(*[1] * 9)},
        {"a": Array()},
        {"a": Array(4, 3, at=0)},
        {"alpha": float("nan")},
        {"alpha": True},
        {"alpha": "1"},
        {"alpha": 10**400},
        {"alpha": 1e39},
        {"alpha": -1e39},
        {"beta": 1.0},
        {"beta": float("nan")},
        {"options": ([],)},
        {"options": ("unknown",)},
    ],
    ids=lambda value: "x",
)
def test_misses(driver, product, call):
    a, b = factors()
    product.remember(a, b)
    assert not product.misses(a, b)
    assert product.misses(**({"a": a, "b": b} | call))
    assert driver.launch_count == 1
    assert len(product.made) == 1


def test_arrays_that_cannot_be_read(product):
    a, b = factors()
    product.remember(a, b)
    a.unreadable = True
    assert product.misses(a, b)
    assert not product.remember(a, b)


@pytest.mark.parametrize(
    "array", [Array(), Array(*[1] * 9), Array(4, 3, at=0), NoApi(), 1.0, None], ids=lambda value: "x"
)
def test_what_cannot_be_found_is_not_remembered(product, array):
    assert not product.remember(array, Array(3, 5))


def test_a_product_that_is_scaled_needs_c(product):
    a, b = factors()
    product.remember(a, b, scaled=True)
    assert product.misses(a, b, beta=1.0)


def test_arrays_of_two_libraries(product):
    class Other(Array):
        __dlpack_c_exchange_api__ = capsule()

    a, b = factors()
    other = Other(3, 5, at=0x20000000)
    assert not product.remember(a, other)
    assert product.misses(a, other)
    assert product.remember(Other(4, 3), other, new=(lambda: Other(4, 5), (), {}))
    assert not product.misses(Other(4, 3), other)
    product.remember(a, b, new=(lambda: Other(4, 5), (), {}))
    assert product.misses(a, b)


@pytest.mark.parametrize(
    ("api", "known"),
    [
        ({"major": 2}, False),
        ({"major": 2, "previous": older_api()}, True),
        ({"name": b"another"}, False),
    ],
    ids=lambda value: "x",
)
def test_versions_of_the_api(product, api, known):
    class Versioned(Array):
        __dlpack_c_exchange_api__ = capsule(**api)

    arrays = Versioned(4, 3), Versioned(3, 5)
    assert product.remember(*arrays, new=(lambda: Versioned(4, 5), (), {})) == known
    assert product.misses(*arrays) != known


def test_options_that_cannot_be_hashed_are_not_remembered(product):
    assert not product.remember(*factors(), options=({},))


@pytest.mark.parametrize("result", [Array(4, 5, at=0x90000004), Array(4, 5, device=1), Array(4, 5, device_type=1), 5])
def test_a_result_that_lies_elsewhere_or_misaligned_is_not_written(driver, product, result):
    a, b = factors()
    product.remember(a, b, new=(lambda: result, (), {}))
    assert product.misses(a, b)
    assert driver.launch_count == 0


@pytest.mark.parametrize(
    ("out", "missed"),
    [
        ({"at": 0x10000000}, True),  # on a
        ({"at": 0x10000000 + 4 * 11}, True),  # on the last element of a
        ({"at": 0x10000000 + 4 * 12}, False),
        ({"at": 0x20000000 - 4 * 20}, False),
        ({"at": 0x20000000 - 4 * 19}, True),  # its last element on b
        ({"at": 0x20000000 - 4 * 20, "strides": (6, 1)}, True),
        ({"at": 0x30000000}, False),  # the same as c
        ({"at": 0x30000000 + 4}, True),
        ({"at": 0x30000000, "strides": (5, 2)}, True),
        ({"at": 0x50000000 + 4}, True),  # on the bias
    ],
    ids=lambda value: "x",
)
def test_overlap(driver, product, out, missed):
    a, b = factors()
    c, out, bias = Array(4, 5, at=0x30000000), Array(4, 5, **out), Array(5, at=0x50000000)
    assert product.remember(a, b, c, out, bias)
    assert product.misses(a, b, c, out, bias) == missed
    assert driver.launch_count == (not missed)


# Tensors of PyTorch, by a stand-in for it.


@pytest.fixture
def torch(monkeypatch):
    """A module `torch`: .Tensor, .nn.Parameter, .grad_enabled and the tensors whose .versions were counted."""

    class Tensor(Array):
        __dlpack_c_exchange_api__ = capsule()
        requires_grad = False
        negative = False

        def is_neg(self):
            return self.negative

    class Parameter(Tensor):
        requires_grad = True

    versions = []
    torch = SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Parameter=Parameter),
        _C=SimpleNamespace(_increment_version=versions.extend),
        grad_enabled=True,
        versions=versions,
    )
    torch.is_grad_enabled = lambda: torch.grad_enabled
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_tensors_that_record_gradients(product, torch):
    x, weight = torch.Tensor(4, 3, at=0x10000000), torch.nn.Parameter(3, 5)
    new = (lambda: torch.Tensor(4, 5, at=0x90000000), (), {})
    assert not product.remember(x, weight, new=new)
    torch.grad_enabled = False
    assert product.remember(x, weight, new=new)
    assert not product.misses(x, weight)
    torch.grad_enabled = True
    assert product.misses(x, weight)
    weight.requires_grad = False
    assert not product.misses(x, weight)


def test_tensors_that_negate_when_they_are_read(product, torch):
    a, b = torch.Tensor(4, 3), torch.Tensor(3, 5)
    new = (lambda: torch.Tensor(4, 5, at=0x90000000), (), {})
    product.remember(a, b, new=new)
    a.negative = True
    assert product.misses(a, b)
    assert not product.remember(a, b, new=new)


def test_tensor_subclasses(product, torch):
    class Own(torch.Tensor):
        __dlpack_c_exchange_api__ = capsule()

    a, b = Own(4, 3), torch.Tensor(3, 5)
    assert not product.remember(a, b, new=(lambda: torch.Tensor(4, 5), (), {}))


def test_the_version_of_out_is_counted(driver, product, torch):
    a, b, out = torch.Tensor(4, 3, at=1 << 16), torch.Tensor(3, 5, at=1 << 18), torch.Tensor(4, 5, at=1 << 20)
    product.remember(a, b, out=out)
    product.remember(a, b, new=(lambda: torch.Tensor(4, 5, at=0x90000000), (), {}))
    product(a, b)
    assert torch.versions == []
    product(a, b, out=out)
    assert torch.versions == [out]
    driver.failing = 719
    with pytest.raises(LaunchError):
        product(a, b, out=out)
    assert torch.versions == [out]


def test_a_torch_that_is_being_imported(product, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert product.remember(*factors())
