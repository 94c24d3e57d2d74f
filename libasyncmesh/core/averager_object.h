// asyncmesh_averager_t: an Averager on two mailboxes between the replicas of a stage.
//
// Creation is collective: every member says what all must agree on (AveragerHello) and compares it
// with what the others say; only then are the mailboxes attached to the links.
// Threads: one caller at a time; the counters from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "averaging/averager.h"
#include "averaging/geometry.h"
#include "core/mesh_session.h"
#include "core/port_failure.h"
#include "core/region.h"
#include "core/waiter.h"
#include "mailbox/mailbox.h"

namespace asyncmesh::core {

struct AveragerRequest {
  AveragerConfig config;
  Nanoseconds timeout = -1;  // waiting for the other members' create
};

class AveragerObject final : private CounterSource {
 public:
  static Result<std::unique_ptr<AveragerObject>> create(const std::shared_ptr<MeshSession>& session,
                                                        const std::shared_ptr<Region>& region,
                                                        const AveragerRequest& request);
  ~AveragerObject() override;

  Context& context() const { return session_->context(); }
  const Averager& averager() const { return *averager_; }

  // `mirror` may be null.
  Status call(CallArgs args, const Region* mirror, CallResult* result_out);
  Status mean(const Region& in, const Region& out, const MeanArgs& args);
  Status finish(const MeanArgs& args);
  Status save(std::span<std::byte> buffer) const { return averager_->save(buffer); }
  Status load(std::span<const std::byte> bytes);

 private:
  // A mailbox with its way to the owner.
  struct Box {
    Box(const MailboxConfig& config, Context& context);
    PortQueue queue;
    Mailbox mailbox;
    bool attached = false;
  };
  static constexpr size_t kCounters = 12;

  AveragerObject(std::shared_ptr<MeshSession> session, std::shared_ptr<Region> region);
  Status build(const AveragerConfig& config);
  size_t index_of(Rank member) const {
    return static_cast<size_t>(std::find(members_.begin(), members_.end(), member) -
                               members_.begin());
  }
  AveragerHello hello(const AveragerConfig& config) const;
  Status agree(const AveragerHello& mine, Nanoseconds timeout);
  Status attach();
  Status follow();  // tensors that moved
  Status explain(Status status) const;
  void publish() noexcept;
  void read_counters(std::vector<Counter>& out) const override;

  std::shared_ptr<MeshSession> session_;
  std::shared_ptr<Region> region_;
  std::vector<Rank> members_;
  std::vector<uint32_t> lanes_from_;  // of each member, as it said
  PortFailure failure_;
  CoreWaiter waiter_;
  std::unique_ptr<Box> rounds_;
  std::unique_ptr<Box> means_;
  std::unique_ptr<Averager> averager_;
  uint64_t group_ = 0;
  uint64_t generation_ = 0;  // of the region, as the averager knows it
  std::string name_;         // of its counters
  bool counted_ = false;
  std::array<std::atomic<uint64_t>, kCounters> totals_{};  // in the order of read_counters
};

}  // namespace asyncmesh::core
