// assert, as a kernel has it: one that fails ends the launch with an error, never the process. Defined anew at every #include,
// by what NDEBUG is then, as the host's is.

#undef assert
#ifdef NDEBUG
#define assert(expression) static_cast<void>(0)
#else
#define assert(...)               \
    (static_cast<bool>(__VA_ARGS__) \
         ? static_cast<void>(0)     \
         : simt_trap("assert(" #__VA_ARGS__ ")", __FILE__, __LINE__))
#endif
