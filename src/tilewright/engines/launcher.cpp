// The launcher: a call of a product whose plan exists, from the arrays to the driver, in one call of C++.
//
//     call(a, b, c, out, bias, alpha, beta, options)
//         read     where each array lies, through DLPack's C exchange API: no Python but for PyTorch's flags, and for
//                  CuPy's attributes
//         find     the plan of arrays of these types, shapes, strides, device and alignment; none: have Python plan it, where
//                  a plan for other sizes of this kind is known; else MISS
//         prepare  the result, the stream, memory besides the operands: PyTorch's for this call, or else the stream's
//         launch   each step: write addresses and scalars into its parameters, hand them to the driver
//
// Whatever it does not know, it answers with MISS before it has changed anything: the caller then goes the long way,
// which explains errors, and may `remember` the plan that it made. All state is guarded by the GIL, which is held from
// the first write into a plan's parameters to the last launch.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arrays.h"
#include "steps.h"

namespace {

// ---- DLPack's C exchange API ----------------------------------------------------------------------------------------

// An array that is released by its `release`.
struct ManagedTensor {
    uint32_t major;
    uint32_t minor;
    void* context;
    void (*release)(ManagedTensor* self);
    uint64_t flags;
    DLTensor tensor;
};

struct ExchangeApi {
    uint32_t major;
    uint32_t minor;
    ExchangeApi* previous;  // the same of an older version, or null
    int (*allocate)(DLTensor* like, ManagedTensor** made, void* context,
                    void (*fail)(void* context, const char* kind, const char* text));
    void* export_managed;
    void* import_managed;
    int (*read)(void* array, DLTensor* tensor);  // may be null
    int (*current_stream)(int32_t device_type, int32_t device_id, void** stream);
};

constexpr uint32_t DLPACK_MAJOR = 1;
constexpr int DLPACK_CUDA = 2;
constexpr int MOST_DIMENSIONS = 8;
const char API_ATTRIBUTE[] = "__dlpack_c_exchange_api__";
const char API_CAPSULE[] = "dlpack_exchange_api";

// ---- Objects of Python ----------------------------------------------------------------------------------------------

PyObject* miss;
PyObject* launch_error;
PyObject* requires_grad;
PyObject* is_neg;
PyObject* current_level;

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

PyObject* missed() {
    PyErr_Clear();
    return Py_NewRef(miss);
}

bool fail(const Driver& driver, int status) {
    PyErr_SetString(launch_error, words(driver, status).c_str());
    return false;
}

// ---- Arrays ---------------------------------------------------------------------------------------------------------

// The exchange API of an array type. PyTorch's says nothing of gradients, nor of views that negate.
struct Library {
    Ref type;
    const ExchangeApi* api = nullptr;
    Ref gradients_enabled;
    Ref increment_version;  // takes a tuple; what torch.autograd.graph.increment_version calls, at half its cost
    Ref forward_ad;   // the variables of torch.autograd.forward_ad
    Ref count_modes;  // called for the number of modes that see every operator
    Ref casts;        // called for whether autocast is on for GPUs

    bool is_torch() const { return bool(increment_version); }

    // Whether it has memory for one call: in the order of its current stream, so that it may be given back while launches that
    // use it run.
    bool lends() const { return is_torch() && api->allocate != nullptr; }
};

// Memory that a library lends for a call; given back at the end.
class Lent {
public:
    Lent() = default;
    Lent(const Lent&) = delete;
    ~Lent() {
        if (made != nullptr) made->release(made);
    }

    // False where the library has none.
    bool take(const Library& library, DLDevice device, int64_t bytes) {
        DLTensor like = {nullptr, device, 1, BYTES_CODE, 8, 1, &bytes, nullptr, 0};
        return library.api->allocate(&like, &made, nullptr, [](void*, const char*, const char*) {}) == 0;
    }

    uint64_t begin() const { return reinterpret_cast<uint64_t>(made->tensor.data) + made->tensor.byte_offset; }

private:
    static constexpr uint8_t BYTES_CODE = 1;  // DLPack's unsigned integers
    ManagedTensor* made = nullptr;
};

const ExchangeApi* supported(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, API_CAPSULE)) return nullptr;
    auto api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule, API_CAPSULE));
    while (api != nullptr && api->major != DLPACK_MAJOR) api = api->previous;
    return api != nullptr && api->read != nullptr ? api : nullptr;
}

// An attribute of an attribute, and so on; null, with no error set, where there is none.
Ref attribute(PyObject* object, std::initializer_list<const char*> path) {
    Ref found = Ref::to(object);
    for (const char* name : path) {
        if (found) found = Ref(PyObject_GetAttrString(found.get(), name));
    }
    PyErr_Clear();
    return found;
}

// ---- CuPy, which has no exchange API: one made of attributes of its arrays ------------------------------------------

