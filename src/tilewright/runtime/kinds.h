// Kinds: calls that differ in the sizes of their matrices, and in nothing else that a plan depends on. Python plans the sizes of a
// known kind without reading the call again.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "call_arrays.h"
#include "objects.h"
#include "plans.h"
#include "steps.h"

namespace {

constexpr int64_t LARGEST = (int64_t(1) << 31) - (1 << 12);  // as in shapes.py, for sizes and leading dimensions

// The call of a kind: m, n, k; and leading dimensions of A, B, C and OUT, 0 for those that there are not.
using Sizes = std::array<int64_t, 7>;

// Options, whether beta is not 0, and of each array its word, with bit 1 set where its columns are neighbours in memory.
using KindKey = std::array<int64_t, 1 + ARGUMENTS>;

// Adds a matrix of rows x cols to a kind. False where it is none, or may be read by rows as well as by columns.
bool add_matrix(const DLTensor& tensor, int64_t rows, int64_t cols, int64_t& word, int64_t& ld) {
    if (tensor.ndim != 2 || tensor.shape[0] != rows || tensor.shape[1] != cols) return false;
    const bool by_columns = tensor.strides[1] != 1;
    ld = tensor.strides[by_columns ? 1 : 0];
    word = word_of(tensor) | int64_t(by_columns) << 1;
    return tensor.strides[by_columns ? 0 : 1] == 1 && ld >= (by_columns ? rows : cols) && ld <= LARGEST;
}

// The kind of a call, and its sizes. False where it is of no kind: not all are matrices with more than one row and column, and
// a bias with an element for each column; or there are scales.
bool find_kind(const Arrays& arrays, const Key& key, KindKey& kind, Sizes& sizes) {
    auto& [m, n, k, lda, ldb, ldc, ldd] = sizes;
    const DLTensor* const tensors = arrays.tensors;
    if (tensors[A].ndim != 2 || tensors[B].ndim != 2 || arrays.get(SCALE_A) || arrays.get(SCALE_B)) return false;
    m = tensors[A].shape[0], k = tensors[A].shape[1], n = tensors[B].shape[1];
    if (std::min({m, n, k}) < 2 || std::max({m, n, k}) > LARGEST) return false;
    kind[0] = key.words[0];
    kind[1 + C] = kind[1 + OUT] = kind[1 + BIAS] = kind[1 + SCALE_A] = kind[1 + SCALE_B] = ldc = ldd = 0;
    if (const DLTensor* bias = arrays.get(BIAS)) {
        if (bias->ndim != 1 || bias->shape[0] != n || bias->strides[0] != 1) return false;
        kind[1 + BIAS] = word_of(*bias);
    }
    return add_matrix(tensors[A], m, k, kind[1 + A], lda) && add_matrix(tensors[B], k, n, kind[1 + B], ldb) &&
           (!arrays.get(C) || add_matrix(tensors[C], m, n, kind[1 + C], ldc)) &&
           (!arrays.get(OUT) || add_matrix(tensors[OUT], m, n, kind[1 + OUT], ldd));
}

class Kinds {
public:
    // Keeps what plans calls of the kind that this one is of; nothing where it is of none.
    void keep(const Arrays& arrays, const Key& key, std::shared_ptr<const Common> common, PyObject* planner) {
        KindKey kind;
        Sizes sizes;
        if (!find_kind(arrays, key, kind, sizes)) return;
        auto known = std::make_shared<Kind>();
        known->common = std::move(common);
        known->plan = Ref::to(planner);
        kinds_[kind].swap(known);  // the old one ends with this function
    }

    // The plan of a call of a known kind, whose sizes are new: Python makes it. Says as LaunchApi what came of it. Not in a
    // capture, where its code may not be loaded. What Python refuses is missed: the long way says why.
    int plan(const Driver& driver, const Arrays& arrays, const Key& key, void* stream, std::shared_ptr<Plan>& made) const {
        KindKey name;
        Sizes sizes;
        if (kinds_.empty() || !find_kind(arrays, key, name, sizes)) return MISSED;
        const auto found = kinds_.find(name);
        if (found == kinds_.end()) return MISSED;
        const std::shared_ptr<Kind> kind = found->second;  // which Python may forget meanwhile
        {
            const Current current(driver, kind->common->context);
            if (current.status != 0) return failed(driver, current.status);
            int capture;
            if (const int status = driver.find_capture(stream, capture); status != 0) return failed(driver, status);
            if (capture != NOT_CAPTURING) return MISSED;
        }
        const auto& [m, n, k, lda, ldb, ldc, ldd] = sizes;
        const Ref answer(PyObject_CallFunction(kind->plan.get(), "LLLLLLL", m, n, k, lda, ldb, ldc, ldd));
        if (!answer) {
            if (!PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
            PyErr_Clear();
            return MISSED;
        }
        if (answer.get() == Py_None) return MISSED;
        PyObject *steps, *needs, *result;
        int lent;
        auto plan = std::make_shared<Plan>();
        if (!PyTuple_Check(answer.get())) return PyErr_SetString(PyExc_TypeError, "a plan must be a tuple"), FAILED;
        if (!PyArg_ParseTuple(answer.get(), "O!O!Op;a plan", &PyTuple_Type, &steps, &PyTuple_Type, &needs, &result, &lent) ||
            !plan->read(steps, needs, result, lent != 0, arrays.get(OUT) == nullptr)) {
            return FAILED;
        }
        plan->common = kind->common;
        plan->key = key;
        made = std::move(plan);
        return LAUNCHED;
    }

    // What was kept ends only after it is out of reach: its end may run any Python code.
    void forget() { const auto kinds = std::exchange(kinds_, {}); }

    int traverse(visitproc visit, void* arg) const {
        for (const auto& entry : kinds_) {
            Py_VISIT(entry.second->common->memory.get());
            Py_VISIT(entry.second->plan.get());
        }
        return 0;
    }

private:
    struct Kind {
        std::shared_ptr<const Common> common;
        Ref plan;  // called for a plan: plan(*sizes)
    };

    std::map<KindKey, std::shared_ptr<Kind>> kinds_;
};

}  // namespace
