// Memory of a launch besides the operands: lent by the arrays' library for a call, or of a stream's own.
//
// From 16 MiB on (`lends` in planned_call.py), PyTorch's allocator lends a call's sums and copies, and has them back at once, as those of a
// temporary tensor: it orders uses by its current stream, to which the launches go. So a training's peak holds the parts of one product.
// Less than that is a workspace, since lending takes the host time, and so are counters, which must be 0 before and after, and what
// other libraries' calls and captures need. Where the allocator has none left, the launcher misses.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <cstdint>
#include <map>

#include "call_arrays.h"
#include "plans.h"
#include "steps.h"

namespace {

// Memory that a library lends for a call; given back at the end.
class Lent {
public:
    Lent() = default;
    Lent(const Lent&) = delete;
    ~Lent() {
        if (!address_) return;
        PyObject *type, *value, *trace;  // of what the call failed with, if it did
        PyErr_Fetch(&type, &value, &trace);
        const Ref done(PyObject_CallOneArg(give_back_, address_.get()));
        PyErr_Restore(type, value, trace);
    }

    // False where the library has none.
    bool take(const Library& library, void* stream, uint64_t bytes) {
        address_ = Ref(PyObject_CallFunction(library.take.get(), "KK", bytes, reinterpret_cast<uint64_t>(stream)));
        give_back_ = library.give_back.get();
        PyErr_Clear();
        return bool(address_);
    }

    uint64_t begin() const { return PyLong_AsUnsignedLongLong(address_.get()); }

private:
    Ref address_;
    PyObject* give_back_ = nullptr;  // the library's, which is never forgotten
};

class Memories {
public:
    explicit Memories(const Driver& driver) : driver_(driver) {}

    // Says as LaunchApi what came of it: where there is no room, the caller may know a plan that needs less.
    int find(const Arrays& arrays, const Plan& plan, void* stream, Lent& lent, Values& values) {
        int capture = NOT_CAPTURING;
        if (const int status = driver_.find_capture(stream, capture); status != 0) return failed(driver_, status);
        Memory own = plan.needed;
        if (plan.lent && capture == NOT_CAPTURING && arrays.library->lends()) {
            // Not in a capture, of which the library may know nothing: what a graph uses must not be lent again.
            own.workspace_bytes = own.relayout_bytes = 0;
            Memory lends = plan.needed;
            lends.counter_count = 0;
            if (const Scratch scratch(lends); scratch.size != 0) {
                if (!lent.take(*arrays.library, stream, scratch.size)) return MISSED;
                set_memory(lends, {lent.begin(), 0, lent.begin() + scratch.relayout}, values);
            }
        }
        return own.is_empty() ? LAUNCHED : find_own(plan, stream, capture != NOT_CAPTURING, own, values);
    }

    void clear() { known_.clear(); }

private:
    const Driver& driver_;
    std::map<std::array<uint64_t, 3>, Memory> known_;  // by context, stream and, for a per-thread stream, thread

    // A kernel that asks for nothing is passed null, whatever there is.
    static void set_memory(const Memory& needed, const Memory& found, Values& values) {
        if (needed.workspace_bytes != 0) values.addresses[FROM_WORKSPACE] = found.workspace;
        if (needed.counter_count != 0) values.addresses[FROM_COUNTERS] = found.counters;
        if (needed.relayout_bytes != 0) values.addresses[FROM_RELAYOUT] = found.relayout;
    }

    // Memory of a stream's own, or of a capture's.
    int find_own(const Plan& plan, void* stream, bool capturing, const Memory& needed, Values& values) {
        const uint64_t handle = reinterpret_cast<uint64_t>(stream);
        const uint64_t thread = handle == PER_THREAD_STREAM ? PyThread_get_thread_ident() : 0;
        const std::array<uint64_t, 3> owner = {reinterpret_cast<uint64_t>(plan.common->context), handle, thread};
        Memory memory;
        const auto known = known_.find(owner);
        if (!capturing && known != known_.end() && known->second.covers(needed)) {
            memory = known->second;
        } else {
            if (const int status = ask(plan, handle, needed, memory); status != LAUNCHED) return status;
            if (!capturing) known_[owner] = memory;
        }
        set_memory(needed, memory, values);
        return LAUNCHED;
    }

    static int ask(const Plan& plan, uint64_t stream, const Memory& needed, Memory& memory) {
        const Ref answer(PyObject_CallFunction(plan.common->memory.get(), "K(nnn)", stream, needed.workspace_bytes,
                                               needed.counter_count, needed.relayout_bytes));
        if (!answer) return PyErr_ExceptionMatches(PyExc_MemoryError) ? MISSED : FAILED;
        if (!PyTuple_Check(answer.get())) return PyErr_SetString(PyExc_TypeError, "memory must be a tuple"), FAILED;
        const bool read = PyArg_ParseTuple(answer.get(), "KnKnKn;Memory", &memory.workspace, &memory.workspace_bytes,
                                           &memory.counters, &memory.counter_count, &memory.relayout, &memory.relayout_bytes);
        return read ? LAUNCHED : FAILED;
    }
};

}  // namespace