// Objects that are never released, as a module's are not; null until an array of CuPy is met.
struct {
    PyObject *current_stream, *data, *pointer, *device, *shape, *strides, *dtype;
    PyObject* types[3];  // those below
} cupy;

struct ElementType {
    const char* name;
    uint8_t code, bits;
};
constexpr ElementType ELEMENT_TYPES[3] = {{"float32", 2, 32}, {"float16", 2, 16}, {"bfloat16", 4, 16}};

// False where an attribute is no integer.
bool read_integer(PyObject* object, PyObject* name, int64_t& value) {
    const Ref found(PyObject_GetAttr(object, name));
    value = found ? PyLong_AsLongLong(found.get()) : -1;
    return !PyErr_Occurred();
}

// The length of an attribute that is a tuple of integers; -1 where it is none, or too long.
int read_integers(PyObject* object, PyObject* name, int64_t (&values)[MOST_DIMENSIONS]) {
    const Ref found(PyObject_GetAttr(object, name));
    if (!found || !PyTuple_Check(found.get()) || PyTuple_GET_SIZE(found.get()) > MOST_DIMENSIONS) return -1;
    const int count = int(PyTuple_GET_SIZE(found.get()));
    for (int i = 0; i < count; ++i) values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(found.get(), i));
    return PyErr_Occurred() ? -1 : count;
}

int read_cupy(void* object, DLTensor* tensor) {
    // Shapes and strides of what this thread has read last: more than two calls, one within the other, need.
    thread_local int64_t kept[16][2][MOST_DIMENSIONS];
    thread_local unsigned newest = 0;
    auto& [shape, strides] = kept[++newest % 16];
    PyObject* const array = static_cast<PyObject*>(object);
    const Ref dtype(PyObject_GetAttr(array, cupy.dtype));
    const Ref data(PyObject_GetAttr(array, cupy.data));
    if (!dtype || !data) return -1;
    const auto type = std::find(std::begin(cupy.types), std::end(cupy.types), dtype.get());
    const int count = read_integers(array, cupy.shape, shape);
    int64_t pointer, device;
    if (type == std::end(cupy.types) || count < 0 || read_integers(array, cupy.strides, strides) != count ||
        !read_integer(data.get(), cupy.pointer, pointer) || !read_integer(data.get(), cupy.device, device)) {
        return -1;
    }
    const ElementType& element = ELEMENT_TYPES[type - cupy.types];
    for (int i = 0; i < count; ++i) {
        if (strides[i] % (element.bits / 8) != 0) return -1;
        strides[i] /= element.bits / 8;
    }
    *tensor = {reinterpret_cast<void*>(pointer), {DLPACK_CUDA, int32_t(device)}, count, element.code, element.bits, 1,
               shape, strides, 0};
    return 0;
}

int current_stream_of_cupy(int32_t, int32_t device, void** stream) {
    const Ref found(PyObject_CallFunction(cupy.current_stream, "i", int(device)));
    const Ref handle(found ? PyObject_GetAttrString(found.get(), "ptr") : nullptr);
    *stream = handle ? PyLong_AsVoidPtr(handle.get()) : nullptr;
    return PyErr_Occurred() ? -1 : 0;
}

const ExchangeApi CUPY_API = {DLPACK_MAJOR, 0, nullptr, nullptr, nullptr, nullptr, read_cupy, current_stream_of_cupy};

// CuPy's API, if this is the type of its arrays and all that is needed of CuPy is there.
const ExchangeApi* api_of_cupy(PyObject* type) {
    const Ref name(PyUnicode_FromString("cupy"));
    const Ref module(PyImport_GetModule(name.get()));
    if (!module || attribute(module.get(), {"ndarray"}).get() != type) return nullptr;
    const Ref numpy(PyImport_ImportModule("numpy"));
    if (!numpy) return nullptr;
    cupy.current_stream = attribute(module.get(), {"cuda", "get_current_stream"}).release();
    cupy.data = PyUnicode_InternFromString("data");
    cupy.pointer = PyUnicode_InternFromString("ptr");
    cupy.device = PyUnicode_InternFromString("device_id");
    cupy.shape = PyUnicode_InternFromString("shape");
    cupy.strides = PyUnicode_InternFromString("strides");
    cupy.dtype = PyUnicode_InternFromString("dtype");
    for (int i = 0; i < 3; ++i) cupy.types[i] = PyObject_CallMethod(numpy.get(), "dtype", "s", ELEMENT_TYPES[i].name);
    PyErr_Clear();  // without ml_dtypes, NumPy knows no bfloat16
    return cupy.current_stream ? &CUPY_API : nullptr;
}

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
        library.gradients_enabled = attribute(torch.get(), {"is_grad_enabled"});
        library.increment_version = attribute(torch.get(), {"_C", "_increment_version"});
        library.forward_ad = attribute(torch.get(), {"autograd", "forward_ad", "__dict__"});
        library.count_modes = attribute(torch.get(), {"_C", "_len_torch_dispatch_stack"});
        library.casts = attribute(torch.get(), {"is_autocast_enabled"});
        if (capsule && library.gradients_enabled && library.increment_version) library.api = supported(capsule.get());
        return library;
    }
    const Ref members = attribute(subject, {"__dict__"});
    const Ref capsule(members ? PyMapping_GetItemString(members.get(), API_ATTRIBUTE) : nullptr);
    PyErr_Clear();
    library.api = capsule ? supported(capsule.get()) : api_of_cupy(subject);
    return library;
}

