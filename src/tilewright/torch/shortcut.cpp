// The shortcut: products that routing.py leaves to PyTorch go from PyTorch's dispatcher to PyTorch's kernel with no Python.
//
//     aten::mm  ->  this kernel:  known as left?  yes: PyTorch's kernel    no: routing.py's kernel, which decides
//
// routing.py's kernel says `leave(decision)` before it returns from a call that it left to PyTorch; calls of the same kind
// take the shortcut from then on, and are counted. A kind is all sizes, strides, types and scalars of a call.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr size_t MOST_KINDS = 4096;  // of an operator; all are dropped when there are more

using Kind = std::vector<int64_t>;

struct Hash {
    size_t operator()(const Kind& kind) const {
        uint64_t mixed = 0x9e3779b97f4a7c15u;
        for (const int64_t part : kind) mixed = (mixed ^ static_cast<uint64_t>(part)) * 0xff51afd7ed558ccdu, mixed ^= mixed >> 32;
        return mixed;
    }
};

struct Left {
    PyObject* decision;  // whoever left it counts there
    long long calls;
};

thread_local PyObject* just_left = nullptr;

// One operator: its two kernels, and the kinds of calls that are left. Alive while a call runs.
struct Operator {
    c10::OperatorHandle handle;
    c10::SafeKernelFunction stock;
    std::unique_ptr<c10::SafeKernelFunction> deciding;  // routing.py's, while that is installed
    std::unordered_map<Kind, Left, Hash> left;
    std::mutex lock;

    Operator(const c10::OperatorHandle& of, c10::DispatchKey key)
        : handle(of), stock(of.getComputedKernelForDispatchKey(key)) {}

    // Puts a call's kind into `kind`; false where it has none.
    bool read(const torch::jit::Stack& stack, Kind& kind) const {
        kind.clear();
        const size_t count = handle.schema().arguments().size();
        for (size_t i = stack.size() - count; i < stack.size(); ++i) {
            const c10::IValue& value = stack[i];
            if (value.isTensor()) {
                const at::Tensor& tensor = value.toTensor();
                if (!tensor.defined()) return false;
                kind.push_back(tensor.dim());
                kind.push_back(static_cast<int64_t>(tensor.scalar_type()));
                kind.insert(kind.end(), tensor.sizes().begin(), tensor.sizes().end());
                kind.insert(kind.end(), tensor.strides().begin(), tensor.strides().end());
            } else if (value.isDouble()) {
                const double number = value.toDouble();
                int64_t bits;
                std::memcpy(&bits, &number, sizeof bits);
                kind.push_back(bits);
            } else if (value.isInt()) {
                kind.push_back(value.toInt());
            } else {
                return false;
            }
        }
        return true;
    }

    bool take(const Kind& kind) {
        const std::lock_guard guard(lock);
        const auto found = left.find(kind);
        if (found == left.end()) return false;
        ++found->second.calls;
        return true;
    }

    void call(c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        thread_local Kind kind;
        const bool has_kind = read(*stack, kind);
        if (has_kind && take(kind)) return stock.callBoxed(handle, keys, stack);
        const Kind own = kind;  // calls inside of this one read theirs
        just_left = nullptr;
        deciding->callBoxed(handle, keys, stack);
        PyObject* decision = std::exchange(just_left, nullptr);
        if (decision == nullptr) return;
        if (has_kind) {
            const std::lock_guard guard(lock);
            if (left.size() < MOST_KINDS && left.try_emplace(own, Left{decision, 0}).second) return;
        }
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(decision);
        PyGILState_Release(state);
    }
};

struct Kernel : c10::OperatorKernel {
    std::shared_ptr<Operator> of;
    explicit Kernel(std::shared_ptr<Operator> one) : of(std::move(one)) {}
    void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, torch::jit::Stack* stack) { of->call(keys, stack); }
};

struct Shortcut {
    PyObject_HEAD
    c10::DispatchKey key;
    std::vector<std::shared_ptr<Operator>> operators;
    std::unique_ptr<torch::Library> registered;
};

