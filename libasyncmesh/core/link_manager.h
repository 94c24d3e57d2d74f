// All links of a context, and the ports on them.
//
// Attaching a port gives each of its lanes to the link of its peer; detaching closes them, once
// what was sent is delivered. Links are opened on first use, by either end. Frames that a peer sent
// before it left or was lost are taken in before its lanes fail. Links must be gone before their
// transports, but staging memory that a transport knows must outlive it, also when its port is
// closed: `staging_st` hands it to the session, which destroys manager, transports and memory in
// this order.
//
// Threads: progress owner.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/link.h"

namespace asyncmesh::core {

using StagingMemory = std::vector<std::shared_ptr<StagingPool>>;

class LinkManager final : private StagingRegistry {
 public:
  // `routes[rank]`; the entry of `self` is not used. `drain` moves every transport once.
  LinkManager(const LinkEnvironment& environment, std::vector<Route> routes,
              std::function<uint32_t()> drain);
  ~LinkManager() override;

  // On failure nothing is attached. `observer` outlives the attachment.
  Status attach_st(const PortKey& key, Port& port, LaneObserver& observer);
  // What the port has sent is still delivered; `owner` keeps it alive for that long (link.h).
  void detach_st(const Port& port, const std::shared_ptr<const void>& owner);

  uint32_t next_instance_st() const { return environment_.next_instance; }
  void decline_st(Rank peer, const PortKey& key, uint32_t before);  // Link::decline_st
  void decline_all_st();

  void on_message_st(Rank from, MessageType type, std::span<const std::byte> body);
  void suspend_st(Rank peer);
  void resume_st(Rank peer);
  void end_st(Rank peer, const Status& why);
  void end_all_st(const Status& why);

  uint32_t progress_st(Nanoseconds now);
  void flush_st(Nanoseconds now);
  Nanoseconds next_deadline_st() const;
  bool delivered_st() const;

  const Link& link_st(Rank peer) const { return *links_[peer]; }
  // Keeps alive what the transports were told; for the owner of the transports.
  const StagingMemory& staging_st() const { return staging_; }

 private:
  Result<uint32_t> staging_id_st(Port& port, transport::Transport& transport) override;
  Status attach_lanes(const PortKey& key, Port& port, LaneObserver& observer);

  LinkEnvironment environment_;  // before links_: they refer to it
  std::function<uint32_t()> drain_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank
  std::map<std::pair<const StagingPool*, const transport::Transport*>, uint32_t> staging_ids_;
  StagingMemory staging_;
};

}  // namespace asyncmesh::core
