// The XLA handler: a product inside an XLA program. XLA calls `launch` with its stream and its buffers.
//
//     call of the target: plan's name, alpha | operands a, b and perhaps a bias | results d and perhaps scratch memory
//         find     the plan that Python kept under this name for this GPU
//         zero     the counters, in scratch memory
//         launch   each step: write addresses and alpha into its parameters, hand them to the driver
//
// A call keeps nothing: all memory that its launches use are XLA's buffers, so that calls may run at the same time, and XLA
// may capture one into a command buffer (a CUDA graph) and replay that.
// Plans are never dropped, since nobody knows which programs will run again. Python's lock is not needed, nor held, by
// a call: a plan's own lock guards its parameters from the first write to the last launch.

#include "steps.h"

#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

constexpr uint64_t VECTOR_BYTES = 16;

Driver driver;
int (*set_words)(uint64_t address, unsigned word, size_t count, void* stream);

struct Plan {
    std::vector<std::unique_ptr<Step>> steps;
    void* context = nullptr;
    Memory needed;
    bool swapped = false;  // whether the plan's A is the call's b
    std::mutex parameters;
};

class Plans {
public:
    Plan* find(std::string_view name, int device) {
        const std::lock_guard guard(lock);
        const auto found = plans.find({std::string(name), device});
        return found == plans.end() ? nullptr : found->second.get();
    }

    // A plan that is known by this name stays.
    void keep(std::string name, int device, std::unique_ptr<Plan> plan) {
        const std::lock_guard guard(lock);
        plans.try_emplace({std::move(name), device}, std::move(plan));
    }

private:
    std::mutex lock;
    std::map<std::pair<std::string, int>, std::unique_ptr<Plan>> plans;
};

Plans plans;

ffi::Error invalid(const std::string& words) { return ffi::Error(ffi::ErrorCode::kInvalidArgument, "tilewright: " + words); }

ffi::Error refused(int status) { return ffi::Error(ffi::ErrorCode::kInternal, "tilewright: " + words(driver, status)); }

ffi::Error launch(void* stream, int32_t device, std::string_view name, float alpha, ffi::RemainingArgs operands,
                  ffi::RemainingRets results) {
    Plan* const plan = plans.find(name, device);
    if (plan == nullptr) {
        return invalid("this process has made no plan '" + std::string(name) + "' for GPU " + std::to_string(device) +
                       ": a program with matmul runs in a process that has traced it");
    }
    const Scratch scratch(plan->needed);
    if (operands.size() < 2 || operands.size() > 3 || results.size() != (scratch.size ? 2 : 1)) {
        return invalid("plan '" + std::string(name) + "' has other operands or results");
    }
    const auto operand = [&](size_t i) { return uint64_t(operands.get<ffi::AnyBuffer>(i)->untyped_data()); };
    Values values;
    values.scalars[0] = alpha;
    values.addresses[FROM_A] = operand(plan->swapped ? 1 : 0);
    values.addresses[FROM_B] = operand(plan->swapped ? 0 : 1);
    if (operands.size() == 3) values.addresses[FROM_BIAS] = operand(2);
    values.addresses[FROM_C] = values.addresses[FROM_D] =
        uint64_t((*results.get<ffi::AnyBuffer>(0))->untyped_data());
    if ((values.addresses[FROM_A] | values.addresses[FROM_B] | values.addresses[FROM_D]) % VECTOR_BYTES != 0) {
        return invalid("an operand or the result does not begin at a multiple of 16 bytes");
    }

    const Current current(driver, plan->context);
    if (current.status != 0) return refused(current.status);
    if (scratch.size != 0) {
        const ffi::AnyBuffer memory = **results.get<ffi::AnyBuffer>(1);
        if (memory.size_bytes() < scratch.size) return invalid("plan '" + std::string(name) + "' needs more memory");
        // A kernel that asks for nothing is passed null.
        const uint64_t address = uint64_t(memory.untyped_data());
        if (plan->needed.workspace_bytes != 0) values.addresses[FROM_WORKSPACE] = address;
        if (plan->needed.relayout_bytes != 0) values.addresses[FROM_RELAYOUT] = address + scratch.relayout;
        if (plan->needed.counter_count != 0) {
            values.addresses[FROM_COUNTERS] = address + scratch.counters;
            const int status = set_words(values.addresses[FROM_COUNTERS], 0, plan->needed.counter_count, stream);
            if (status != 0) return refused(status);
        }
    }
    const std::lock_guard guard(plan->parameters);
    for (const auto& step : plan->steps) {
        int status = step->fill(driver, values);
        if (status == 0) status = step->launch(driver, stream);
        if (status != 0) return refused(status);
    }
    return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(handler, launch,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Attr<std::string_view>("plan")
                           .Attr<float>("alpha")
                           .RemainingArgs()
                           .RemainingRets(),
                       {ffi::Traits::kCmdBufferCompatible});

// ---- The module -----------------------------------------------------------------------------------------------------

PyObject* keep_plan(PyObject*, PyObject* positional, PyObject* named) {
    static const char* names[] = {"name", "device", "context", "steps", "needs", "swapped", nullptr};
    const char* name;
    int device, swapped = 0;
    unsigned long long context;
    PyObject *steps, *needs;
    auto plan = std::make_unique<Plan>();
    Memory& needed = plan->needed;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "siKO!O!|p", const_cast<char**>(names), &name, &device, &context,
                                     &PyTuple_Type, &steps, &PyTuple_Type, &needs, &swapped) ||
        !PyArg_ParseTuple(needs, "nnn;Needs", &needed.workspace_bytes, &needed.counter_count, &needed.relayout_bytes)) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
        if (!read_step(PyTuple_GET_ITEM(steps, i), plan->steps)) return nullptr;
    }
    plan->context = reinterpret_cast<void*>(context);
    plan->swapped = swapped != 0;
    const uint64_t size = Scratch(needed).size;
    plans.keep(name, device, std::move(plan));
    return PyLong_FromUnsignedLongLong(size);
}

PyObject* open_driver(PyObject*, PyObject* path) {
    const char* text = PyUnicode_AsUTF8(path);
    if (text == nullptr || !driver.open(text) || !driver.find(set_words, "cuMemsetD32Async")) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"open", open_driver, METH_O, "Open the library of the CUDA driver."},
    {"keep", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(keep_plan)), METH_VARARGS | METH_KEYWORDS,
     "Keep a plan under a name; returns the bytes of scratch memory that its calls need. See xla_handler.py."},
    {},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_xla_handler", "Products inside XLA programs.", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit__xla_handler() {
    PyObject* created = PyModule_Create(&module);
    PyObject* target = PyCapsule_New(reinterpret_cast<void*>(+handler), nullptr, nullptr);
    if (created == nullptr || target == nullptr || PyModule_AddObjectRef(created, "HANDLER", target) < 0) return nullptr;
    Py_DECREF(target);
    return created;
}
