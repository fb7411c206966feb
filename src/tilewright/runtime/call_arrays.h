// The arrays of a call: where each lies, and whether they may be used as they are.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "arrays.h"
#include "libraries.h"

namespace {

constexpr uint64_t VECTOR_BYTES = 16;
constexpr uint8_t COMPLEX = 5;           // DLPack's code
constexpr uint8_t CONJUGATED = 1 << 7;  // ours, added to the code of A or B whose elements are the conjugates of those in memory

int64_t item_bytes(const DLTensor& tensor) { return (tensor.bits * tensor.lanes + 7) / 8; }

uint64_t address(const DLTensor& tensor) { return reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset; }

// What of an array does not depend on its sizes. Bit 1 is 0.
int64_t word_of(const DLTensor& tensor) {
    return int64_t(1 | uint64_t(tensor.ndim) << 4 | address(tensor) % VECTOR_BYTES << 8 | uint64_t(tensor.code) << 12 |
                   uint64_t(tensor.bits) << 20 | uint64_t(tensor.lanes) << 28 | uint64_t(tensor.device.id) << 44);
}

bool has_elements(const DLTensor& tensor) {
    return std::all_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t size) { return size != 0; });
}

// Whether the two may share an element: whether the ranges of their addresses meet.
bool may_overlap(const DLTensor& x, const DLTensor& y) {
    const auto range = [](const DLTensor& tensor) {
        uint64_t low = address(tensor), high = low + item_bytes(tensor);
        for (int i = 0; i < tensor.ndim; ++i) {
            const int64_t extent = (tensor.shape[i] - 1) * tensor.strides[i] * item_bytes(tensor);
            (extent < 0 ? low : high) += extent;
        }
        return std::pair(low, high);
    };
    if (!has_elements(x) || !has_elements(y)) return false;
    const auto [x_low, x_high] = range(x);
    const auto [y_low, y_high] = range(y);
    return x_low < y_high && y_low < x_high;
}

bool is_same(const DLTensor& x, const DLTensor& y) {
    return address(x) == address(y) && x.ndim == y.ndim && std::equal(x.shape, x.shape + x.ndim, y.shape) &&
           std::equal(x.strides, x.strides + x.ndim, y.strides);
}

struct Arrays {
    bool given[ARGUMENTS] = {};
    DLTensor tensors[ARGUMENTS];
    const Library* library = nullptr;

    const DLTensor* get(int argument) const { return given[argument] ? &tensors[argument] : nullptr; }

    // Whether a new result lies on the operands' device, aligned as plans take it for granted.
    bool has_result() const {
        const DLTensor& tensor = tensors[OUT];
        return tensor.device.id == tensors[A].device.id && address(tensor) % VECTOR_BYTES == 0;
    }

    // Whether `out` may share an element with an operand: C may be `out` itself.
    bool writes_operand() const {
        const DLTensor* out = get(OUT);
        if (out == nullptr) return false;
        for (int i : {A, B, C, BIAS, SCALE_A, SCALE_B}) {
            const DLTensor* operand = get(i);
            if (operand == nullptr || (i == C && is_same(*out, *operand))) continue;
            if (may_overlap(*out, *operand)) return true;
        }
        return false;
    }
};

class ArrayReader {
public:
    int device_type = DLPACK_CUDA;

    // Of objects of Python; false where one is not known, does not lie with the others or may not be used as it is.
    bool read(PyObject* const* objects, Arrays& arrays) {
        for (int i = 0; i < ARGUMENTS; ++i) {
            PyObject* const object = objects[i];
            if (object == Py_None && i > B) continue;
            arrays.given[i] = true;
            const Library* library = libraries_.of(Py_TYPE(object));
            if (library == nullptr || (arrays.library != nullptr && library->api != arrays.library->api)) return false;
            arrays.library = library;
            if (library->is_torch()) {
                if (i == A && library->recording.is_watched()) return false;
                if (!library->recording.is_plain(object)) return false;
            }
            if (!read(*library, object, arrays.tensors[i], i)) return false;
            if (library->is_torch() && arrays.tensors[i].code == COMPLEX) {
                bool conjugated;
                if (!library->recording.find_conjugated(object, conjugated) || (conjugated && i > B)) return false;
                if (conjugated) arrays.tensors[i].code |= CONJUGATED;
            }
            if (arrays.tensors[i].device.id != arrays.tensors[A].device.id) return false;
        }
        return true;
    }

    // Of tensors of one type, which are plain; null for those that there are not.
    bool read(PyTypeObject* type, const DLTensor* const* tensors, Arrays& arrays) {
        arrays.library = libraries_.of(type);
        if (arrays.library == nullptr) return false;
        for (int i = 0; i < ARGUMENTS; ++i) {
            if (tensors[i] == nullptr) continue;
            arrays.given[i] = true;
            arrays.tensors[i] = *tensors[i];
            if (!is_usable(arrays.tensors[i], i) || arrays.tensors[i].device.id != arrays.tensors[A].device.id) return false;
        }
        return true;
    }

    bool read_result(Arrays& arrays, PyObject* result) {
        const Library* library = libraries_.of(Py_TYPE(result));
        return library != nullptr && library->api == arrays.library->api &&
               read(*library, result, arrays.tensors[OUT], OUT) && arrays.has_result();
    }

private:
    Libraries libraries_;

    bool read(const Library& library, PyObject* object, DLTensor& tensor, int argument) const {
        return library.api->read(object, &tensor) == 0 && is_usable(tensor, argument);
    }

    bool is_usable(const DLTensor& tensor, int argument) const {
        const int least = argument == SCALE_A || argument == SCALE_B ? 0 : 1;  // dimensions
        if (tensor.device.type != device_type || tensor.ndim < least || tensor.ndim > MOST_DIMENSIONS) return false;
        if (tensor.ndim == 0) return tensor.data != nullptr;
        return tensor.strides != nullptr && (tensor.data != nullptr || !has_elements(tensor));
    }
};

}  // namespace
