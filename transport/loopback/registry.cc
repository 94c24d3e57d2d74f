#include "transport/loopback/registry.h"

#include <algorithm>
#include <random>

namespace asyncmesh::transport {
namespace {

uint64_t random_nonce() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Registry::Registry() : nonce_(random_nonce()) {}

Registry& Registry::instance() {
  static Registry& registry = *new Registry;
  return registry;
}

std::shared_ptr<Endpoint> Registry::add_endpoint() {
  const std::lock_guard lock(mutex_);
  std::erase_if(endpoints_, [](const auto& entry) { return entry.second.expired(); });
  auto endpoint = std::make_shared<Endpoint>(next_id_++);
  endpoints_.emplace(endpoint->id(), endpoint);
  return endpoint;
}

std::shared_ptr<Endpoint> Registry::find_endpoint(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(id);
  return found == endpoints_.end() ? nullptr : found->second.lock();
}

Result<Registry::Joined> Registry::join(uint64_t own, uint64_t peer, Epoch epoch) {
  const std::lock_guard lock(mutex_);
  std::erase_if(wires_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Wire>& entry = wires_[{std::min(own, peer), std::max(own, peer), epoch}];
  Joined joined{entry.lock(), own < peer ? 0u : 1u};
  if (joined.wire == nullptr) {
    joined.wire = std::make_shared<Wire>();
    entry = joined.wire;
  }
  // An endpoint linked to itself has no smaller side: its two ends take them in turn.
  if (own == peer && !joined.wire->joined[0]) joined.side = 0;
  if (joined.wire->joined[joined.side])
    return Status(Code::kInvalidState, "this end of the link and epoch exists already");
  joined.wire->joined[joined.side] = true;
  return joined;
}

uint64_t Registry::offer(const std::shared_ptr<LaneRing>& ring) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rings_, [](const auto& entry) { return entry.second.expired(); });
  const uint64_t id = next_id_++;
  rings_.emplace(id, ring);
  return id;
}

std::shared_ptr<LaneRing> Registry::take(uint64_t ring) {
  const std::lock_guard lock(mutex_);
  const auto found = rings_.find(ring);
  if (found == rings_.end()) return nullptr;
  auto taken = found->second.lock();
  rings_.erase(found);
  return taken;
}

}  // namespace asyncmesh::transport