int64_t item_bytes(const DLTensor& tensor) { return (tensor.bits * tensor.lanes + 7) / 8; }

uint64_t address(const DLTensor& tensor) { return reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset; }

bool has_elements(const DLTensor& tensor) {
    return std::all_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t size) { return size != 0; });
}

// Whether the two may share an element: whether the ranges of their addresses meet.
bool may_overlap(const DLTensor& x, const DLTensor& y) {
    const auto range = [](const DLTensor& tensor) {
        uint64_t low = address(tensor), high = low + item_bytes(tensor);
        for (int i = 0; i < tensor.ndim; ++i) {
            const int64_t extent = (tensor.shape[i] - 1) * tensor.strides[i] * item_bytes(tensor);
            (extent < 0 ? low : high) += extent;
        }
        return std::pair(low, high);
    };
    if (!has_elements(x) || !has_elements(y)) return false;
    const auto [x_low, x_high] = range(x);
    const auto [y_low, y_high] = range(y);
    return x_low < y_high && y_low < x_high;
}

bool is_same(const DLTensor& x, const DLTensor& y) {
    return address(x) == address(y) && x.ndim == y.ndim && std::equal(x.shape, x.shape + x.ndim, y.shape) &&
           std::equal(x.strides, x.strides + x.ndim, y.strides);
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

constexpr size_t MOST_WORDS = 1 + ARGUMENTS * (1 + 2 * MOST_DIMENSIONS);
constexpr size_t MOST_PLANS = 4096;
constexpr uint64_t VECTOR_BYTES = 16;

// What of an array does not depend on its sizes. Bit 1 is 0.
int64_t word_of(const DLTensor& tensor) {
    return int64_t(1 | uint64_t(tensor.ndim) << 4 | address(tensor) % VECTOR_BYTES << 8 | uint64_t(tensor.code) << 12 |
                   uint64_t(tensor.bits) << 20 | uint64_t(tensor.lanes) << 28 | uint64_t(tensor.device.id) << 44);
}

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
    bool lent = false;                        // whether a library is asked for memory in each call, but for tickets
    uint64_t kept = 0;                        // address of a copy that outlives the calls
};

// ---- Kinds: calls that differ in the sizes of their matrices, and in nothing else that a plan depends on -------------

constexpr int64_t LARGEST = (int64_t(1) << 31) - (1 << 12);  // as in shapes.py, for sizes and leading dimensions

// The call of a kind: m, n, k; and leading dimensions of A, B, C and OUT, 0 for those that there are not.
using Sizes = std::array<int64_t, 7>;

// Options, whether beta is not 0, and of each array its word, with bit 1 set where its columns are neighbours in memory.
using KindKey = std::array<int64_t, 1 + ARGUMENTS>;

struct Kind {
    std::shared_ptr<const Common> common;
    Ref plan;  // called for a plan: plan(*sizes)
};

// Adds a matrix of rows x cols to a kind. False where it is none, or may be read by rows as well as by columns.
bool add_matrix(const DLTensor& tensor, int64_t rows, int64_t cols, int64_t& word, int64_t& ld) {
    if (tensor.ndim != 2 || tensor.shape[0] != rows || tensor.shape[1] != cols) return false;
    const bool by_columns = tensor.strides[1] != 1;
    ld = tensor.strides[by_columns ? 1 : 0];
    word = word_of(tensor) | int64_t(by_columns) << 1;
    return tensor.strides[by_columns ? 0 : 1] == 1 && ld >= (by_columns ? rows : cols) && ld <= LARGEST;
}

// ---- The launcher ---------------------------------------------------------------------------------------------------

struct Arrays {
    bool given[ARGUMENTS] = {};
    DLTensor tensors[ARGUMENTS];
    const Library* library = nullptr;

    const DLTensor* get(int argument) const { return given[argument] ? &tensors[argument] : nullptr; }

