// The launcher: a call of a product whose plan exists, from the arrays to the driver, in one call of C++.
//
//     call(a, b, c, out, bias, alpha, beta, options)
//         read     where each array lies, through DLPack's C exchange API: no Python but for PyTorch's flags, and for
//                  CuPy's attributes
//         find     the plan of arrays of these types, shapes, strides, device and alignment; none: have Python plan it, where
//                  a plan for other sizes of this kind is known (kinds.h); else MISS
//         prepare  the result, the stream, memory besides the operands: PyTorch's for this call, or else the stream's
//         launch   each step: write addresses and scalars into its parameters, hand them to the driver
//
// Whatever it does not know, it answers with MISS before it has changed anything: the caller then goes the long way,
// which explains errors, and may `remember` the plan that it made. All state is guarded by the GIL, which is held from
// the first write into a plan's parameters to the last launch.
//
// Calls that miss:
//     arrays of a library without the exchange API, of several libraries or devices, or NumPy's
//     a tensor that records a gradient or negates when it is read, types derived from the library's own; PyTorch's tensors while it
//         differentiates forward, autocast is on or a mode sees its operators
//     an `out` that may overlap an operand
//     the first call of a kind, and with alpha = 0 the plan of k = 0; with a plan of another alpha kernels find alpha = 0 themselves
//     calls that need a copy first (an array that no layout describes, a bias with gaps), and kernels that update C in place
// Sizes of a known kind are planned without reading the call again, except in a capture, where code could not be loaded, and for vectors and
// batches. Where the result has no elements, the plan has no steps, and is good for every kernel and alpha.
//
// A ProductPlan is an option of its own, so it is answered for arrays of the plan's kind alone; on others the Python path says what differs.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

#include "arrays.h"
#include "launcher_state.h"
#include "objects.h"
#include "recording.h"
#include "sequence.h"

namespace {

struct Launcher {
    PyObject_HEAD
    State* state;
};

State& state_of(PyObject* self) { return *reinterpret_cast<Launcher*>(self)->state; }

PyObject* launcher_new(PyTypeObject* type, PyObject* positional, PyObject* named) {
    static const char* names[] = {"driver", "device_type", nullptr};
    const char* path;
    int device_type = DLPACK_CUDA;
    auto state = std::make_unique<State>();
    if (!PyArg_ParseTupleAndKeywords(positional, named, "s|i", const_cast<char**>(names), &path, &device_type) ||
        !state->open(path, device_type)) {
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) reinterpret_cast<Launcher*>(self)->state = state.release();
    return self;
}

void launcher_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<Launcher*>(self)->state;
    Py_TYPE(self)->tp_free(self);
}

int launcher_traverse(PyObject* self, visitproc visit, void* arg) {
    const State* state = reinterpret_cast<Launcher*>(self)->state;
    return state == nullptr ? 0 : state->traverse(visit, arg);
}

int launcher_clear(PyObject* self) {
    state_of(self).forget();
    return 0;
}

PyObject* launcher_call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return state_of(self).call(arguments, count);
}

PyObject* launcher_remember(PyObject* self, PyObject* positional, PyObject* named) {
    return state_of(self).remember(positional, named);
}

PyObject* launcher_forget(PyObject* self, PyObject*) {
    state_of(self).forget();
    Py_RETURN_NONE;
}

int launch_tensors(PyObject* launcher, PyObject* type, const DLTensor* const* tensors, PyObject* options,
                   const double* scalars, int (*make)(void* made, DLTensor* out), void* made) {
    return state_of(launcher).launch(reinterpret_cast<PyTypeObject*>(type), tensors, options, scalars, make, made);
}

const LaunchApi LAUNCH_API = {launch_tensors};

Py_ssize_t launcher_length(PyObject* self) { return Py_ssize_t(state_of(self).count()); }

PyMethodDef launcher_methods[] = {
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launcher_call)), METH_FASTCALL,
     "call(a, b, c, out, bias, alpha, beta, options)\n--\n\nThe result array, or MISS where no plan is known."},
    {"remember", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launcher_remember)),
     METH_VARARGS | METH_KEYWORDS,
     "Keep a plan for calls with arrays of these types, shapes, strides, device and alignment; see launcher.py."},
    {"forget", launcher_forget, METH_NOARGS, "Drop all plans, and all that is known of memory."},
    {},
};

PySequenceMethods launcher_sequence = {launcher_length};

PyTypeObject launcher_type = {PyVarObject_HEAD_INIT(nullptr, 0) "tilewright.runtime._launcher.Launcher"};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launcher", "Calls of products whose plans exist.", -1};

}  // namespace

PyMODINIT_FUNC PyInit__launcher() {
    launcher_type.tp_basicsize = sizeof(Launcher);
    launcher_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    launcher_type.tp_doc = "Launcher(driver, device_type=2): plans, and how to launch them.";
    launcher_type.tp_new = launcher_new;
    launcher_type.tp_dealloc = launcher_dealloc;
    launcher_type.tp_traverse = launcher_traverse;
    launcher_type.tp_clear = launcher_clear;
    launcher_type.tp_methods = launcher_methods;
    launcher_type.tp_as_sequence = &launcher_sequence;
    miss = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    const Ref errors(PyImport_ImportModule("tilewright.errors"));
    if (!errors) return nullptr;
    launch_error = PyObject_GetAttrString(errors.get(), "LaunchError");
    if (!intern_names() || !miss || !launch_error || PyType_Ready(&launcher_type) < 0) return nullptr;
    if (!ready_sequence_type()) return nullptr;
    Ref created(PyModule_Create(&module));
    if (!created || PyModule_AddObjectRef(created.get(), "MISS", miss) < 0 ||
        PyModule_AddObjectRef(created.get(), "Launcher", reinterpret_cast<PyObject*>(&launcher_type)) < 0 ||
        PyModule_AddObjectRef(created.get(), "Sequence", reinterpret_cast<PyObject*>(&sequence_type)) < 0 ||
        PyModule_AddStringConstant(created.get(), "SOURCE", SOURCE_DIGEST) < 0) {
        return nullptr;
    }
    const Ref api(PyCapsule_New(const_cast<LaunchApi*>(&LAUNCH_API), LAUNCH_CAPSULE, nullptr));
    if (!api || PyModule_AddObjectRef(created.get(), "API", api.get()) < 0) return nullptr;
    return created.release();
}
