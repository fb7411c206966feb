// CuPy's arrays, which have no exchange API: one made of their attributes.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "exchange.h"
#include "objects.h"

namespace {

// Objects that are never released, as a module's are not; null until an array of CuPy is met.
struct {
    PyObject *current_stream, *data, *pointer, *device, *shape, *strides, *dtype;
    PyObject* types[7];  // those below
} cupy;

struct ElementType {
    const char* name;
    uint8_t code, bits;
};
constexpr ElementType ELEMENT_TYPES[] = {{"float32", 2, 32}, {"float16", 2, 16}, {"int8", 0, 8},     {"uint8", 1, 8},
                                          {"int32", 0, 32},   {"bfloat16", 4, 16}, {"complex64", 5, 64}};

// False where an attribute is no integer.
bool read_integer(PyObject* object, PyObject* name, int64_t& value) {
    const Ref found(PyObject_GetAttr(object, name));
    value = found ? PyLong_AsLongLong(found.get()) : -1;
    return !PyErr_Occurred();
}

// The length of an attribute that is a tuple of integers; -1 where it is none, or too long.
int read_integers(PyObject* object, PyObject* name, int64_t (&values)[MOST_DIMENSIONS]) {
    const Ref found(PyObject_GetAttr(object, name));
    if (!found || !PyTuple_Check(found.get()) || PyTuple_GET_SIZE(found.get()) > MOST_DIMENSIONS) return -1;
    const int count = int(PyTuple_GET_SIZE(found.get()));
    for (int i = 0; i < count; ++i) values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(found.get(), i));
    return PyErr_Occurred() ? -1 : count;
}

int read_cupy(void* object, DLTensor* tensor) {
    // Shapes and strides of what this thread has read last: more than two calls, one within the other, need.
    thread_local int64_t kept[16][2][MOST_DIMENSIONS];
    thread_local unsigned newest = 0;
    auto& [shape, strides] = kept[++newest % 16];
    PyObject* const array = static_cast<PyObject*>(object);
    const Ref dtype(PyObject_GetAttr(array, cupy.dtype));
    const Ref data(PyObject_GetAttr(array, cupy.data));
    if (!dtype || !data) return -1;
    const auto type = std::find(std::begin(cupy.types), std::end(cupy.types), dtype.get());
    const int count = read_integers(array, cupy.shape, shape);
    int64_t pointer, device;
    if (type == std::end(cupy.types) || count < 0 || read_integers(array, cupy.strides, strides) != count ||
        !read_integer(data.get(), cupy.pointer, pointer) || !read_integer(data.get(), cupy.device, device)) {
        return -1;
    }
    const ElementType& element = ELEMENT_TYPES[type - cupy.types];
    for (int i = 0; i < count; ++i) {
        if (strides[i] % (element.bits / 8) != 0) return -1;
        strides[i] /= element.bits / 8;
    }
    *tensor = {reinterpret_cast<void*>(pointer), {DLPACK_CUDA, int32_t(device)}, count, element.code, element.bits, 1,
               shape, strides, 0};
    return 0;
}

int current_stream_of_cupy(int32_t, int32_t device, void** stream) {
    const Ref found(PyObject_CallFunction(cupy.current_stream, "i", int(device)));
    const Ref handle(found ? PyObject_GetAttrString(found.get(), "ptr") : nullptr);
    *stream = handle ? PyLong_AsVoidPtr(handle.get()) : nullptr;
    return PyErr_Occurred() ? -1 : 0;
}

const ExchangeApi CUPY_API = {DLPACK_MAJOR, 0, nullptr, nullptr, nullptr, nullptr, read_cupy, current_stream_of_cupy};

// CuPy's API, if this is the type of its arrays and all that is needed of CuPy is there.
const ExchangeApi* api_of_cupy(PyObject* type) {
    const Ref name(PyUnicode_FromString("cupy"));
    const Ref module(PyImport_GetModule(name.get()));
    if (!module || attribute(module.get(), {"ndarray"}).get() != type) return nullptr;
    const Ref numpy(PyImport_ImportModule("numpy"));
    if (!numpy) return nullptr;
    cupy.current_stream = attribute(module.get(), {"cuda", "get_current_stream"}).release();
    cupy.data = PyUnicode_InternFromString("data");
    cupy.pointer = PyUnicode_InternFromString("ptr");
    cupy.device = PyUnicode_InternFromString("device_id");
    cupy.shape = PyUnicode_InternFromString("shape");
    cupy.strides = PyUnicode_InternFromString("strides");
    cupy.dtype = PyUnicode_InternFromString("dtype");
    for (int i = 0; i < 7; ++i) cupy.types[i] = PyObject_CallMethod(numpy.get(), "dtype", "s", ELEMENT_TYPES[i].name);
    PyErr_Clear();  // without ml_dtypes, NumPy knows no bfloat16
    return cupy.current_stream ? &CUPY_API : nullptr;
}

}  // namespace