    // The kind of the call, but for its first word, and its sizes. False where it is of no kind: not all are matrices
    // with more than one row and column, and a bias with an element for each column.
    bool find_kind(KindKey& kind, Sizes& sizes) const {
        auto& [m, n, k, lda, ldb, ldc, ldd] = sizes;
        if (tensors[A].ndim != 2 || tensors[B].ndim != 2) return false;
        m = tensors[A].shape[0], k = tensors[A].shape[1], n = tensors[B].shape[1];
        if (std::min({m, n, k}) < 2 || std::max({m, n, k}) > LARGEST) return false;
        kind[1 + C] = kind[1 + OUT] = kind[1 + BIAS] = ldc = ldd = 0;
        if (const DLTensor* bias = get(BIAS)) {
            if (bias->ndim != 1 || bias->shape[0] != n || bias->strides[0] != 1) return false;
            kind[1 + BIAS] = word_of(*bias);
        }
        return add_matrix(tensors[A], m, k, kind[1 + A], lda) && add_matrix(tensors[B], k, n, kind[1 + B], ldb) &&
               (!given[C] || add_matrix(tensors[C], m, n, kind[1 + C], ldc)) &&
               (!given[OUT] || add_matrix(tensors[OUT], m, n, kind[1 + OUT], ldd));
    }
};

class State {
public:
    Driver driver;
    int device_type = DLPACK_CUDA;

    PyObject* call(PyObject* const* arguments, Py_ssize_t count) {
        if (count != 8) return PyErr_Format(PyExc_TypeError, "call takes 8 arguments, got %zd", count);
        Arrays arrays;
        double scalars[2];
        if (!read_scalar(arguments[5], scalars[0]) || !read_scalar(arguments[6], scalars[1]) || !read(arguments, arrays)) {
            return missed();
        }
        Key key;
        if (!make_key(arrays, arguments[7], scalars[1] != 0, key)) return missed();
        Ref result = Ref::to(arguments[OUT]);
        const int status = run(arrays, key, scalars, [&](const Plan& plan) {
            result = Ref(PyObject_Call(plan.make.get(), plan.make_arguments.get(), plan.make_keywords.get()));
            if (!result) return FAILED;
            return read_result(arrays, result.get()) ? LAUNCHED : MISSED;
        });
        if (status == MISSED) return missed();
        if (status == FAILED) return nullptr;
        if (arguments[OUT] != Py_None && arrays.library->is_torch() && !count_version(arrays, arguments[OUT])) return nullptr;
        return result.release();
    }

    // See LaunchApi.
    int launch(PyTypeObject* type, const DLTensor* const* tensors, PyObject* options, const double* scalars,
               int (*make)(void* made, DLTensor* out), void* made) {
        Arrays arrays;
        arrays.library = library_of(type);
        if (arrays.library == nullptr) return MISSED;
        for (int i = 0; i < ARGUMENTS; ++i) {
            if (tensors[i] == nullptr) continue;
            arrays.given[i] = true;
            arrays.tensors[i] = *tensors[i];
            if (!is_usable(arrays.tensors[i]) || arrays.tensors[i].device.id != arrays.tensors[A].device.id) return MISSED;
        }
        Key key;
        if (!make_key(arrays, options, scalars[1] != 0, key)) return MISSED;
        return run(arrays, key, scalars, [&](const Plan&) {
            const int status = make(made, &arrays.tensors[OUT]);
            return status == LAUNCHED && !is_result(arrays) ? MISSED : status;
        });
    }

    PyObject* remember(PyObject* positional, PyObject* named) {
        static const char* names[] = {"a",      "b",       "c",      "out", "bias",   "options", "steps",
                                      "needs", "context", "memory", "new", "scaled", "swapped", "kept",
                                      "lent", "plan", nullptr};
        PyObject* objects[ARGUMENTS];
        PyObject *options, *steps, *needs, *memory, *result, *planner = Py_None;
        unsigned long long context, kept = 0;
        int scaled, swapped = 0, lent = 0;
        if (!PyArg_ParseTupleAndKeywords(positional, named, "OOOOOOO!O!KOOp|pKpO", const_cast<char**>(names),
                                         &objects[A], &objects[B], &objects[C], &objects[OUT], &objects[BIAS], &options,
                                         &PyTuple_Type, &steps, &PyTuple_Type, &needs, &context, &memory, &result,
                                         &scaled, &swapped, &kept, &lent, &planner)) {
            return nullptr;
        }
        auto common = std::make_shared<Common>();
        common->context = reinterpret_cast<void*>(context);
        common->memory = Ref::to(memory);
        common->swapped = swapped != 0;
        auto plan = std::make_shared<Plan>();
        plan->common = common;
        plan->kept = kept;
        if (!read_plan(steps, needs, result, lent != 0, objects[OUT] == Py_None, *plan)) return nullptr;
        if (plans_.size() >= MOST_PLANS) forget();
        Arrays arrays;
        if (!read(objects, arrays) || !intern(options) || !make_key(arrays, options, scaled != 0, plan->key)) {
            PyErr_Clear();
            Py_RETURN_FALSE;
        }
        KindKey kind = {plan->key.words[0]};
        Sizes sizes;
        if (planner != Py_None && arrays.find_kind(kind, sizes)) {
            auto known = std::make_shared<Kind>();
            known->common = common;
            known->plan = Ref::to(planner);
            kinds_[kind].swap(known);  // the old one ends with this block
        }
        keep(std::move(plan));
        Py_RETURN_TRUE;
    }