template <typename Function>
PyObject* guarded(Function function) {
    try {
        return function();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
}

PyObject* create(PyTypeObject* type, PyObject* positional, PyObject*) {
    const char* key;
    PyObject* names;
    if (!PyArg_ParseTuple(positional, "sO!", &key, &PyTuple_Type, &names)) return nullptr;
    Shortcut* self = reinterpret_cast<Shortcut*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    new (&self->operators) decltype(self->operators)();
    new (&self->registered) decltype(self->registered)();
    PyObject* done = guarded([&]() -> PyObject* {
        self->key = c10::parseDispatchKey(key);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
            const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
            if (text == nullptr) return nullptr;
            const std::string name = text;
            const size_t dot = name.find('.');
            const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
            const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + name.substr(0, dot)).c_str(), overload.c_str());
            self->operators.push_back(std::make_shared<Operator>(handle, self->key));
        }
        return Py_None;
    });
    if (done == nullptr) Py_CLEAR(self);
    return reinterpret_cast<PyObject*>(self);
}

PyObject* counts(PyObject* self, PyObject*) {
    std::vector<std::pair<PyObject*, long long>> taken;  // first: making objects may run anything, even a product
    for (const auto& one : reinterpret_cast<Shortcut*>(self)->operators) {
        const std::lock_guard guard(one->lock);
        for (auto& [kind, left] : one->left) {
            if (left.calls != 0) taken.emplace_back(Py_NewRef(left.decision), std::exchange(left.calls, 0));
        }
    }
    PyObject* found = PyList_New(static_cast<Py_ssize_t>(taken.size()));
    for (size_t i = 0; i < taken.size(); ++i) {
        PyObject* pair = found == nullptr ? nullptr : Py_BuildValue("OL", taken[i].first, taken[i].second);
        if (pair == nullptr) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, static_cast<Py_ssize_t>(i), pair);
        }
        Py_DECREF(taken[i].first);
    }
    return found;
}

PyObject* install(PyObject* object, PyObject*) {
    Shortcut* self = reinterpret_cast<Shortcut*>(object);
    return guarded([&]() -> PyObject* {
        auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", self->key, __FILE__, __LINE__);
        for (const auto& one : self->operators) {
            one->deciding = std::make_unique<c10::SafeKernelFunction>(one->handle.getComputedKernelForDispatchKey(self->key));
            const auto& name = one->handle.operator_name();
            const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
            library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(one)));
        }
        self->registered = std::move(library);
        Py_RETURN_NONE;
    });
}

void forget(Shortcut* self) {
    self->registered.reset();
    for (const auto& one : self->operators) {
        decltype(one->left) left;
        {
            const std::lock_guard guard(one->lock);
            left.swap(one->left);
        }
        for (const auto& [kind, each] : left) Py_DECREF(each.decision);
    }
}

PyObject* remove(PyObject* object, PyObject*) {
    forget(reinterpret_cast<Shortcut*>(object));
    Py_RETURN_NONE;
}

void destroy(PyObject* object) {
    Shortcut* self = reinterpret_cast<Shortcut*>(object);
    PyTypeObject* type = Py_TYPE(self);
    forget(self);
    self->operators.~vector();
    self->registered.~unique_ptr();
    type->tp_free(object);
    Py_DECREF(type);
}

PyObject* leave(PyObject*, PyObject* decision) {
    Py_XSETREF(just_left, Py_NewRef(decision));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Take calls before the kernels that are registered now."},
    {"remove", remove, METH_NOARGS, "Stop, and forget what was left."},
    {"counts", counts, METH_NOARGS, "Decisions and how many calls of theirs took the shortcut since this was asked last."},
    {},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {},
};

PyType_Spec spec = {"tilewright.torch._shortcut.Shortcut", sizeof(Shortcut), 0, Py_TPFLAGS_DEFAULT, slots};

PyMethodDef functions[] = {
    {"leave", leave, METH_O, "Say that the call that this thread is in was left to PyTorch, by this decision."},
    {},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_shortcut", "Products that are left to PyTorch.", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit__shortcut() {
    PyObject* created = PyModule_Create(&module);
    PyObject* type = PyType_FromSpec(&spec);
    if (created == nullptr || type == nullptr || PyModule_AddObject(created, "Shortcut", type) < 0) return nullptr;
    return created;
}
