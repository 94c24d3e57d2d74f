// The border: nothing is thrown across it, and every failure leaves its text.
//
//      asyncmesh_status_t asyncmesh_x(...) ASYNCMESH_NOEXCEPT {
//        return guard([&]() -> Status { validate; call the core; translate; });
//      }
#pragma once

#include <exception>
#include <new>

#include "asyncmesh/asyncmesh.h"
#include "base/status.h"
#include "capi/last_error.h"

namespace asyncmesh::capi {

// kAgain is back-pressure, not an error: no text.
inline asyncmesh_status_t report(const Status& status) noexcept {
  if (!status.ok() && status.code() != Code::kAgain) set_last_error(status.text());
  return static_cast<asyncmesh_status_t>(status.code());
}

template <typename Function>
asyncmesh_status_t guard(Function&& function) noexcept {
  try {
    return report(function());
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return ASYNCMESH_NO_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return ASYNCMESH_INTERNAL;
  } catch (...) {
    set_last_error("an unknown exception");
    return ASYNCMESH_INTERNAL;
  }
}

inline Status invalid(const char* what) { return Status(Code::kInvalidArgument, what); }

// For destructors of handles: they cannot fail usefully.
template <typename Function>
void guard_destroy(Function&& function) noexcept {
  try {
    function();
  } catch (...) {
    set_last_error("an exception while destroying");
  }
}

}  // namespace asyncmesh::capi
