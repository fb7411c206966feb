// What the launcher and the XLA handler call of the CUDA driver: records launches, and answers as a test has set it up to.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

struct Config {
    unsigned grid[3], block[3], shared_bytes;
    void* stream;
    struct {
        int id;
        char padding[4];
        int value;
        char rest[60];
    } const* attributes;
    unsigned attribute_count;
};

}  // namespace

extern "C" {

struct Launch {
    void *function, *stream, *context;
    unsigned grid[3], block[3], shared_bytes;
    int attribute;
    uint64_t size;
    char parameters[1024];
};

// What streams were given, launches too. Of a launch, a is the function and b its first 8 bytes of parameters; of a copy, where
// to and from where; of a number that is written or waited for, the address; of events, which.
struct Operation {
    char what[8];
    void* stream;
    uint64_t a, b, count;
};

Operation operations[256];
int operation_count = 0;  // the first 256 of them are kept
int refused = -1;         // which operation is refused

int add_operation(const char* what, void* stream, uint64_t a, uint64_t b = 0, uint64_t count = 0) {
    if (operation_count == refused) return 719;
    if (operation_count < 256) {
        Operation& added = operations[operation_count];
        std::strncpy(added.what, what, sizeof added.what);
        added.stream = stream, added.a = a, added.b = b, added.count = count;
    }
    ++operation_count;
    return 0;
}

Launch launches[64];
int launch_count = 0;  // the newest 64 of them are kept
int encode_count = 0;
int replace_count = 0;
int push_count = 0;
int pop_count = 0;
int failing = 0;  // what the next launches return
int capture_status = 0;
uint64_t parameter_bytes[1 << 16];  // by function: of its one parameter
int capture_query = 0;  // what the query for it returns
void* current_context = nullptr;
void* context_below = nullptr;
void (*on_launch)(uint64_t function, const char* parameters) = nullptr;  // called with what is launched

int cuLaunchKernelEx(const Config* config, void* function, void** parameters, void** extra) {
    if (failing != 0) return failing;
    if (parameters == nullptr || extra != nullptr) return 1;
    Launch& launch = launches[launch_count++ % 64];
    launch.function = function;
    launch.stream = config->stream;
    launch.context = current_context;
    std::memcpy(launch.grid, config->grid, sizeof launch.grid);
    std::memcpy(launch.block, config->block, sizeof launch.block);
    launch.shared_bytes = config->shared_bytes;
    launch.attribute = 0;
    for (unsigned i = 0; i < config->attribute_count; ++i) {
        if (config->attributes[i].value == 1) launch.attribute = config->attributes[i].id;
    }
    launch.size = parameter_bytes[reinterpret_cast<uintptr_t>(function)];
    if (launch.size > sizeof launch.parameters) return 1;
    std::memcpy(launch.parameters, parameters[0], launch.size);
    if (on_launch != nullptr) on_launch(reinterpret_cast<uint64_t>(function), launch.parameters);
    uint64_t first;
    std::memcpy(&first, launch.parameters, sizeof first);
    return add_operation("launch", config->stream, reinterpret_cast<uint64_t>(function), first);
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    return add_operation("copy", stream, to, from, bytes);
}

int cuStreamWriteValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
    return add_operation("write", stream, address, flags, value);
}

int cuStreamWaitValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
    return add_operation("wait", stream, address, flags, value);
}

int cuEventRecord(void* event, void* stream) {
    return add_operation("record", stream, reinterpret_cast<uint64_t>(event));
}

int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    return add_operation("await", stream, reinterpret_cast<uint64_t>(event));
}

int cuMemsetD32Async(uint32_t* address, unsigned word, size_t count, void*) {
    if (failing != 0) return failing;
    for (size_t i = 0; i < count; ++i) address[i] = word;
    return 0;
}

// A map here: its address, then what is said of it in the order of the arguments.
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave,
                           int swizzle, int promotion, int fill) {
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || interleave != 0 || fill != 0) return 1;
    for (int i = 0; i < 5; ++i) if (element_strides[i] != 1) return 1;
    ++encode_count;
    char* const target = static_cast<char*>(map);
    const int rest[] = {type, swizzle, promotion, int(rank)};
    std::memset(target, 0, 128);
    std::memcpy(target, &address, 8);
    std::memcpy(target + 8, extents, 40);
    std::memcpy(target + 48, strides, 32);
    std::memcpy(target + 80, box, 20);
    std::memcpy(target + 100, rest, 16);
    return 0;
}

int cuTensorMapReplaceAddress(void* map, void* address) {
    if (reinterpret_cast<uintptr_t>(map) % 128 != 0) return 1;
    ++replace_count;
    std::memcpy(map, &address, sizeof address);
    return 0;
}

int cuStreamGetCaptureInfo_v3(void*, int* status, uint64_t* id, void** graph, const void*** nodes, const void** edges,
                              uint64_t* count) {
    if (!nodes || !edges || !count || !graph) return 1;
    *status = capture_status;
    *id = 77;
    return capture_query;
}

int cuCtxGetCurrent(void** context) {
    *context = current_context;
    return 0;
}

int cuCtxPushCurrent_v2(void* context) {
    ++push_count;
    context_below = current_context;
    current_context = context;
    return 0;
}

int cuCtxPopCurrent_v2(void** context) {
    ++pop_count;
    *context = current_context;
    current_context = context_below;
    return 0;
}

int cuGetErrorName(int status, const char** text) {
    *text = status == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : nullptr;
    return *text == nullptr;
}

int cuGetErrorString(int status, const char** text) {
    *text = status == 719 ? "unspecified launch failure" : nullptr;
    return *text == nullptr;
}
}
