// Steps of a plan, and how the driver launches them: what the launcher and the XLA handler share.

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

// ---- The CUDA driver: what of cuda.h is used here -------------------------------------------------------------------

struct LaunchAttribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        int flag;
    } value;
};

struct LaunchConfig {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void* stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

constexpr int NOT_CAPTURING = 0;
constexpr uintptr_t PER_THREAD_STREAM = 2;  // a handle that stands for another stream in every thread

constexpr int PLAIN = 0;  // elements are not interleaved, and zero outside

struct alignas(128) TensorMap {
    char bytes[128];
};

// What a tensor map says but for its address; Python's `cuda_launch.describe` makes it.
struct MapWords {
    uint64_t extents[5], strides[4];
    uint32_t box[5], type, swizzle, promotion, dimensions;
};

struct Driver {
    int (*launch)(const LaunchConfig*, void* function, void** parameters, void** extra);
    int (*encode_map)(TensorMap* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                      const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave,
                      int swizzle, int promotion, int fill);
    int (*replace_address)(TensorMap* map, void* address);
    int (*capture_info)(void* stream, int* status, uint64_t* id, void** graph, const void*** nodes,
                        const void** edges, size_t* count);
    int (*current)(void** context);
    int (*push)(void* context);
    int (*pop)(void** context);
    int (*error_name)(int status, const char** text);
    int (*error_words)(int status, const char** text);

    // False, with OSError set, where the library or a function of it is missing.
    bool open(const char* path) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return PyErr_SetString(PyExc_OSError, dlerror()), false;
        return find(launch, "cuLaunchKernelEx") && find(encode_map, "cuTensorMapEncodeTiled") &&
               find(replace_address, "cuTensorMapReplaceAddress") &&
               find(capture_info, "cuStreamGetCaptureInfo_v3") && find(current, "cuCtxGetCurrent") &&
               find(push, "cuCtxPushCurrent_v2") && find(pop, "cuCtxPopCurrent_v2") &&
               find(error_name, "cuGetErrorName") && find(error_words, "cuGetErrorString");
    }

    // Whether launches on a stream are captured.
    int find_capture(void* stream, int& capture) const {
        uint64_t id;
        void* graph;
        const void** nodes;
        const void* edges;
        size_t nodes_count;
        return capture_info(stream, &capture, &id, &graph, &nodes, &edges, &nodes_count);
    }

    // The same for one more function.
    template <typename Function>
    bool find(Function& function, const char* name) const {
        void* address = dlsym(library, name);
        if (address == nullptr) return PyErr_Format(PyExc_OSError, "the CUDA driver has no %s", name), false;
        function = reinterpret_cast<Function>(address);
        return true;
    }

private:
    void* library = nullptr;
};

// What the driver says of an error.
std::string words(const Driver& driver, int status) {
    const char* name = nullptr;
    const char* text = nullptr;
    driver.error_name(status, &name);
    driver.error_words(status, &text);
    const std::string known = name ? name : "CUDA error " + std::to_string(status);
    return "the GPU reports " + known + (text ? std::string(": ") + text : "");
}

// While it lives, a plan's context is current in this thread.
class Current {
public:
    Current(const Driver& driver, void* context) : driver(driver) {
        void* before = nullptr;
        status = driver.current(&before);
        if (status == 0 && before != context) {
            status = driver.push(context);
            pushed = status == 0;
        }
    }
    Current(const Current&) = delete;
    ~Current() {
        void* popped;
        if (pushed) driver.pop(&popped);
    }

    int status;

private:
    const Driver& driver;
    bool pushed = false;
};

// ---- Steps ----------------------------------------------------------------------------------------------------------

// Where the value of a slot comes from: an address, or a scalar.
enum Source { FROM_A, FROM_B, FROM_C, FROM_D, FROM_BIAS, FROM_OFFSETS, FROM_WORKSPACE, FROM_COUNTERS, FROM_RELAYOUT,
              FROM_CACHED, FROM_SCALE_A, FROM_SCALE_B, ADDRESSES };
const char* const ADDRESS_NAMES[ADDRESSES] = {"A", "B", "C", "D", "bias", "offsets", "workspace", "counters", "relayout",
                                              "cached", "scale_a", "scale_b"};
const char* const SCALAR_NAMES[] = {"alpha", "beta"};

struct Values {
    uint64_t addresses[ADDRESSES] = {};
    float scalars[2] = {};
};

struct Slot {
    enum Kind { POINTER, MAP, SCALAR } kind;
    int source;
    size_t offset;
    int64_t shift;
    size_t map = 0;  // its number among the step's
};

// A tensor map apart from the parameters, which need not lie on the boundary that the driver asks for.
struct Map {
    MapWords words;
    TensorMap map;         // as it was written last
    uint64_t written = 0;  // its address; 0 if it was never made

    int write(const Driver& driver, uint64_t address) {
        void* const at = reinterpret_cast<void*>(address);
        const uint32_t each[5] = {1, 1, 1, 1, 1};
        const int status = written != 0 ? driver.replace_address(&map, at)
                                        : driver.encode_map(&map, int(words.type), words.dimensions, at, words.extents, words.strides,
                                                            words.box, each, PLAIN, int(words.swizzle), int(words.promotion), PLAIN);
        if (status == 0) written = address;
        return status;
    }
};

struct Step {
    LaunchConfig config = {};
    LaunchAttribute attribute = {};
    void* function = nullptr;
    std::vector<char> parameters;
    std::vector<void*> addresses;  // of each parameter in them
    std::vector<Slot> slots;
    std::vector<Map> maps;

