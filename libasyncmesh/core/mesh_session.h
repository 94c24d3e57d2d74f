// One rank in a mesh: the engines, the membership and the links, driven by the context's owner.
//
//      mesh::Mesh (control sockets, who is alive) --peer events, messages--> LinkManager
//      Engines (transports)                       --frames, credit--------> ports on the links
//
// Reference counted: ports and averagers hold it. Without `leave` its end is abrupt, and the peers
// report a loss. Threads: *_st belong to the progress owner; everything else is for application
// threads, `leave` and the destructor with no concurrent use of this object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/context.h"
#include "core/control_backlog.h"
#include "core/control_message.h"
#include "core/engines.h"
#include "core/hello_box.h"
#include "core/link_manager.h"
#include "core/network.h"
#include "mesh/mesh.h"

namespace asyncmesh::core {

struct PeerView {
  mesh::PeerInfo info;  // without the address
  uint32_t link_epoch = 0;
  std::string transport;
};

struct MeshView {
  uint32_t alive = 0;
  uint64_t membership_epoch = 0;
  std::string transports;  // distinct, comma separated
};

class MeshSession final : public CounterSource,
                          private Participant,
                          private ControlChannel,
                          private mesh::MeshListener {
 public:
  // Blocks up to `deadline`; see mesh::Mesh::join for the failures.
  static Result<std::shared_ptr<MeshSession>> join(const std::shared_ptr<Context>& context,
                                                   mesh::MeshConfig config, Nanoseconds deadline);
  ~MeshSession() override;
  MeshSession(const MeshSession&) = delete;
  MeshSession& operator=(const MeshSession&) = delete;

  Context& context() const { return *context_; }
  const mesh::MeshConfig& config() const { return config_; }
  uint32_t world() const { return config_.replicas * config_.stages; }
  std::vector<Rank> stage_members() const;  // the replicas of this rank's stage, ascending
  const NetworkChoice& network() const { return network_; }
  std::vector<std::string> engine_names() const;
  std::string why_not_rma() const { return engines_ ? engines_->why_not_rma() : std::string(); }
  Nanoseconds spin_ns() const { return spin_; }
  bool checksum() const;  // over payloads, for ports of this mesh

  MeshView query();
  Result<PeerView> query_peer(Rank rank);
  std::vector<PeerView> query_peers();

  // The port joins the links of its peers. On failure nothing is attached.
  Status attach(const PortKey& key, Port& port, LaneObserver& observer);
  // Leaves them again. What the port has sent is still delivered, while the mesh lives; `owner` (of
  // the port) is then destroyed by the progress owner: slots that were lent belong to the
  // transport, which only the progress owner may touch.
  void detach(const Port& port, std::shared_ptr<const void> owner);

  // Collective creation of averagers: say ours, look at theirs. From the hello until `decline`,
  // what members send to this group's averager is kept for it.
  void say_hello(const std::vector<Rank>& members, AveragerHello hello);
  // Lanes of `group` from these members with an instance below `before[i]` are of earlier
  // averagers.
  void decline(const std::vector<Rank>& members, uint64_t group,
               const std::vector<uint32_t>& before);
  HelloBox& hellos() { return hellos_; }
  // Ok while the peer may still speak.
  Status peer_status(Rank rank);

  // kTimeout: something was not received in time; this rank has left all the same.
  Status leave(Nanoseconds deadline);

  void read_counters(std::vector<Counter>& out) const override;

 private:
  MeshSession(std::shared_ptr<Context> context, mesh::MeshConfig config);
  Status open(Nanoseconds deadline);
  std::vector<Route> routes() const;
  PeerView peer_view_st(Rank rank) const;

  uint32_t progress_st(Nanoseconds now) override;
  bool arm_st(Nanoseconds now) override;
  Nanoseconds next_deadline_st() const override;
  void add_fds_st(std::vector<pollfd>& fds) const override;
  void woken_st(Nanoseconds now, std::span<const pollfd> fds) override;
  Nanoseconds spin_st() const override { return spin_; }

  void decline_st(Rank member, uint64_t group, uint32_t before);
  void send_st(Rank to, MessageType type, const Body& body) override;
  Code offer_st(Rank to, MessageType type, const Body& body);  // kAgain: to be offered again
  void on_message(Rank from, uint16_t type, std::span<const std::byte> body) override;
  void on_peer(const mesh::PeerInfo& peer) override;
  void on_mesh_lost(const Status& why) override;

  // Destroyed in reverse: sockets, links, transports.
  std::shared_ptr<Context> context_;
  mesh::MeshConfig config_;
  NetworkChoice network_;
  std::unique_ptr<Engines> engines_;
  std::unique_ptr<LinkManager> links_;
  std::unique_ptr<mesh::Mesh> mesh_;
  bool attached_ = false;  // to the context's progress
  bool left_ = false;

  Nanoseconds spin_ = 0;  // set before the attachment

  // ---- progress owner ----
  Nanoseconds look_at_ = 0;  // when the control sockets are due
  Nanoseconds armed_at_ = 0;
  Status lost_;  // why the mesh is lost
  ControlBacklog backlog_;

  HelloBox hellos_;
};

}  // namespace asyncmesh::core