    // What was kept ends only after it is out of reach: its end may run any Python code.
    void forget() {
        const auto plans = std::exchange(plans_, {});
        const auto kinds = std::exchange(kinds_, {});
        const Ref options = std::exchange(options_, Ref());
        memories_.clear();
    }

    size_t count() const { return plans_.size(); }

    int traverse(visitproc visit, void* arg) const {
        Py_VISIT(options_.get());
        for (const auto& entry : plans_) {
            const Plan& plan = *entry.second;
            Py_VISIT(plan.common->memory.get());
            Py_VISIT(plan.make.get());
            Py_VISIT(plan.make_arguments.get());
            Py_VISIT(plan.make_keywords.get());
        }
        for (const auto& entry : kinds_) {
            Py_VISIT(entry.second->common->memory.get());
            Py_VISIT(entry.second->plan.get());
        }
        return 0;
    }

private:
    std::unordered_multimap<uint64_t, std::shared_ptr<Plan>> plans_;  // by the hash of their keys
    std::map<KindKey, std::shared_ptr<Kind>> kinds_;
    std::vector<std::unique_ptr<Library>> libraries_;
    Ref options_;  // a dict: the options of plans, each with its number
    int64_t numbered_ = 0;
    std::map<std::array<uint64_t, 3>, Memory> memories_;  // by context, stream and, for a per-thread stream, thread

    const Library* library_of(PyTypeObject* type) {
        for (const auto& library : libraries_) {
            if (library->type.get() == reinterpret_cast<PyObject*>(type)) return library.get();
        }
        Library found = discover(type);
        PyErr_Clear();
        if (found.api == nullptr) return nullptr;
        libraries_.push_back(std::make_unique<Library>(std::move(found)));
        return libraries_.back().get();
    }

    static bool read_scalar(PyObject* object, double& value) {
        if (!PyFloat_Check(object) && !PyLong_CheckExact(object)) return false;
        value = PyFloat_AsDouble(object);
        return value == value && !PyErr_Occurred();
    }

    // Launches the plan of this key, which may be of a new result: `make(plan)` makes it. Says as LaunchApi what came of it.
    template <typename Make>
    int run(Arrays& arrays, const Key& key, const double* scalars, const Make& make) {
        if ((scalars[1] != 0 && !arrays.get(C)) || writes_operand(arrays)) return MISSED;
        std::shared_ptr<Plan> plan = find(key);
        if (plan == nullptr && scalars[0] != 0) {  // with alpha = 0, it is that of another product
            if (const int status = make_plan(arrays, key, plan); status != LAUNCHED) return status;
        }
        if (plan == nullptr) return MISSED;
        const Current current(driver, plan->common->context);
        if (current.status != 0) return failed(current.status);
        Values values;
        values.scalars[0] = float(scalars[0]);
        values.scalars[1] = float(scalars[1]);
        const bool swapped = plan->common->swapped;
        values.addresses[FROM_A] = address(arrays.tensors[swapped ? B : A]);
        values.addresses[FROM_B] = address(arrays.tensors[swapped ? A : B]);
        values.addresses[FROM_KEPT] = plan->kept;
        if (arrays.get(C)) values.addresses[FROM_C] = address(arrays.tensors[C]);
        if (arrays.get(BIAS)) values.addresses[FROM_BIAS] = address(arrays.tensors[BIAS]);
        if (!arrays.get(OUT)) {
            if (const int status = make(*plan); status != LAUNCHED) return status;
        }
        values.addresses[FROM_D] = address(arrays.tensors[OUT]);
        if (plan->steps.empty()) return LAUNCHED;
        void* stream = nullptr;
        if (arrays.library->api->current_stream(device_type, arrays.tensors[A].device.id, &stream) != 0) return MISSED;
        Lent lent;
        if (!plan->needed.is_empty()) {
            if (const int status = find_memory(arrays, *plan, stream, lent, values); status != LAUNCHED) return status;
        }
        for (const auto& step : plan->steps) {
            int status = step->fill(driver, values);
            if (status == 0) status = step->launch(driver, stream);
            if (status != 0) return failed(status);
        }
        return LAUNCHED;
    }

    int failed(int status) const {
        fail(driver, status);
        return FAILED;
    }

