#include "transport/paced/egress.h"

#include <algorithm>
#include <bit>

namespace asyncmesh::transport {
namespace {

constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

TokenBucket::TokenBucket(uint64_t bytes_per_second, uint64_t burst_bytes)
    : rate_(bytes_per_second),
      burst_ns_(rate_ == 0
                    ? 0
                    : static_cast<Nanoseconds>(static_cast<double>(burst_bytes) *
                                               kNanosecondsPerSecond / static_cast<double>(rate_))),
      free_at_(INT64_MIN) {}

Nanoseconds TokenBucket::take(Nanoseconds now, uint32_t bytes) noexcept {
  if (rate_ == 0) return now;
  if (free_at_ < now - burst_ns_) {
    free_at_ = now - burst_ns_;
    remainder_ = 0;
  }
  // Below 2^63: bytes < 2^32, a second has less than 2^30 ns, and the remainder is less than the
  // rate.
  const uint64_t scaled = uint64_t{bytes} * kNanosecondsPerSecond + remainder_;
  free_at_ += static_cast<Nanoseconds>(scaled / rate_);
  remainder_ = scaled % rate_;
  return std::max(free_at_, now);
}

void DepartureQueue::push(const Departure& departure) {
  if (count_ == ring_.size()) grow(count_ + 1);
  ring_[(head_ + count_) & (ring_.size() - 1)] = departure;
  ++count_;
}

Departure DepartureQueue::pop() noexcept {
  const Departure departure = ring_[head_];
  head_ = (head_ + 1) & (ring_.size() - 1);
  --count_;
  return departure;
}

void DepartureQueue::reserve(size_t more) {
  reserved_ += more;
  if (reserved_ > ring_.size()) grow(reserved_);
}

void DepartureQueue::unreserve(size_t fewer) noexcept { reserved_ -= fewer; }

void DepartureQueue::remove(const PacedOutbound* lane) {
  remove_if([lane](const Departure& departure) { return departure.outbound == lane; });
}

void DepartureQueue::remove(const PacedInbound* lane) {
  remove_if([lane](const Departure& departure) { return departure.inbound == lane; });
}

template <typename Predicate>
void DepartureQueue::remove_if(Predicate predicate) {
  for (size_t left = count_; left > 0; --left) {
    const Departure departure = pop();
    if (!predicate(departure)) push(departure);
  }
}

void DepartureQueue::grow(size_t capacity) {
  std::vector<Departure> larger(std::bit_ceil(std::max<size_t>(capacity, 16)));
  for (size_t i = 0; i < count_; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
  ring_ = std::move(larger);
  head_ = 0;
}

}  // namespace asyncmesh::transport
