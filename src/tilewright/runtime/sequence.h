// Sequences: steps in several streams, read once from what sequence.py describes, and all started by one call of C++.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "objects.h"
#include "steps.h"

namespace {

// Functions of the driver that only sequences call.
struct StreamDriver : Driver {
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream);
    int (*write)(void* stream, uint64_t address, uint32_t value, unsigned flags);
    int (*wait)(void* stream, uint64_t address, uint32_t value, unsigned flags);
    int (*record)(void* event, void* stream);
    int (*await)(void* stream, void* event, unsigned flags);

    bool open(const char* path) {
        return Driver::open(path) && find(copy, "cuMemcpyAsync") && find(write, "cuStreamWriteValue32_v2") &&
               find(wait, "cuStreamWaitValue32_v2") && find(record, "cuEventRecord") && find(await, "cuStreamWaitEvent");
    }
};

constexpr unsigned AT_LEAST = 0;  // how a wait compares, as a difference

struct Location {
    size_t base;
    uint64_t offset;
};

struct Started {
    enum Kind { LAUNCH, COPY, SIGNAL, WAIT, RECORD, AWAIT } kind;
    size_t stream;
    Location at = {}, from = {};  // where a copy goes, or a counter; where a copy comes from
    size_t count = 0;          // bytes, a counter's number, or which event
    std::vector<std::unique_ptr<Step>> steps = {};
    std::vector<std::pair<int, Location>> addresses = {};  // by their Source
    float scalars[2] = {};
};

class Sequence {
public:
    // All false, with an error set, where what Python describes cannot be read.
    bool read(const char* driver, unsigned long long context, PyObject* names, PyObject* steps, PyObject* streams,
              PyObject* events) {
        context_ = reinterpret_cast<void*>(context);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
            const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
            if (name == nullptr) return false;
            names_.emplace_back(name);
        }
        streams_.push_back(nullptr);
        if (!driver_.open(driver) || !read_handles(streams, streams_) || !read_handles(events, events_)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
            if (!read_started(PyTuple_GET_ITEM(steps, i))) return false;
        }
        bases_.resize(names_.size());
        return true;
    }

    // None, or null with an error set.
    PyObject* run(PyObject* const* arguments, Py_ssize_t count) {
        if (count != 5) return PyErr_Format(PyExc_TypeError, "run takes 5 arguments, got %zd", count);
        PyObject* const bases = arguments[0];
        if (!PyTuple_Check(bases) || size_t(PyTuple_GET_SIZE(bases)) != bases_.size()) {
            return PyErr_Format(PyExc_TypeError, "bases must be a tuple of %zu addresses", bases_.size());
        }
        for (size_t i = 0; i < bases_.size(); ++i) bases_[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(bases, i));
        streams_[0] = PyLong_AsVoidPtr(arguments[1]);
        const auto number = uint32_t(PyLong_AsUnsignedLong(arguments[2]));
        void *const before = PyLong_AsVoidPtr(arguments[3]), *const end = PyLong_AsVoidPtr(arguments[4]);
        if (PyErr_Occurred()) return nullptr;
        const Current current(driver_, context_);
        int status = current.status;
        if (status == 0 && before != nullptr) status = driver_.await(streams_[0], before, 0);
        for (auto step = steps_.begin(); status == 0 && step != steps_.end(); ++step) status = start(*step, number);
        if (status == 0) status = driver_.record(end, streams_[0]);
        if (status != 0) return failed(driver_, status), nullptr;
        Py_RETURN_NONE;
    }

