"""Stand-ins for what the launcher works with: a driver that records launches, and arrays that are nowhere."""

import ctypes
from dataclasses import dataclass

FLOAT32, FLOAT16, BFLOAT16, INT8 = (2, 32, 1), (2, 16, 1), (4, 16, 1), (0, 8, 1)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_READ = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Tensor))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Api(ctypes.Structure):
    """DLPackExchangeAPI."""


_Api._fields_ = (
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("previous", ctypes.POINTER(_Api)),
    ("allocate", ctypes.c_void_p),
    ("export_managed", ctypes.c_void_p),
    ("import_managed", ctypes.c_void_p),
    ("read", _READ),
    ("current_stream", _STREAM),
)

_stream = 0


def set_stream(handle):
    """Make a stream the current one of all stand-in libraries."""
    global _stream
    _stream = handle


@_STREAM
def _current_stream(device_type, device_id, stream):
    stream[0] = _stream
    return 0


@_READ
def _read(array, tensor):
    found = ctypes.cast(array, ctypes.py_object).value
    if found.unreadable:
        return -1
    tensor[0] = found.tensor
    return 0


_alive = []


def capsule(major=1, previous=None, name=b"dlpack_exchange_api", read=_read):
    """A capsule of an exchange API that reads `Array`s."""
    api = _Api(major, 2, previous and ctypes.pointer(previous), None, None, None, read, _current_stream)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    _alive.append((api, name))
    return new(ctypes.addressof(api), name, None)


def older_api():
    """The API itself, to be the `previous` of one that nobody can read."""
    return _Api(1, 2, None, None, None, None, _read, _current_stream)


class Array:
    """An array at an address that is not there."""

    __dlpack_c_exchange_api__ = capsule()

    def __init__(self, *shape, at=1 << 20, dtype=FLOAT32, strides=None, device=0, device_type=2, byte_offset=0):
        if strides is None:
            strides = [1] * len(shape)
            for i in range(len(shape) - 1, 0, -1):
                strides[i - 1] = strides[i] * shape[i]
        sizes = ctypes.c_int64 * len(shape)
        self.unreadable = False
        self.tensor = _Tensor(at, device_type, device, len(shape), *dtype, sizes(*shape), sizes(*strides), byte_offset)


@dataclass(frozen=True)
class Launched:
    """A launch that the driver saw."""

    function: int
    stream: int
    context: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    attribute: int
    parameters: bytes


class _Launch(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("context", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("attribute", ctypes.c_int32),
        ("size", ctypes.c_uint64),
        ("parameters", ctypes.c_char * 1024),
    )


class _Operation(ctypes.Structure):
    _fields_ = (
        ("what", ctypes.c_char * 8),
        ("stream", ctypes.c_uint64),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    )


class StandInDriver:
    """The stand-in, built from stand_in_driver.cpp. Its globals are attributes."""

    _ints = (
        "launch_count",
        "encode_count",
        "replace_count",
        "push_count",
        "failing",
        "capture_status",
        "capture_query",
        "operation_count",
        "pop_count",
        "refused",
    )
    _pointers = ("current_context", "context_below", "on_launch")

    def __init__(self, path):
        self.__dict__["path"] = str(path)
        self.__dict__["_library"] = ctypes.CDLL(str(path))
        self.reset()

    def _variable(self, name):
        return (ctypes.c_int if name in self._ints else ctypes.c_uint64).in_dll(self._library, name)

    def __getattr__(self, name):
        return self._variable(name).value

    def __setattr__(self, name, value):
        self._variable(name).value = value

    def reset(self):
        """Make all as it was before the first launch."""
        for name in (*self._ints, *self._pointers):
            setattr(self, name, 0)
        self.refused = -1  # none

    def takes(self, step):
        """Have the function of a step take one parameter, of as many bytes as the step has."""
        sizes = (ctypes.c_uint64 * (1 << 16)).in_dll(self._library, "parameter_bytes")
        sizes[step[0]] = len(step[5])

    @property
    def launches(self):
        """Launches so far, oldest first."""
        all_ = (_Launch * 64).in_dll(self._library, "launches")
        return [
            Launched(
                one.function,
                one.stream,
                one.context,
                tuple(one.grid),
                tuple(one.block),
                one.shared_bytes,
                one.attribute,
                ctypes.string_at(ctypes.addressof(one) + _Launch.parameters.offset, one.size),
            )
            for one in all_[: self.launch_count]
        ]

    @property
    def operations(self):
        """Operations of streams, in order: name, the stream's handle, and the arguments that the driver's stand-in
        records."""
        all_ = (_Operation * 256).in_dll(self._library, "operations")
        return [(one.what.decode(), one.stream, one.a, one.b, one.count) for one in all_[: self.operation_count]]
