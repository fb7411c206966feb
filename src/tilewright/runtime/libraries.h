// The libraries whose arrays the launcher can read, found by the arrays' types.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <utility>
#include <vector>

#include "cupy.h"
#include "exchange.h"
#include "objects.h"
#include "recording.h"

namespace {

struct Library {
    Ref type;
    const ExchangeApi* api = nullptr;  // of the type
    Recording recording;               // PyTorch's
    Ref take, give_back;               // PyTorch's memory of the current GPU: take(bytes, stream), give_back(address)

    bool is_torch() const { return bool(recording); }

    // Whether it has memory for one call: in the order of a stream, so that it may be given back while launches that use it
    // run. DLPack's `allocate`, which makes a tensor, takes the host three times as long.
    bool lends() const { return bool(take) && bool(give_back); }
};

// What is known of a type; without an API where it has none, or where a subclass may have given it another meaning.
Library discover(PyTypeObject* type) {
    PyObject* const subject = reinterpret_cast<PyObject*>(type);
    const Ref name(PyUnicode_FromString("torch"));
    const Ref torch(PyImport_GetModule(name.get()));
    const Ref tensor = torch ? attribute(torch.get(), {"Tensor"}) : Ref();
    Library library;
    library.type = Ref::to(subject);
    if (tensor && PyType_Check(tensor.get()) &&
        PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor.get()))) {
        const Ref parameter = attribute(torch.get(), {"nn", "Parameter"});
        if (subject != tensor.get() && subject != parameter.get()) return library;
        const Ref capsule = attribute(tensor.get(), {API_ATTRIBUTE});
        library.recording = Recording(torch.get());
        library.take = attribute(torch.get(), {"_C", "_cuda_cudaCachingAllocator_raw_alloc"});
        library.give_back = attribute(torch.get(), {"_C", "_cuda_cudaCachingAllocator_raw_delete"});
        if (capsule && library.recording) library.api = supported(capsule.get());
        return library;
    }
    const Ref members = attribute(subject, {"__dict__"});
    const Ref capsule(members ? PyMapping_GetItemString(members.get(), API_ATTRIBUTE) : nullptr);
    PyErr_Clear();
    library.api = capsule ? supported(capsule.get()) : api_of_cupy(subject);
    return library;
}

class Libraries {
public:
    // Null where a type's arrays cannot be read.
    const Library* of(PyTypeObject* type) {
        for (const auto& library : known_) {
            if (library->type.get() == reinterpret_cast<PyObject*>(type)) return library.get();
        }
        Library found = discover(type);
        PyErr_Clear();
        if (found.api == nullptr) return nullptr;
        known_.push_back(std::make_unique<Library>(std::move(found)));
        return known_.back().get();
    }

private:
    std::vector<std::unique_ptr<Library>> known_;
};

}  // namespace