    // The plan of a call of a known kind, whose sizes are new: Python makes it, and it is kept. Not in a capture, where
    // its code may not be loaded. What Python refuses is missed: the long way says why.
    int make_plan(const Arrays& arrays, const Key& key, std::shared_ptr<Plan>& made) {
        KindKey name = {key.words[0]};
        Sizes sizes;
        if (kinds_.empty() || !arrays.find_kind(name, sizes)) return MISSED;
        const auto found = kinds_.find(name);
        if (found == kinds_.end()) return MISSED;
        const std::shared_ptr<Kind> kind = found->second;  // which Python may forget meanwhile
        void* stream = nullptr;
        if (arrays.library->api->current_stream(device_type, arrays.tensors[A].device.id, &stream) != 0) return MISSED;
        {
            const Current current(driver, kind->common->context);
            if (current.status != 0) return failed(current.status);
            int capture;
            if (const int status = find_capture(stream, capture); status != 0) return failed(status);
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
            !read_plan(steps, needs, result, lent != 0, arrays.get(OUT) == nullptr, *plan)) {
            return FAILED;
        }
        plan->common = kind->common;
        plan->key = key;
        if (plans_.size() >= MOST_PLANS) forget();
        made = plan;
        keep(std::move(plan));
        return LAUNCHED;
    }

    // From Python's plan to ours: false with an error set.
    static bool read_plan(PyObject* steps, PyObject* needs, PyObject* result, bool lent, bool makes, Plan& plan) {
        Memory& needed = plan.needed;
        if (!PyArg_ParseTuple(needs, "nnn;Needs", &needed.workspace_bytes, &needed.ticket_count,
                              &needed.relayout_bytes)) {
            return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) {
            if (!read_step(PyTuple_GET_ITEM(steps, i), plan.steps)) return false;
        }
        plan.lent = lent;
        if (!makes) return true;
        PyObject *make, *arguments, *keywords;
        if (!PyTuple_Check(result)) return PyErr_Format(PyExc_TypeError, "new must be a tuple where out is None"), false;
        if (!PyArg_ParseTuple(result, "OO!O!;new", &make, &PyTuple_Type, &arguments, &PyDict_Type, &keywords)) return false;
        plan.make = Ref::to(make);
        plan.make_arguments = Ref::to(arguments);
        plan.make_keywords = Ref::to(keywords);
        return true;
    }

    // Whether launches on a stream are captured, as the driver says it.
    int find_capture(void* stream, int& capture) const {
        uint64_t id;
        void* graph;
        const void** nodes;
        const void* edges;
        size_t nodes_count;
        return driver.capture_info(stream, &capture, &id, &graph, &nodes, &edges, &nodes_count);
    }

    // Where the arrays lie; false where one is not known, does not lie with the others or may not be used as it is.
    bool read(PyObject* const* objects, Arrays& arrays) {
        for (int i = 0; i < ARGUMENTS; ++i) {
            PyObject* const object = objects[i];
            if (object == Py_None && i > B) continue;
            arrays.given[i] = true;
            const Library* library = library_of(Py_TYPE(object));
            if (library == nullptr || (arrays.library != nullptr && library->api != arrays.library->api)) return false;
            arrays.library = library;
            if (library->is_torch() && ((i == A && is_watched(*library)) || !is_plain(*library, object))) return false;
            if (!read(*library, object, arrays.tensors[i])) return false;
            if (arrays.tensors[i].device.id != arrays.tensors[A].device.id) return false;
        }
        return true;
    }

    bool read(const Library& library, PyObject* object, DLTensor& tensor) const {
        return library.api->read(object, &tensor) == 0 && is_usable(tensor);
    }

    bool is_usable(const DLTensor& tensor) const {
        if (tensor.device.type != device_type || tensor.ndim < 1 || tensor.ndim > MOST_DIMENSIONS) return false;
        return tensor.strides != nullptr && (tensor.data != nullptr || !has_elements(tensor));
    }

    // Whether PyTorch differentiates forward, casts operands, or has a mode that sees every operator.
    static bool is_watched(const Library& torch) {
        PyObject* level = torch.forward_ad ? PyDict_GetItemWithError(torch.forward_ad.get(), current_level) : nullptr;
        if (level != nullptr && PyLong_AsLong(level) >= 0) return true;
        for (const Ref* asked : {&torch.count_modes, &torch.casts}) {
            if (!*asked) continue;
            const Ref answer(PyObject_CallNoArgs(asked->get()));
            if (!answer || PyLong_AsLong(answer.get()) != 0) return true;
        }
        return false;
    }

