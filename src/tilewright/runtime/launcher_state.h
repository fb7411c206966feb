// What a launcher knows, and its calls: each reads the arrays, finds their plan, prepares what that needs and launches its steps.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "call_arrays.h"
#include "kinds.h"
#include "memories.h"
#include "objects.h"
#include "plans.h"
#include "steps.h"

namespace {

PyObject* miss;

PyObject* missed() {
    PyErr_Clear();
    return Py_NewRef(miss);
}

class State {
public:
    // False, with an error set, where the driver cannot be used.
    bool open(const char* driver, int device_type) {
        reader_.device_type = device_type;
        return driver_.open(driver);
    }

    PyObject* call(PyObject* const* arguments, Py_ssize_t count) {
        if (count != 8 && count != 10) return PyErr_Format(PyExc_TypeError, "call takes 8 or 10 arguments, got %zd", count);
        PyObject* objects[ARGUMENTS] = {};
        std::copy(arguments, arguments + SCALE_A, objects);
        for (int i : {SCALE_A, SCALE_B}) objects[i] = count == 10 ? arguments[8 + i - SCALE_A] : Py_None;
        Arrays arrays;
        double scalars[2];
        if (!read_scalar(arguments[5], scalars[0]) || !read_scalar(arguments[6], scalars[1]) || !reader_.read(objects, arrays)) {
            return missed();
        }
        Key key;
        if (!plans_.make_key(arrays, arguments[7], scalars[1] != 0, key)) return missed();
        Ref result = Ref::to(arguments[OUT]);
        const int status = run(arrays, key, scalars, [&](const Plan& plan) {
            result = Ref(PyObject_Call(plan.make.get(), plan.make_arguments.get(), plan.make_keywords.get()));
            if (!result) return FAILED;
            return reader_.read_result(arrays, result.get()) ? LAUNCHED : MISSED;
        });
        if (status == MISSED) return missed();
        if (status == FAILED) return nullptr;
        const bool counts = arguments[OUT] != Py_None && arrays.library->is_torch();
        if (counts && !arrays.library->recording.count_version(arguments[OUT])) return nullptr;
        return result.release();
    }

    // See LaunchApi.
    int launch(PyTypeObject* type, const DLTensor* const* tensors, PyObject* options, const double* scalars,
               int (*make)(void* made, DLTensor* out), void* made) {
        Arrays arrays;
        if (!reader_.read(type, tensors, arrays)) return MISSED;
        Key key;
        if (!plans_.make_key(arrays, options, scalars[1] != 0, key)) return MISSED;
        return run(arrays, key, scalars, [&](const Plan&) {
            const int status = make(made, &arrays.tensors[OUT]);
            return status == LAUNCHED && !arrays.has_result() ? MISSED : status;
        });
    }

    PyObject* remember(PyObject* positional, PyObject* named) {
        static const char* names[] = {"a",      "b",       "c",      "out", "bias",   "options", "steps",
                                      "needs", "context", "memory", "new", "scaled", "swapped", "cached",
                                      "lent", "plan", "scale_a", "scale_b", nullptr};
        PyObject* objects[ARGUMENTS];
        objects[SCALE_A] = objects[SCALE_B] = Py_None;
        PyObject *options, *steps, *needs, *memory, *result, *planner = Py_None;
        unsigned long long context, cached = 0;
        int scaled, swapped = 0, lent = 0;
        if (!PyArg_ParseTupleAndKeywords(positional, named, "OOOOOOO!O!KOOp|pKpOOO", const_cast<char**>(names),
                                         &objects[A], &objects[B], &objects[C], &objects[OUT], &objects[BIAS], &options,
                                         &PyTuple_Type, &steps, &PyTuple_Type, &needs, &context, &memory, &result,
                                         &scaled, &swapped, &cached, &lent, &planner, &objects[SCALE_A],
                                         &objects[SCALE_B])) {
            return nullptr;
        }
        auto common = std::make_shared<Common>();
        common->context = reinterpret_cast<void*>(context);
        common->memory = Ref::to(memory);
        common->swapped = swapped != 0;
        auto plan = std::make_shared<Plan>();
        plan->common = common;
        plan->cached = cached;
        if (!plan->read(steps, needs, result, lent != 0, objects[OUT] == Py_None)) return nullptr;
        if (plans_.count() >= MOST_PLANS) forget();
        Arrays arrays;
        if (!reader_.read(objects, arrays) || !plans_.intern(options) ||
            !plans_.make_key(arrays, options, scaled != 0, plan->key)) {
            PyErr_Clear();
            Py_RETURN_FALSE;
        }
        if (planner != Py_None) kinds_.keep(arrays, plan->key, common, planner);
        plans_.keep(std::move(plan));
        Py_RETURN_TRUE;
    }