private:
    StreamDriver driver_;
    void* context_ = nullptr;
    std::vector<std::string> names_;
    std::vector<uint64_t> bases_;  // of the call, by their names
    std::vector<void*> streams_, events_;
    std::vector<Started> steps_;

    uint64_t address(const Location& location) const { return bases_[location.base] + location.offset; }

    int start(Started& step, uint32_t number) {
        void* const stream = streams_[step.stream];
        switch (step.kind) {
            case Started::LAUNCH: return launch(step, stream);
            case Started::COPY: return driver_.copy(address(step.at), address(step.from), step.count, stream);
            case Started::SIGNAL: return driver_.write(stream, address(step.at), number + uint32_t(step.count), 0);
            case Started::WAIT: return driver_.wait(stream, address(step.at), number + uint32_t(step.count), AT_LEAST);
            case Started::RECORD: return driver_.record(events_[step.count], stream);
            default: return driver_.await(stream, events_[step.count], 0);
        }
    }

    int launch(Started& started, void* stream) {
        Values values;
        std::copy(started.scalars, started.scalars + 2, values.scalars);
        for (const auto& [source, location] : started.addresses) values.addresses[source] = address(location);
        for (const auto& step : started.steps) {
            int status = step->fill(driver_, values);
            if (status == 0) status = step->launch(driver_, stream);
            if (status != 0) return status;
        }
        return 0;
    }

    static bool read_handles(PyObject* numbers, std::vector<void*>& handles) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); ++i) {
            handles.push_back(PyLong_AsVoidPtr(PyTuple_GET_ITEM(numbers, i)));
        }
        return !PyErr_Occurred();
    }

    // What PyArg_ParseTuple calls for a Location ("O&").
    struct Reading {
        const Sequence* sequence;
        Location location;
    };

    static int read_location(PyObject* tuple, void* reading) {
        auto& [sequence, location] = *static_cast<Reading*>(reading);
        const char* base;
        long long offset;
        if (!PyArg_ParseTuple(tuple, "sL;a Location", &base, &offset)) return 0;
        const auto& names = sequence->names_;
        location = {size_t(std::find(names.begin(), names.end(), base) - names.begin()), uint64_t(offset)};
        if (location.base == names.size()) return PyErr_Format(PyExc_ValueError, "there is no base '%s'", base), 0;
        return 1;
    }

    bool read_started(PyObject* tuple) {
        const char* name = PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0
                               ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0)) : "nothing";
        if (name == nullptr) return false;
        const std::string_view kind = name;
        Started step = {};
        Reading at = {this, {}}, from = {this, {}};
        unsigned long long stream = 0, count = 0;
        if (kind == "PlanLaunch") {
            if (!read_launch(tuple, stream, step)) return false;
        } else if (kind == "DeviceCopy") {
            step.kind = Started::COPY;
            if (!PyArg_ParseTuple(tuple, "sKO&O&K;a DeviceCopy", &name, &stream, read_location, &at, read_location, &from, &count)) return false;
        } else if (kind == "Signal" || kind == "Wait") {
            step.kind = kind == "Signal" ? Started::SIGNAL : Started::WAIT;
            if (!PyArg_ParseTuple(tuple, "sKO&K;a Signal or a Wait", &name, &stream, read_location, &at, &count)) return false;
        } else if (kind == "RecordEvent" || kind == "Await") {
            step.kind = kind == "RecordEvent" ? Started::RECORD : Started::AWAIT;
            if (!PyArg_ParseTuple(tuple, "sKK;a RecordEvent or an Await", &name, &stream, &count)) return false;
            if (count >= events_.size()) return PyErr_Format(PyExc_ValueError, "there is no event %llu", count), false;
        } else {
            return PyErr_Format(PyExc_ValueError, "no step of a sequence is a '%s'", name), false;
        }
        if (stream >= streams_.size()) return PyErr_Format(PyExc_ValueError, "there is no stream %llu", stream), false;
        step.stream = stream, step.at = at.location, step.from = from.location, step.count = count;
        steps_.push_back(std::move(step));
        return true;
    }

    bool read_launch(PyObject* tuple, unsigned long long& stream, Started& step) {
        const char* name;
        PyObject *launches, *addresses;
        step.kind = Started::LAUNCH;
        if (!PyArg_ParseTuple(tuple, "sKO!O!ff;a PlanLaunch", &name, &stream, &PyTuple_Type, &launches, &PyTuple_Type, &addresses,
                              &step.scalars[0], &step.scalars[1])) {
            return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(launches); ++i) {
            if (!read_step(PyTuple_GET_ITEM(launches, i), step.steps)) return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(addresses); ++i) {
            Reading at = {this, {}};
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(addresses, i), "sO&;an address", &name, read_location, &at)) return false;
            const auto found = std::find(ADDRESS_NAMES, ADDRESS_NAMES + ADDRESSES, std::string_view(name));
            if (found == ADDRESS_NAMES + ADDRESSES) return PyErr_Format(PyExc_ValueError, "no pointer comes from '%s'", name), false;
            step.addresses.emplace_back(int(found - ADDRESS_NAMES), at.location);
        }
        return true;
    }
};

// ---- As Python has it -----------------------------------------------------------------------------------------------

struct SequenceObject {
    PyObject_HEAD
    Sequence* sequence;
};

PyObject* sequence_new(PyTypeObject* type, PyObject* positional, PyObject*) {
    const char* driver;
    unsigned long long context;
    PyObject *names, *steps, *streams, *events;
    auto sequence = std::make_unique<Sequence>();
    if (!PyArg_ParseTuple(positional, "sKO!O!O!O!", &driver, &context, &PyTuple_Type, &names, &PyTuple_Type, &steps,
                          &PyTuple_Type, &streams, &PyTuple_Type, &events) ||
        !sequence->read(driver, context, names, steps, streams, events)) {
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) reinterpret_cast<SequenceObject*>(self)->sequence = sequence.release();
    return self;
}

void sequence_dealloc(PyObject* self) {
    delete reinterpret_cast<SequenceObject*>(self)->sequence;
    Py_TYPE(self)->tp_free(self);
}

PyObject* sequence_run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return reinterpret_cast<SequenceObject*>(self)->sequence->run(arguments, count);
}

PyMethodDef sequence_methods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(sequence_run)), METH_FASTCALL,
     "run(bases, stream, number, before, end)\n--\n\nStart all steps; see sequence.py."},
    {},
};

PyTypeObject sequence_type = {PyVarObject_HEAD_INIT(nullptr, 0) "tilewright.runtime._launcher.Sequence"};

bool ready_sequence_type() {
    sequence_type.tp_basicsize = sizeof(SequenceObject);
    sequence_type.tp_flags = Py_TPFLAGS_DEFAULT;
    sequence_type.tp_doc = "Sequence(driver, context, names, steps, streams, events): steps, and how to start them.";
    sequence_type.tp_new = sequence_new;
    sequence_type.tp_dealloc = sequence_dealloc;
    sequence_type.tp_methods = sequence_methods;
    return PyType_Ready(&sequence_type) == 0;
}

}  // namespace
