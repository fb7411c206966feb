// The shortcut: products of PyTorch whose way routing.py has decided go it without Python.
//
//     aten::mm  ->  this kernel:  left to PyTorch?    PyTorch's kernel
//                                 run here?           the compiled launcher
//                                 neither, or missed  routing.py's kernel, which decides, and remembers plans
//
// routing.py's kernel says `leave(decision)` or `take(decision, ...)` before it returns; calls of the same kind take the
// shortcut from then on, and are counted. A kind is all sizes, strides, types and scalars of a call.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../../runtime/arrays.h"

namespace {

constexpr size_t MOST_KINDS = 4096;  // of an operator; calls of others go the long way

using Kind = std::vector<int64_t>;

struct Hash {
    size_t operator()(const Kind& kind) const {
        uint64_t mixed = 0x9e3779b97f4a7c15u;
        for (const int64_t part : kind) mixed = (mixed ^ static_cast<uint64_t>(part)) * 0xff51afd7ed558ccdu, mixed ^= mixed >> 32;
        return mixed;
    }
};

// What is added to a product, as matmul has it.
enum Addend { NOTHING, MATRIX, BIAS_VECTOR };

// How calls of a kind were decided.
struct Decided {
    PyObject* decision;
    bool ours;      // whether the launcher computes them, else PyTorch
    Addend addend;
    bool asks;      // whether the decision is asked in each call by which options they are launched, if at all
};

// The same of a kind that is kept, until the end, and how many calls took the shortcut.
struct Known {
    PyObject* const decision;
    std::atomic<bool> ours;
    const Addend addend;
    const bool asks;
    std::atomic<long long> calls = 0;

    explicit Known(const Decided& of) : decision(of.decision), ours(of.ours), addend(of.addend), asks(of.asks) {}
};

// What this thread's call was decided as; without a decision where it was not.
thread_local Decided just_decided = {};

// How products are launched: set by `launch_by`, read with the GIL held. Objects are never released.
struct {
    const LaunchApi* api = nullptr;
    PyObject *launcher, *tensor_type;
} launching;

PyObject* asked_name;  // of the decision's method

class Gil {
public:
    Gil() : state(PyGILState_Ensure()) {}
    ~Gil() { PyGILState_Release(state); }

private:
    const PyGILState_STATE state;
};

// A reference of its own, or null.
struct Owned {
    PyObject* const object;
    explicit Owned(PyObject* one) : object(one) {}
    ~Owned() { Py_XDECREF(object); }
    Owned(const Owned&) = delete;
};

// False where the launcher takes no such elements.
bool describe(const at::Tensor& tensor, bool written, DLTensor& found) {
    uint8_t code = 2, bits = 32;
    switch (tensor.scalar_type()) {
        case at::kFloat: break;
        case at::kHalf: bits = 16; break;
        case at::kBFloat16: code = 4, bits = 16; break;
        case at::kChar: code = 0, bits = 8; break;
        case at::kInt: code = 0; break;
        default: return false;
    }
    void* const data = written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    const DLDevice device = {tensor.is_cuda() ? 2 : 1, tensor.is_cuda() ? tensor.get_device() : 0};
    found = {data, device, int32_t(tensor.dim()), code, bits, 1, const_cast<int64_t*>(tensor.sizes().data()),
             const_cast<int64_t*>(tensor.strides().data()), 0};
    return true;
}

// A new result.
struct Result {
    const at::Tensor &a, &b;
    at::Tensor made;

