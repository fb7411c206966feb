// Plans, and by what they are found: the types, shapes, strides, device and alignment of arrays, and options.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "call_arrays.h"
#include "objects.h"
#include "steps.h"

namespace {

constexpr size_t MOST_WORDS = 1 + ARGUMENTS * (1 + 2 * MOST_DIMENSIONS);
constexpr size_t MOST_PLANS = 4096;

// All that a plan was made for.
struct Key {
    std::array<int64_t, MOST_WORDS> words;
    size_t count = 0;

    void add(int64_t word) { words[count++] = word; }

    void add(const DLTensor* tensor) {
        if (tensor == nullptr) return add(int64_t(0));
        add(word_of(*tensor));
        for (int i = 0; i < tensor->ndim; ++i) add(tensor->shape[i]);
        for (int i = 0; i < tensor->ndim; ++i) add(tensor->strides[i]);
    }

    uint64_t hash() const {
        uint64_t state = count;
        for (size_t i = 0; i < count; ++i) {
            state = (state ^ uint64_t(words[i])) * 0x9E3779B97F4A7C15u;
            state ^= state >> 32;
        }
        return state;
    }

    bool operator==(const Key& other) const {
        return count == other.count && std::equal(words.begin(), words.begin() + count, other.words.begin());
    }
};

// What plans have in common that are for calls of one kind.
struct Common {
    void* context = nullptr;
    Ref memory;            // called for a stream's memory: memory(stream, needs)
    bool swapped = false;  // whether the plan's A is the call's b
};

struct Plan {
    Key key;
    std::shared_ptr<const Common> common;
    std::vector<std::unique_ptr<Step>> steps;
    Memory needed;
    Ref make, make_arguments, make_keywords;  // called for a new result
    bool lent = false;                        // whether a library is asked for memory in each call, but for counters
    uint64_t cached = 0;                        // address of a copy that outlives the calls

    // From Python's plan: false with an error set. makes: whether a call makes a new result.
    bool read(PyObject* read_steps, PyObject* needs, PyObject* result, bool lends, bool makes) {
        if (!PyArg_ParseTuple(needs, "nnn;Needs", &needed.workspace_bytes, &needed.counter_count, &needed.relayout_bytes)) {
            return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(read_steps); ++i) {
            if (!read_step(PyTuple_GET_ITEM(read_steps, i), steps)) return false;
        }
        lent = lends;
        if (!makes) return true;
        PyObject *made_by, *arguments, *keywords;
        if (!PyTuple_Check(result)) return PyErr_Format(PyExc_TypeError, "new must be a tuple where out is None"), false;
        if (!PyArg_ParseTuple(result, "OO!O!;new", &made_by, &PyTuple_Type, &arguments, &PyDict_Type, &keywords)) return false;
        make = Ref::to(made_by);
        make_arguments = Ref::to(arguments);
        make_keywords = Ref::to(keywords);
        return true;
    }
};

class Plans {
public:
    size_t count() const { return plans_.size(); }

    // Gives options a number, so that keys may have them. False, with an error set, where they cannot be compared.
    bool intern(PyObject* options) {
        if (options == Py_None) return true;
        if (!options_) options_ = Ref(PyDict_New());
        const Ref number(PyLong_FromLongLong(++numbered_));
        const Ref known = Ref::to(options_.get());  // to compare options may run Python, which may forget them
        return known && number && PyDict_SetDefault(known.get(), options, number.get()) != nullptr;
    }

    // False where the options cannot be compared, or no plan has them.
    bool make_key(const Arrays& arrays, PyObject* options, bool scaled, Key& key) const {
        int64_t number = 0;
        if (options != Py_None) {
            const Ref known = Ref::to(options_.get());
            PyObject* found = known ? PyDict_GetItemWithError(known.get(), options) : nullptr;
            if (found == nullptr) return false;
            number = PyLong_AsLongLong(found);
        }
        key.add(number << 1 | int64_t(scaled));
        for (int i = 0; i < ARGUMENTS; ++i) key.add(arrays.get(i));
        return true;
    }

    std::shared_ptr<Plan> find(const Key& key) const {
        const auto [first, last] = plans_.equal_range(key.hash());
        const auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second->key == key; });
        return found == last ? nullptr : found->second;
    }

    void keep(std::shared_ptr<Plan> plan) {
        const uint64_t hash = plan->key.hash();
        const auto [first, last] = plans_.equal_range(hash);
        const auto known = std::find_if(first, last, [&](const auto& entry) { return entry.second->key == plan->key; });
        if (known != last) {
            known->second.swap(plan);  // the old one ends with this function, when the map is whole
        } else {
            plans_.emplace(hash, std::move(plan));
        }
    }

    // What was kept ends only after it is out of reach: its end may run any Python code.
    void forget() {
        const auto plans = std::exchange(plans_, {});
        const Ref options = std::exchange(options_, Ref());
    }

    int traverse(visitproc visit, void* arg) const {
        Py_VISIT(options_.get());
        for (const auto& entry : plans_) {
            const Plan& plan = *entry.second;
            Py_VISIT(plan.common->memory.get());
            Py_VISIT(plan.make.get());
            Py_VISIT(plan.make_arguments.get());
            Py_VISIT(plan.make_keywords.get());
        }
        return 0;
    }

private:
    std::unordered_multimap<uint64_t, std::shared_ptr<Plan>> plans_;  // by the hash of their keys
    Ref options_;  // a dict: the options of plans, each with its number
    int64_t numbered_ = 0;
};

}  // namespace
