// DLPack's C exchange API: how a library's arrays are read, without Python.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

#include "arrays.h"

namespace {

struct ExchangeApi {
    uint32_t major;
    uint32_t minor;
    ExchangeApi* previous;  // the same of an older version, or null
    void* allocate;
    void* export_managed;
    void* import_managed;
    int (*read)(void* array, DLTensor* tensor);  // may be null
    int (*current_stream)(int32_t device_type, int32_t device_id, void** stream);
};

constexpr uint32_t DLPACK_MAJOR = 1;
constexpr int DLPACK_CUDA = 2;
constexpr int MOST_DIMENSIONS = 8;
const char API_ATTRIBUTE[] = "__dlpack_c_exchange_api__";
const char API_CAPSULE[] = "dlpack_exchange_api";

// The API in a capsule; null where it is of another version, or lacks what is needed.
const ExchangeApi* supported(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, API_CAPSULE)) return nullptr;
    auto api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule, API_CAPSULE));
    while (api != nullptr && api->major != DLPACK_MAJOR) api = api->previous;
    return api != nullptr && api->read != nullptr ? api : nullptr;
}

}  // namespace