    void forget() {
        memories_.clear();
        plans_.forget();
        kinds_.forget();
    }

    size_t count() const { return plans_.count(); }

    int traverse(visitproc visit, void* arg) const {
        const int status = plans_.traverse(visit, arg);
        return status != 0 ? status : kinds_.traverse(visit, arg);
    }

private:
    Driver driver_;
    ArrayReader reader_;
    Plans plans_;
    Kinds kinds_;
    Memories memories_{driver_};

    static bool read_scalar(PyObject* object, double& value) {
        if (!PyFloat_Check(object) && !PyLong_CheckExact(object)) return false;
        value = PyFloat_AsDouble(object);
        const bool held = std::fabs(value) <= std::numeric_limits<float>::max() || std::isinf(value);  // else an error
        return held && !PyErr_Occurred();
    }

    static constexpr uint8_t INTEGERS = 1;  // codes of element types, of signed ones and of unsigned, end with it

    // Whether it is no error where results are int32: factors of integers may have such.
    static bool is_integer(double scalar) { return std::fabs(scalar) <= 1 << 24 && scalar == std::trunc(scalar); }

    bool find_stream(const Arrays& arrays, void*& stream) const {
        return arrays.library->api->current_stream(reader_.device_type, arrays.tensors[A].device.id, &stream) == 0;
    }

    // The plan of a call of a known kind, whose sizes are new, which is kept. Says as LaunchApi what came of it.
    int make_plan(const Arrays& arrays, const Key& key, std::shared_ptr<Plan>& made) {
        void* stream = nullptr;
        if (!find_stream(arrays, stream)) return MISSED;
        const int status = kinds_.plan(driver_, arrays, key, stream, made);
        if (status != LAUNCHED) return status;
        if (plans_.count() >= MOST_PLANS) forget();
        plans_.keep(made);
        return LAUNCHED;
    }

    // Launches the plan of this key, which may be of a new result: `make(plan)` makes it. Says as LaunchApi what came of it.
    template <typename Make>
    int run(Arrays& arrays, const Key& key, const double* scalars, const Make& make) {
        if ((scalars[1] != 0 && !arrays.get(C)) || arrays.writes_operand()) return MISSED;
        if (arrays.tensors[A].code <= INTEGERS && !(is_integer(scalars[0]) && is_integer(scalars[1]))) return MISSED;
        std::shared_ptr<Plan> plan = plans_.find(key);
        if (plan == nullptr && scalars[0] != 0) {  // with alpha = 0, it is that of another product
            if (const int status = make_plan(arrays, key, plan); status != LAUNCHED) return status;
        }
        if (plan == nullptr) return MISSED;
        const Current current(driver_, plan->common->context);
        if (current.status != 0) return failed(driver_, current.status);
        Values values;
        values.scalars[0] = float(scalars[0]);
        values.scalars[1] = float(scalars[1]);
        const bool swapped = plan->common->swapped;
        values.addresses[FROM_A] = address(arrays.tensors[swapped ? B : A]);
        values.addresses[FROM_B] = address(arrays.tensors[swapped ? A : B]);
        values.addresses[FROM_CACHED] = plan->cached;
        if (arrays.get(C)) values.addresses[FROM_C] = address(arrays.tensors[C]);
        const DLTensor *of_a = arrays.get(swapped ? SCALE_B : SCALE_A), *of_b = arrays.get(swapped ? SCALE_A : SCALE_B);
        if (of_a) values.addresses[FROM_SCALE_A] = address(*of_a);
        if (of_b) values.addresses[FROM_SCALE_B] = address(*of_b);
        // A grouped product has its offsets in the bias's place.
        if (arrays.get(BIAS)) values.addresses[FROM_BIAS] = values.addresses[FROM_OFFSETS] = address(arrays.tensors[BIAS]);
        if (!arrays.get(OUT)) {
            if (const int status = make(*plan); status != LAUNCHED) return status;
        }
        values.addresses[FROM_D] = address(arrays.tensors[OUT]);
        if (plan->steps.empty()) return LAUNCHED;
        void* stream = nullptr;
        if (!find_stream(arrays, stream)) return MISSED;
        Lent lent;
        if (!plan->needed.is_empty()) {
            if (const int status = memories_.find(arrays, *plan, stream, lent, values); status != LAUNCHED) return status;
        }
        for (const auto& step : plan->steps) {
            int status = step->fill(driver_, values);
            if (status == 0) status = step->launch(driver_, stream);
            if (status != 0) return failed(driver_, status);
        }
        return LAUNCHED;
    }
};

}  // namespace
