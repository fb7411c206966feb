// What PyTorch does with a call of an operator besides computing it: it may record the call for a gradient, cast its operands, or
// show it to modes. The launcher does none of that, and misses such calls. DLPack's exchange API says nothing of it.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "objects.h"

namespace {

// Names of a tensor's attributes, and of a variable of torch.autograd.forward_ad.
PyObject* requires_grad;
PyObject* is_neg;
PyObject* is_conj;
PyObject* current_level;

// False with an error set.
bool intern_names() {
    requires_grad = PyUnicode_InternFromString("requires_grad");
    is_neg = PyUnicode_InternFromString("is_neg");
    is_conj = PyUnicode_InternFromString("is_conj");
    current_level = PyUnicode_InternFromString("_current_level");
    return requires_grad && is_neg && is_conj && current_level;
}

class Recording {
public:
    Recording() = default;
    explicit Recording(PyObject* torch)
        : gradients_enabled(attribute(torch, {"is_grad_enabled"})),
          increment_version(attribute(torch, {"_C", "_increment_version"})),
          forward_ad(attribute(torch, {"autograd", "forward_ad", "__dict__"})),
          count_modes(attribute(torch, {"_C", "_len_torch_dispatch_stack"})),
          casts(attribute(torch, {"is_autocast_enabled"})) {}

    // Whether all is there that calls cannot do without.
    explicit operator bool() const { return gradients_enabled && increment_version; }

    // Whether PyTorch differentiates forward, casts operands, or has a mode that sees every operator.
    bool is_watched() const {
        PyObject* level = forward_ad ? PyDict_GetItemWithError(forward_ad.get(), current_level) : nullptr;
        if (level != nullptr && PyLong_AsLong(level) >= 0) return true;
        for (const Ref* asked : {&count_modes, &casts}) {
            if (!*asked) continue;
            const Ref answer(PyObject_CallNoArgs(asked->get()));
            if (!answer || PyLong_AsLong(answer.get()) != 0) return true;
        }
        return false;
    }

    // Whether a tensor records no gradient here, and holds what its memory does.
    bool is_plain(PyObject* tensor) const {
        const Ref recorded(PyObject_GetAttr(tensor, requires_grad));
        if (!recorded) return false;
        if (recorded.get() != Py_False) {
            const Ref enabled(PyObject_CallNoArgs(gradients_enabled.get()));
            if (enabled.get() != Py_False) return false;
        }
        const Ref negates(PyObject_CallMethodNoArgs(tensor, is_neg));
        return negates.get() == Py_False;
    }

    // Whether a tensor's elements are the conjugates of what its memory holds. False with an error set where nothing says so.
    bool find_conjugated(PyObject* tensor, bool& conjugated) const {
        const Ref answer(PyObject_CallMethodNoArgs(tensor, is_conj));
        conjugated = answer.get() == Py_True;
        return bool(answer);
    }

    // So that backward() refuses to use a tensor that was saved for it and has changed since.
    bool count_version(PyObject* out) const {
        const Ref written(PyTuple_Pack(1, out));
        return written && Ref(PyObject_CallOneArg(increment_version.get(), written.get()));
    }

private:
    Ref gradients_enabled;
    Ref increment_version;  // takes a tuple; what torch.autograd.graph.increment_version calls, at half its cost
    Ref forward_ad;         // the variables of torch.autograd.forward_ad
    Ref count_modes;        // called for the number of modes that see every operator
    Ref casts;              // called for whether autocast is on for GPUs
};

}  // namespace