    // Writes addresses and scalars of a call into the parameters.
    int fill(const Driver& driver, const Values& values) {
        for (const Slot& slot : slots) {
            char* const target = parameters.data() + slot.offset;
            if (slot.kind == Slot::SCALAR) {
                std::memcpy(target, &values.scalars[slot.source], sizeof(float));
                continue;
            }
            const uint64_t value = values.addresses[slot.source] + slot.shift;
            if (slot.kind == Slot::POINTER) {
                std::memcpy(target, &value, sizeof value);
            } else if (Map& cached = maps[slot.map]; cached.written != value) {
                if (const int status = cached.write(driver, value); status != 0) return status;
                std::memcpy(target, &cached.map, sizeof cached.map);
            }
        }
        return 0;
    }

    int launch(const Driver& driver, void* stream) {
        config.stream = stream;
        return driver.launch(&config, function, addresses.data(), nullptr);
    }
};

// Memory besides the operands: what a plan needs, or what a stream has.
struct Memory {
    uint64_t workspace = 0, counters = 0, relayout = 0;  // addresses
    Py_ssize_t workspace_bytes = 0, counter_count = 0, relayout_bytes = 0;

    bool is_empty() const { return workspace_bytes == 0 && counter_count == 0 && relayout_bytes == 0; }

    bool covers(const Memory& needed) const {
        return workspace_bytes >= needed.workspace_bytes && counter_count >= needed.counter_count &&
               relayout_bytes >= needed.relayout_bytes;
    }
};

// Memory of one call alone: the workspace, then copies of operands, then counters, each on a boundary.
struct Scratch {
    uint64_t relayout, counters, size;

    explicit Scratch(const Memory& needed)
        : relayout(rounded(needed.workspace_bytes)),
          counters(relayout + rounded(needed.relayout_bytes)),
          size(counters + needed.counter_count * sizeof(uint32_t)) {}

    static uint64_t rounded(uint64_t bytes) { return (bytes + BOUNDARY - 1) / BOUNDARY * BOUNDARY; }
    static constexpr uint64_t BOUNDARY = 256;
};

// ---- From Python's plan to ours: false with an error set --------------------------------------------------------------

bool read_slot(PyObject* tuple, Step& step) {
    Py_ssize_t offset;
    const char *kind, *source;
    long long shift;
    if (!PyArg_ParseTuple(tuple, "nssL;a Slot", &offset, &kind, &source, &shift)) return false;
    const std::string_view name = source;
    const auto position = [&](const char* const* names, int count) {
        return int(std::find(names, names + count, name) - names);
    };
    Slot slot = {Slot::POINTER, position(ADDRESS_NAMES, ADDRESSES), size_t(offset), shift};
    size_t size = sizeof(uint64_t);
    int sources = ADDRESSES;
    if (kind == std::string_view("map")) {
        slot.kind = Slot::MAP, size = sizeof(TensorMap);
    } else if (kind == std::string_view("scalar")) {
        slot.kind = Slot::SCALAR, size = sizeof(float), sources = 2, slot.source = position(SCALAR_NAMES, 2);
    } else if (kind != std::string_view("pointer")) {
        return PyErr_Format(PyExc_ValueError, "a slot is a pointer, a map or a scalar, got '%s'", kind), false;
    }
    if (slot.source == sources) return PyErr_Format(PyExc_ValueError, "no %s comes from '%s'", kind, source), false;
    if (offset < 0 || size_t(offset) + size > step.parameters.size()) {
        PyErr_Format(PyExc_ValueError, "no %s fits at byte %zd of %zu", kind, offset, step.parameters.size());
        return false;
    }
    if (slot.kind == Slot::MAP) {
        slot.map = step.maps.size();
        std::memcpy(&step.maps.emplace_back().words, step.parameters.data() + offset, sizeof(MapWords));
    }
    step.slots.push_back(slot);
    return true;
}

bool read_step(PyObject* tuple, std::vector<std::unique_ptr<Step>>& steps) {
    auto step = std::make_unique<Step>();
    unsigned long long function;
    LaunchConfig& config = step->config;
    int attribute;
    PyObject *arguments, *offsets, *slots;
    if (!PyArg_ParseTuple(tuple, "K(III)(III)IiSO!O!;a Step", &function, &config.grid[0], &config.grid[1],
                          &config.grid[2], &config.block[0], &config.block[1], &config.block[2],
                          &config.shared_bytes, &attribute, &arguments, &PyTuple_Type, &offsets, &PyTuple_Type, &slots)) {
        return false;
    }
    step->function = reinterpret_cast<void*>(function);
    if (attribute != 0) {
        step->attribute.id = attribute;
        step->attribute.value.flag = 1;
        config.attributes = &step->attribute;
        config.attribute_count = 1;
    }
    const char* bytes = PyBytes_AS_STRING(arguments);
    step->parameters.assign(bytes, bytes + PyBytes_GET_SIZE(arguments));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(offsets); ++i) {
        const Py_ssize_t offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(offsets, i));
        if (PyErr_Occurred()) return false;
        if (offset < 0 || size_t(offset) >= step->parameters.size()) {
            return PyErr_Format(PyExc_ValueError, "no parameter begins at byte %zd of %zu", offset,
                                step->parameters.size()), false;
        }
        step->addresses.push_back(step->parameters.data() + offset);
    }
    step->slots.reserve(PyTuple_GET_SIZE(slots));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); ++i) {
        if (!read_slot(PyTuple_GET_ITEM(slots, i), *step)) return false;
    }
    steps.push_back(std::move(step));
    return true;
}

}  // namespace