    static int make(void* self, DLTensor* out) {
        Result& result = *static_cast<Result*>(self);
        try {
            std::vector<int64_t> shape(result.a.sizes().begin(), result.a.sizes().end());
            shape.back() = result.b.size(-1);
            const bool integers = result.a.scalar_type() == at::kChar;
            result.made = at::empty(shape, integers ? result.a.options().dtype(at::kInt) : result.a.options());
            return describe(result.made, true, *out) ? LAUNCHED : MISSED;
        } catch (const std::exception&) {
            return MISSED;  // PyTorch says why, when it is asked again
        }
    }
};

// Computes the product of the last `count` values of the stack; false where the launcher does not know its plan.
bool launch(const Known& known, torch::jit::Stack* stack, size_t count) {
    const Gil gil;
    if (launching.api == nullptr) return false;
    const Owned options(known.asks ? PyObject_CallMethodNoArgs(known.decision, asked_name) : Py_NewRef(Py_None));
    if (options.object == nullptr || options.object == Py_False) return PyErr_Clear(), false;
    const c10::IValue* const values = stack->data() + stack->size() - count;
    const bool adds = count > 3;  // addend, a, b, beta, alpha; else a, b; and perhaps out
    const bool into = count == 3 || count == 6;
    const at::Tensor &a = values[adds].toTensor(), &b = values[adds + 1].toTensor();
    DLTensor described[ARGUMENTS];
    const DLTensor* tensors[ARGUMENTS] = {};
    const auto give = [&](Argument argument, const at::Tensor& tensor) {
        tensors[argument] = &described[argument];
        return describe(tensor, argument == OUT, described[argument]);
    };
    if (!give(A, a) || !give(B, b)) return false;
    if (known.addend != NOTHING && !give(known.addend == MATRIX ? C : BIAS, values[0].toTensor())) return false;
    if (into && !give(OUT, values[count - 1].toTensor())) return false;
    double scalars[2] = {1.0, 0.0};
    if (adds) {
        scalars[0] = values[4].toScalar().toDouble();
        if (known.addend == MATRIX) scalars[1] = values[3].toScalar().toDouble();
    }
    Result result{a, b, {}};
    const int status = launching.api->launch(launching.launcher, launching.tensor_type, tensors, options.object, scalars,
                                             Result::make, &result);
    if (status != LAUNCHED) {
        PyErr_Clear();  // the long way says it again
        return false;
    }
    at::Tensor made = into ? values[count - 1].toTensor() : std::move(result.made);
    torch::jit::drop(*stack, count);
    torch::jit::push(*stack, std::move(made));
    return true;
}

// One operator: its two kernels, and the kinds of calls that were decided. Alive while a call runs.
struct Operator {
    c10::OperatorHandle handle;
    c10::SafeKernelFunction stock;
    std::unique_ptr<c10::SafeKernelFunction> deciding;  // routing.py's, while that is installed
    std::unordered_map<Kind, Known, Hash> decided;
    std::mutex lock;
    const size_t arguments;

    Operator(const c10::OperatorHandle& of, const c10::SafeKernelFunction& kernel)
        : handle(of), stock(kernel), arguments(of.schema().arguments().size()) {}

