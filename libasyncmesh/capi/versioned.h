// The struct_size rule, in one place.
//
// In: the caller's struct may be shorter than ours (an older caller: defaults for what it lacks) or
// longer (a newer one: accepted if what we do not know is zero). Out: as much as both know is
// written; what only the caller knows is zeroed. Below the size of the first revision, or beyond
// any size that makes sense, it is an error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "asyncmesh/asyncmesh.h"
#include "base/status.h"

namespace asyncmesh::capi {

// Size in the first revision, and the name for messages.
template <typename T>
struct Versioned;

#define ASYNCMESH_VERSIONED(type, size)                                \
  template <>                                                          \
  struct Versioned<type> {                                             \
    static constexpr uint32_t kFirstSize = size;                       \
    static constexpr const char* kName = #type;                        \
    static_assert(sizeof(type) >= (size), "fields are only appended"); \
  }
ASYNCMESH_VERSIONED(asyncmesh_config_t, 352);
ASYNCMESH_VERSIONED(asyncmesh_mesh_config_t, 744);
ASYNCMESH_VERSIONED(asyncmesh_event_t, 184);
ASYNCMESH_VERSIONED(asyncmesh_counter_t, 96);
ASYNCMESH_VERSIONED(asyncmesh_mesh_info_t, 296);
ASYNCMESH_VERSIONED(asyncmesh_peer_info_t, 312);
ASYNCMESH_VERSIONED(asyncmesh_tensor_t, 40);
ASYNCMESH_VERSIONED(asyncmesh_averager_config_t, 104);
ASYNCMESH_VERSIONED(asyncmesh_averager_call_t, 32);
ASYNCMESH_VERSIONED(asyncmesh_averager_result_t, 88);
ASYNCMESH_VERSIONED(asyncmesh_mean_t, 16);
ASYNCMESH_VERSIONED(asyncmesh_averager_info_t, 136);
ASYNCMESH_VERSIONED(asyncmesh_optimiser_config_t, 64);
ASYNCMESH_VERSIONED(asyncmesh_optimiser_step_t, 40);
ASYNCMESH_VERSIONED(asyncmesh_stage_config_t, 32);
ASYNCMESH_VERSIONED(asyncmesh_action_t, 40);
ASYNCMESH_VERSIONED(asyncmesh_port_config_t, 40);
ASYNCMESH_VERSIONED(asyncmesh_send_t, 72);
ASYNCMESH_VERSIONED(asyncmesh_message_t, 88);
#undef ASYNCMESH_VERSIONED

inline constexpr uint32_t kLargestStruct = 64 * 1024;

Status wrong_struct_size(const char* name, uint32_t size, uint32_t first);
Status unknown_tail(const char* name, uint32_t size, size_t known);
bool all_zero(const unsigned char* bytes, size_t count) noexcept;

template <typename T>
Status check_size(const T* theirs) {
  const uint32_t size = theirs->struct_size;
  if (size < Versioned<T>::kFirstSize || size > kLargestStruct)
    return wrong_struct_size(Versioned<T>::kName, size, Versioned<T>::kFirstSize);
  return {};
}

// `mine` holds the defaults; afterwards mine->struct_size is ours. `size` was checked.
template <typename T>
Status copy_in(const T* theirs, uint32_t size, T* mine) {
  if (size > sizeof(T) &&
      !all_zero(reinterpret_cast<const unsigned char*>(theirs) + sizeof(T), size - sizeof(T)))
    return unknown_tail(Versioned<T>::kName, size, sizeof(T));
  std::memcpy(mine, theirs, std::min<size_t>(size, sizeof(T)));
  mine->struct_size = sizeof(T);
  return {};
}
// Null: the defaults stay.
template <typename T>
Status copy_in(const T* theirs, T* mine) {
  if (theirs == nullptr) return {};
  ASYNCMESH_RETURN_IF_ERROR(check_size(theirs));
  return copy_in(theirs, theirs->struct_size, mine);
}

// After `check_size`.
template <typename T>
void copy_out(const T& mine, T* theirs, uint32_t size) noexcept {
  auto* bytes = reinterpret_cast<unsigned char*>(theirs);
  std::memcpy(bytes, &mine, std::min<size_t>(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
  theirs->struct_size = size;
}
template <typename T>
void copy_out(const T& mine, T* theirs) noexcept {
  copy_out(mine, theirs, theirs->struct_size);
}

// Element `index` of a caller's array whose stride is the first element's struct_size.
template <typename T>
T* element(T* first, uint32_t stride, uint32_t index) noexcept {
  using Byte = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + size_t{stride} * index);
}

// Text between C arrays and strings.
template <size_t N>
Status text_in(const char (&field)[N], const char* name, std::string* out) {
  const void* end = std::memchr(field, 0, N);
  if (end == nullptr)
    return Status(Code::kInvalidArgument, std::string(name) + " is not terminated");
  *out = field;
  return {};
}
template <size_t N>
void text_out(const std::string& text, char (&field)[N]) noexcept {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(field, text.data(), length);
  std::memset(field + length, 0, N - length);
}

}  // namespace asyncmesh::capi
