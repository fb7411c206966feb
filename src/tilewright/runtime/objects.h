// What the launcher needs of Python's objects: owned references, attributes, and the error of a driver that refuses.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <initializer_list>
#include <utility>

#include "arrays.h"
#include "steps.h"

namespace {

// An owned reference. The GIL must be held where one ends.
class Ref {
public:
    Ref() = default;
    explicit Ref(PyObject* owned) : object(owned) {}
    static Ref to(PyObject* borrowed) {
        Py_XINCREF(borrowed);
        return Ref(borrowed);
    }
    Ref(Ref&& other) noexcept : object(std::exchange(other.object, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object, other.object);
        return *this;
    }
    ~Ref() { Py_XDECREF(object); }

    PyObject* get() const { return object; }
    PyObject* release() { return std::exchange(object, nullptr); }
    explicit operator bool() const { return object != nullptr; }

private:
    PyObject* object = nullptr;
};

// An attribute of an attribute, and so on; null, with no error set, where there is none.
Ref attribute(PyObject* object, std::initializer_list<const char*> path) {
    Ref found = Ref::to(object);
    for (const char* name : path) {
        if (found) found = Ref(PyObject_GetAttrString(found.get(), name));
    }
    PyErr_Clear();
    return found;
}

PyObject* launch_error;  // tilewright's

// Raises LaunchError: FAILED.
int failed(const Driver& driver, int status) {
    PyErr_SetString(launch_error, words(driver, status).c_str());
    return FAILED;
}

}  // namespace