    // Puts a call's kind into `kind`; false where it has none.
    bool read(const torch::jit::Stack& stack, Kind& kind) const {
        kind.clear();
        for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
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

    // What is known of a kind; null where nothing is.
    Known* find(const Kind& kind) {
        const std::lock_guard guard(lock);
        const auto found = decided.find(kind);
        return found == decided.end() ? nullptr : &found->second;
    }

    // Keeps a decision, and gives back the reference that is not needed any more.
    PyObject* keep(const Kind& kind, const Decided& now) {
        const std::lock_guard guard(lock);
        const auto before = decided.find(kind);
        if (before == decided.end()) {
            return decided.size() < MOST_KINDS && decided.try_emplace(kind, now).second ? nullptr : now.decision;
        }
        before->second.ours = now.ours;  // a kind has one decision, which may have changed
        return now.decision;
    }

    void call(c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        thread_local Kind read_kind;
        const bool has_kind = read(*stack, read_kind);
        if (Known* const known = has_kind ? find(read_kind) : nullptr) {
            if (!known->ours) {
                ++known->calls;
                return stock.callBoxed(handle, keys, stack);
            }
            if (launch(*known, stack, arguments)) {
                ++known->calls;
                return;
            }
        }
        const Kind kind = read_kind;  // calls inside of this one read theirs
        just_decided = {};
        deciding->callBoxed(handle, keys, stack);
        const Decided now = std::exchange(just_decided, Decided{});
        if (now.decision == nullptr) return;
        PyObject* const spare = has_kind ? keep(kind, now) : now.decision;
        if (spare == nullptr) return;
        const Gil gil;
        Py_DECREF(spare);
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
    PyObject* kernels;
    if (!PyArg_ParseTuple(positional, "sO!", &key, &PyDict_Type, &kernels)) return nullptr;
    Shortcut* self = reinterpret_cast<Shortcut*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    new (&self->operators) decltype(self->operators)();
    new (&self->registered) decltype(self->registered)();
    PyObject* done = guarded([&]() -> PyObject* {
        self->key = c10::parseDispatchKey(key);
        PyObject *of, *kernel;
        for (Py_ssize_t next = 0; PyDict_Next(kernels, &next, &of, &kernel);) {
            const char* text = PyUnicode_AsUTF8(of);
            if (text == nullptr) return nullptr;
            const std::string name = text;
            const size_t dot = name.find('.');
            const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
            const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + name.substr(0, dot)).c_str(), overload.c_str());
            const auto& stock = pybind11::handle(kernel).cast<const c10::SafeKernelFunction&>();
            self->operators.push_back(std::make_shared<Operator>(handle, stock));
        }
        return Py_None;
    });
    if (done == nullptr) Py_CLEAR(self);
    return reinterpret_cast<PyObject*>(self);
}

PyObject* counts(PyObject* self, PyObject*) {
    std::vector<std::pair<const Known*, long long>> called;  // first: making objects may run anything, even a product
    for (const auto& one : reinterpret_cast<Shortcut*>(self)->operators) {
        const std::lock_guard guard(one->lock);
        for (auto& [kind, known] : one->decided) {
            if (const long long calls = known.calls.exchange(0)) called.emplace_back(&known, calls);
        }
    }
    PyObject* found = PyList_New(static_cast<Py_ssize_t>(called.size()));
    for (size_t i = 0; found != nullptr && i < called.size(); ++i) {
        const auto [known, calls] = called[i];
        PyObject* const row = Py_BuildValue("ONL", known->decision, PyBool_FromLong(known->ours), calls);
        if (row == nullptr) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, static_cast<Py_ssize_t>(i), row);
        }
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

PyObject* remove(PyObject* object, PyObject*) {
    reinterpret_cast<Shortcut*>(object)->registered.reset();
    Py_RETURN_NONE;
}

void destroy(PyObject* object) {
    Shortcut* self = reinterpret_cast<Shortcut*>(object);
    PyTypeObject* type = Py_TYPE(self);
    self->registered.~unique_ptr();
    for (const auto& one : self->operators) {
        for (const auto& [kind, known] : std::exchange(one->decided, {})) Py_DECREF(known.decision);
    }
    self->operators.~vector();
    type->tp_free(object);
    Py_DECREF(type);
}

void decide(const Decided& now) { Py_XDECREF(std::exchange(just_decided, now).decision); }

PyObject* leave(PyObject*, PyObject* decision) {
    decide({Py_NewRef(decision), false, NOTHING, false});
    Py_RETURN_NONE;
}

PyObject* take(PyObject*, PyObject* positional) {
    PyObject* decision;
    int addend, asks;
    if (!PyArg_ParseTuple(positional, "Oip", &decision, &addend, &asks)) return nullptr;
    decide({Py_NewRef(decision), true, static_cast<Addend>(addend), asks != 0});
    Py_RETURN_NONE;
}

PyObject* launch_by(PyObject*, PyObject* positional) {
    PyObject *launcher, *api, *tensor_type;
    if (!PyArg_ParseTuple(positional, "OOO", &launcher, &api, &tensor_type)) return nullptr;
    const auto found = static_cast<const LaunchApi*>(PyCapsule_GetPointer(api, LAUNCH_CAPSULE));
    if (found == nullptr) return nullptr;
    launching.launcher = Py_NewRef(launcher);
    launching.tensor_type = Py_NewRef(tensor_type);
    launching.api = found;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Take calls before the kernels that are registered now."},
    {"remove", remove, METH_NOARGS, "Stop; what was decided is kept."},
    {"counts", counts, METH_NOARGS, "Decisions, whether they are ours, and how many calls took the shortcut since this was asked."},
    {},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {},
};

PyType_Spec spec = {"tilewright.frameworks.torch.enable._shortcut.Shortcut", sizeof(Shortcut), 0, Py_TPFLAGS_DEFAULT, slots};

PyMethodDef functions[] = {
    {"leave", leave, METH_O, "Say that the call that this thread is in was left to PyTorch, by this decision."},
    {"take", take, METH_VARARGS, "Say that the launcher knows the call that this thread is in; see shortcut.py."},
    {"launch_by", launch_by, METH_VARARGS, "Say how calls are launched; see shortcut.py."},
    {},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_shortcut", "Products of PyTorch whose way is decided.", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit__shortcut() {
    asked_name = PyUnicode_InternFromString("asked");
    PyObject* created = asked_name == nullptr ? nullptr : PyModule_Create(&module);
    PyObject* type = PyType_FromSpec(&spec);
    if (created == nullptr || type == nullptr || PyModule_AddObject(created, "Shortcut", type) < 0) return nullptr;
    return created;
}
