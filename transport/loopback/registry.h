// Where loopback ends of this process find each other. Set-up only: every call takes the one mutex.
// It owns nothing (weak pointers), so an end that is gone is simply not found.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "base/status.h"
#include "transport/loopback/endpoint.h"
#include "transport/loopback/lane_ring.h"

namespace asyncmesh::transport {

class Registry {
 public:
  // The process's registry; never destroyed, because transports of static duration may outlive any
  // static object.
  static Registry& instance();

  uint64_t nonce() const { return nonce_; }  // random, tells processes with a recycled id apart

  std::shared_ptr<Endpoint> add_endpoint();
  std::shared_ptr<Endpoint> find_endpoint(uint64_t id);

  struct Joined {
    std::shared_ptr<Wire> wire;
    uint32_t side = 0;
  };
  // The wire between two endpoints for one epoch: the first end makes it. kInvalidState if this end
  // has joined before.
  Result<Joined> join(uint64_t own, uint64_t peer, Epoch epoch);

  uint64_t offer(
      const std::shared_ptr<LaneRing>& ring);     // the id under which its one writer will take it
  std::shared_ptr<LaneRing> take(uint64_t ring);  // null: unknown, gone, or taken before

 private:
  using WireKey = std::tuple<uint64_t, uint64_t, Epoch>;
  Registry();

  const uint64_t nonce_;
  std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::weak_ptr<Endpoint>> endpoints_;
  std::map<WireKey, std::weak_ptr<Wire>> wires_;
  std::map<uint64_t, std::weak_ptr<LaneRing>> rings_;  // offered, not taken
};

}  // namespace asyncmesh::transport
