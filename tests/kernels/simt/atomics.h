// Atomic operations on the executor, whose threads take turns: plain ones, for CUDA's types.
#pragma once

#include <type_traits>

namespace simt {

template <typename T, typename Change>
T exchange(T* address, Change change) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                    std::is_same_v<T, unsigned long long> || std::is_same_v<T, float> ||
                    std::is_same_v<T, double>,
                "CUDA has no atomics of this type");
  const T old = *address;
  *address = change(old);
  return old;
}

template <typename T>
using Same = std::type_identity_t<T>;

}  // namespace simt

template <typename T>
T atomicAdd(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T old) { return old + value; });
}
template <typename T>
T atomicOr(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T old) { return old | value; });
}
template <typename T>
T atomicAnd(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T old) { return old & value; });
}
template <typename T>
T atomicMax(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T old) { return old < value ? value : old; });
}
template <typename T>
T atomicMin(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T old) { return value < old ? value : old; });
}
template <typename T>
T atomicExch(T* address, simt::Same<T> value) {
  return simt::exchange(address, [value](T) { return value; });
}
template <typename T>
T atomicCAS(T* address, simt::Same<T> expected, simt::Same<T> value) {
  return simt::exchange(address, [&](T old) { return old == expected ? value : old; });
}
