// Warp operations that combine or compare the lanes' values.
#pragma once

namespace simt {

// A value as the runtime combines it: 64 bits, the sign extended.
template <typename T>
__forceinline__ OneOf<T, int, unsigned> reduced(Call call, unsigned mask, T value) {
    return T(simt_warp_exchange(simt_thread(), call, mask, std::uint64_t(std::int64_t(value)), 0));
}

template <typename T>
__forceinline__ std::uint64_t bits_of(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a match compares at most 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

}  // namespace simt

template <typename T>
__forceinline__ T __reduce_add_sync(unsigned mask, T value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_add, file, line}, mask, value);
}

template <typename T>
__forceinline__ T __reduce_min_sync(unsigned mask, T value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_min, file, line}, mask, value);
}

template <typename T>
__forceinline__ T __reduce_max_sync(unsigned mask, T value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_max, file, line}, mask, value);
}

__forceinline__ unsigned __reduce_and_sync(unsigned mask, unsigned value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_and, file, line}, mask, value);
}

__forceinline__ unsigned __reduce_or_sync(unsigned mask, unsigned value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_or, file, line}, mask, value);
}

__forceinline__ unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIMT_LOCATION) {
    return simt::reduced({simt::Operation::reduce_xor, file, line}, mask, value);
}

template <typename T>
__forceinline__ unsigned __match_any_sync(unsigned mask, T value, SIMT_LOCATION) {
    const simt::Call call = {simt::Operation::match_any, file, line};
    return unsigned(simt_warp_exchange(simt_thread(), call, mask, simt::bits_of(value), 0));
}

template <typename T>
__forceinline__ unsigned __match_all_sync(unsigned mask, T value, int* predicate, SIMT_LOCATION) {
    const simt::Call call = {simt::Operation::match_all, file, line};
    const auto equal = unsigned(simt_warp_exchange(simt_thread(), call, mask, simt::bits_of(value), 0));
    *predicate = equal != 0;
    return equal;
}