    // Whether a tensor records no gradient here, and holds what its memory does.
    static bool is_plain(const Library& torch, PyObject* tensor) {
        const Ref recorded(PyObject_GetAttr(tensor, requires_grad));
        if (!recorded) return false;
        if (recorded.get() != Py_False) {
            const Ref enabled(PyObject_CallNoArgs(torch.gradients_enabled.get()));
            if (enabled.get() != Py_False) return false;
        }
        const Ref negates(PyObject_CallMethodNoArgs(tensor, is_neg));
        return negates.get() == Py_False;
    }

    // A new result must lie on the operands' device, aligned as plans take it for granted.
    bool read_result(Arrays& arrays, PyObject* result) {
        const Library* library = library_of(Py_TYPE(result));
        return library != nullptr && library->api == arrays.library->api &&
               read(*library, result, arrays.tensors[OUT]) && is_result(arrays);
    }

    static bool is_result(const Arrays& arrays) {
        const DLTensor& tensor = arrays.tensors[OUT];
        return tensor.device.id == arrays.tensors[A].device.id && address(tensor) % VECTOR_BYTES == 0;
    }

    static bool writes_operand(const Arrays& arrays) {
        const DLTensor* out = arrays.get(OUT);
        if (out == nullptr) return false;
        for (int i : {A, B, C, BIAS}) {
            const DLTensor* operand = arrays.get(i);
            if (operand == nullptr || (i == C && is_same(*out, *operand))) continue;
            if (may_overlap(*out, *operand)) return true;
        }
        return false;
    }

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

    // Says as LaunchApi what came of it: where there is no room, the caller may know a plan that needs less.
    int find_memory(const Arrays& arrays, const Plan& plan, void* stream, Lent& lent, Values& values) {
        int capture = NOT_CAPTURING;
        if (const int status = find_capture(stream, capture); status != 0) return failed(status);
        Memory own = plan.needed;
        if (plan.lent && capture == NOT_CAPTURING && arrays.library->lends()) {
            // Not in a capture, of which the library may know nothing: what a graph uses must not be lent again.
            own.workspace_bytes = own.relayout_bytes = 0;
            Memory lends = plan.needed;
            lends.ticket_count = 0;
            if (const Scratch scratch(lends); scratch.size != 0) {
                if (!lent.take(*arrays.library, arrays.tensors[A].device, int64_t(scratch.size))) return MISSED;
                set_memory(lends, {lent.begin(), 0, lent.begin() + scratch.relayout}, values);
            }
        }
        return own.is_empty() ? LAUNCHED : find_own_memory(plan, stream, capture != NOT_CAPTURING, own, values);
    }

    // A kernel that asks for nothing is passed null, whatever there is.
    static void set_memory(const Memory& needed, const Memory& found, Values& values) {
        if (needed.workspace_bytes != 0) values.addresses[FROM_WORKSPACE] = found.workspace;
        if (needed.ticket_count != 0) values.addresses[FROM_TICKETS] = found.tickets;
        if (needed.relayout_bytes != 0) values.addresses[FROM_RELAYOUT] = found.relayout;
    }

    // Memory of a stream's own, or of a capture's.
    int find_own_memory(const Plan& plan, void* stream, bool capturing, const Memory& needed, Values& values) {
        const uint64_t handle = reinterpret_cast<uint64_t>(stream);
        const uint64_t thread = handle == PER_THREAD_STREAM ? PyThread_get_thread_ident() : 0;
        const std::array<uint64_t, 3> owner = {reinterpret_cast<uint64_t>(plan.common->context), handle, thread};
        Memory memory;
        const auto known = memories_.find(owner);
        if (!capturing && known != memories_.end() && known->second.covers(needed)) {
            memory = known->second;
        } else {
            if (const int status = ask_for_memory(plan, handle, needed, memory); status != LAUNCHED) return status;
            if (!capturing) memories_[owner] = memory;
        }
        set_memory(needed, memory, values);
        return LAUNCHED;
    }

    static int ask_for_memory(const Plan& plan, uint64_t stream, const Memory& needed, Memory& memory) {
        const Ref answer(PyObject_CallFunction(plan.common->memory.get(), "K(nnn)", stream, needed.workspace_bytes,
                                               needed.ticket_count, needed.relayout_bytes));
        if (!answer) return PyErr_ExceptionMatches(PyExc_MemoryError) ? MISSED : FAILED;
        if (!PyTuple_Check(answer.get())) return PyErr_SetString(PyExc_TypeError, "memory must be a tuple"), FAILED;
        const bool read = PyArg_ParseTuple(answer.get(), "KnKnKn;Memory", &memory.workspace, &memory.workspace_bytes,
                                           &memory.tickets, &memory.ticket_count, &memory.relayout, &memory.relayout_bytes);
        return read ? LAUNCHED : FAILED;
    }

