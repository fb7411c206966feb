// Arrays as DLPack 1 describes them (what of dlpack.h is used here), and how another module launches a product of some.
#pragma once

#include <Python.h>

#include <cstdint>

struct DLDevice {
    int32_t type;
    int32_t id;
};

struct DLTensor {
    void* data;
    DLDevice device;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t* shape;
    int64_t* strides;  // in elements
    uint64_t byte_offset;
};

// The arrays of a call, in the order of its arguments.
enum Argument { A, B, C, OUT, BIAS, SCALE_A, SCALE_B, ARGUMENTS };

constexpr int MISSED = 0, LAUNCHED = 1, FAILED = -1;  // of FAILED, an exception of Python says why

// What the launcher's module offers in a capsule of this name.
constexpr char LAUNCH_CAPSULE[] = "tilewright.runtime._launcher.API";

struct LaunchApi {
    // Launches a product whose plan the launcher knows. The GIL must be held.
    //
    // launcher           an object of the module's type Launcher
    // type               the arrays' type in Python
    // tensors            ARGUMENTS of them; null for those that there are not
    // options            as those of Launcher.call: hashable, or Py_None
    // scalars            alpha and beta
    // make(made, out)    called once where there is no OUT, and only if the plan is known: makes the result, and says where it
    //                    lies. Returns MISSED, LAUNCHED or FAILED.
    int (*launch)(PyObject* launcher, PyObject* type, const DLTensor* const* tensors, PyObject* options,
                  const double* scalars, int (*make)(void* made, DLTensor* out), void* made);
};
