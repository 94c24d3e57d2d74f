// A running mesh: the sockets below a Membership. See mesh.h for the contract.
//
// One pass of progress: drain every socket that has something (messages go to the listener as they
// come), let the membership judge, carry out what it decided. Connections are destroyed only there.
#pragma once

#include <memory>
#include <vector>

#include "base/log.h"
#include "mesh/control_connection.h"
#include "mesh/joiner.h"
#include "mesh/membership.h"
#include "mesh/mesh.h"
#include "mesh/poller.h"
#include "mesh/rendezvous_server.h"

namespace asyncmesh::mesh {

class MeshImpl final : public Mesh, private FrameSink {
 public:
  MeshImpl(Rank self, JoinedMesh joined, std::unique_ptr<RendezvousServer> server,
           Membership membership, const Logger& logger);
  ~MeshImpl() override;

  void set_listener_st(MeshListener* listener) override { listener_ = listener; }
  const PeerInfo& peer(Rank rank) const override { return membership_.peer(rank); }
  uint32_t world() const override { return membership_.world(); }
  uint64_t membership_epoch() const override { return membership_.epoch(); }
  Code send_st(Rank to, uint16_t type, std::span<const std::byte> body) override;
  uint32_t progress_st(Nanoseconds now) override;
  Nanoseconds next_deadline_st() const override { return membership_.next_deadline(); }
  int event_fd() const override { return poller_->fd(); }
  void leave_st() override;
  bool left_st() const override;

 private:
  void on_frame(ControlConnection& from, const ControlFrame& frame) override;
  void take(Rank from, Space space, uint16_t type, ByteSpan body);
  uint32_t deliver_held();
  void drain(Rank from, ControlConnection& connection);
  uint32_t carry_out();
  void carry_out(const Membership::Action& action);
  void report(const Membership::Action& action);
  void tell(ControlConnection* connection, const Membership::Action& action);

  const Rank self_;
  const Logger logger_;
  std::unique_ptr<RendezvousServer> server_;  // rank 0; ends after the connections, telling all
  std::unique_ptr<Poller> poller_;            // before what it watches
  std::vector<std::unique_ptr<ControlConnection>> peers_;  // by rank; null: self, or ended
  std::unique_ptr<ControlConnection> rendezvous_;
  Membership membership_;
  std::vector<HeldFrame> held_;
  std::vector<Rank> ready_;  // scratch of progress
  uint32_t messages_ = 0;    // handled in this pass
  MeshListener* listener_ = nullptr;
};

}  // namespace asyncmesh::mesh
