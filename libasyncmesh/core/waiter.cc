#include "core/waiter.h"

#include <algorithm>

namespace asyncmesh::core {
namespace {

// Another thread holds the owner's role in manual mode: it may stop calling at any time.
constexpr Nanoseconds kTakeOver = 1'000'000;

}  // namespace

Code CoreWaiter::wait(Nanoseconds deadline) noexcept {
  const uint64_t count = context_.activity().count();
  if (count != seen_) {
    seen_ = count;
    return Code::kOk;
  }
  const Nanoseconds now = context_.clock().now();
  if (now >= deadline) return Code::kTimeout;
  if (context_.manual()) {
    if (context_.try_step(deadline)) return Code::kOk;
    deadline = std::min(deadline, now + kTakeOver);
    context_.activity().wait(seen_, deadline);
    return Code::kOk;
  }
  return context_.activity().wait(seen_, deadline) ? Code::kOk : Code::kTimeout;
}

}  // namespace asyncmesh::core