    // So that backward() refuses to use a tensor that was saved for it and has changed since.
    static bool count_version(const Arrays& arrays, PyObject* out) {
        const Ref written(PyTuple_Pack(1, out));
        return written && Ref(PyObject_CallOneArg(arrays.library->increment_version.get(), written.get()));
    }
};

// ---- The module -----------------------------------------------------------------------------------------------------

struct Launcher {
    PyObject_HEAD
    State* state;
};

State& state_of(PyObject* self) { return *reinterpret_cast<Launcher*>(self)->state; }

PyObject* launcher_new(PyTypeObject* type, PyObject* positional, PyObject* named) {
    static const char* names[] = {"driver", "device_type", nullptr};
    const char* path;
    auto state = std::make_unique<State>();
    if (!PyArg_ParseTupleAndKeywords(positional, named, "s|i", const_cast<char**>(names), &path, &state->device_type) ||
        !state->driver.open(path)) {
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) reinterpret_cast<Launcher*>(self)->state = state.release();
    return self;
}

void launcher_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<Launcher*>(self)->state;
    Py_TYPE(self)->tp_free(self);
}

int launcher_traverse(PyObject* self, visitproc visit, void* arg) {
    const State* state = reinterpret_cast<Launcher*>(self)->state;
    return state == nullptr ? 0 : state->traverse(visit, arg);
}

int launcher_clear(PyObject* self) {
    state_of(self).forget();
    return 0;
}

PyObject* launcher_call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return state_of(self).call(arguments, count);
}

PyObject* launcher_remember(PyObject* self, PyObject* positional, PyObject* named) {
    return state_of(self).remember(positional, named);
}

PyObject* launcher_forget(PyObject* self, PyObject*) {
    state_of(self).forget();
    Py_RETURN_NONE;
}

int launch_tensors(PyObject* launcher, PyObject* type, const DLTensor* const* tensors, PyObject* options,
                   const double* scalars, int (*make)(void* made, DLTensor* out), void* made) {
    return state_of(launcher).launch(reinterpret_cast<PyTypeObject*>(type), tensors, options, scalars, make, made);
}

const LaunchApi LAUNCH_API = {launch_tensors};

Py_ssize_t launcher_length(PyObject* self) { return Py_ssize_t(state_of(self).count()); }

PyMethodDef launcher_methods[] = {
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launcher_call)), METH_FASTCALL,
     "call(a, b, c, out, bias, alpha, beta, options)\n--\n\nThe result array, or MISS where no plan is known."},
    {"remember", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launcher_remember)),
     METH_VARARGS | METH_KEYWORDS,
     "Keep a plan for calls with arrays of these types, shapes, strides, device and alignment; see launcher.py."},
    {"forget", launcher_forget, METH_NOARGS, "Drop all plans, and all that is known of memory."},
    {},
};

PySequenceMethods launcher_sequence = {launcher_length};

PyTypeObject launcher_type = {PyVarObject_HEAD_INIT(nullptr, 0) "tilewright.engines._launcher.Launcher"};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launcher", "Calls of products whose plans exist.", -1};

}  // namespace

PyMODINIT_FUNC PyInit__launcher() {
    launcher_type.tp_basicsize = sizeof(Launcher);
    launcher_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    launcher_type.tp_doc = "Launcher(driver, device_type=2): plans, and how to launch them.";
    launcher_type.tp_new = launcher_new;
    launcher_type.tp_dealloc = launcher_dealloc;
    launcher_type.tp_traverse = launcher_traverse;
    launcher_type.tp_clear = launcher_clear;
    launcher_type.tp_methods = launcher_methods;
    launcher_type.tp_as_sequence = &launcher_sequence;
    requires_grad = PyUnicode_InternFromString("requires_grad");
    is_neg = PyUnicode_InternFromString("is_neg");
    current_level = PyUnicode_InternFromString("_current_level");
    miss = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    const Ref errors(PyImport_ImportModule("tilewright.errors"));
    if (!errors) return nullptr;
    launch_error = PyObject_GetAttrString(errors.get(), "LaunchError");
    if (!requires_grad || !is_neg || !current_level || !miss || !launch_error || PyType_Ready(&launcher_type) < 0) return nullptr;
    Ref created(PyModule_Create(&module));
    if (!created || PyModule_AddObjectRef(created.get(), "MISS", miss) < 0 ||
        PyModule_AddObjectRef(created.get(), "Launcher", reinterpret_cast<PyObject*>(&launcher_type)) < 0 ||
        PyModule_AddStringConstant(created.get(), "SOURCE", SOURCE_DIGEST) < 0) {
        return nullptr;
    }
    const Ref api(PyCapsule_New(const_cast<LaunchApi*>(&LAUNCH_API), LAUNCH_CAPSULE, nullptr));
    if (!api || PyModule_AddObjectRef(created.get(), "API", api.get()) < 0) return nullptr;
    return created.release();
}
