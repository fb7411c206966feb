// A kernel's static shared memory: the thread-local storage of the library that it was compiled into.
#pragma once

#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

extern "C" void* __tls_get_addr(void*);  // of the dynamic linker, which declares it nowhere

namespace simt {

struct SharedSegment {
    std::size_t bytes = 0;
    void* data = nullptr;  // the calling thread's copy
    std::size_t guards = 0;  // bytes at its start that are no variables of the kernel, but the compiler's
    std::uintptr_t library = 0;  // where the library was loaded, and how far it reaches
    std::size_t library_bytes = 0;

    // Of the library that holds this address.
    explicit SharedSegment(const void* address) : address_(address) {
        dl_iterate_phdr(read_library, this);
        if (bytes == 0 || data != nullptr) return;
        // A thread gets its copy when it first asks for it.
        struct {
            unsigned long module, offset;
        } first_byte = {module_, 0};
        __tls_get_addr(&first_byte);
        dl_iterate_phdr(read_library, this);
    }

  private:
    static int read_library(dl_phdr_info* library, std::size_t, void* self) {
        auto* segment = static_cast<SharedSegment*>(self);
        const auto wanted = reinterpret_cast<ElfW(Addr)>(segment->address_);
        const ElfW(Phdr)* thread_local_storage = nullptr;
        bool holds_address = false;
        std::size_t end = 0;
        for (int i = 0; i < library->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = library->dlpi_phdr[i];
            const ElfW(Addr) begin = library->dlpi_addr + part.p_vaddr;
            if (part.p_type == PT_LOAD) {
                if (wanted >= begin && wanted < begin + part.p_memsz) holds_address = true;
                end = std::max<std::size_t>(end, part.p_vaddr + part.p_memsz);
            }
            if (part.p_type == PT_TLS) thread_local_storage = &part;
        }
        if (holds_address) {
            segment->library = library->dlpi_addr;
            segment->library_bytes = end;
        }
        if (holds_address && thread_local_storage != nullptr) {
            segment->bytes = thread_local_storage->p_memsz;
            segment->guards = thread_local_storage->p_filesz;
            segment->module_ = library->dlpi_tls_modid;
            segment->data = library->dlpi_tls_data;
        }
        return holds_address;  // other than 0 ends the search
    }

    const void* address_;
    unsigned long module_ = 0;
};

}  // namespace simt
