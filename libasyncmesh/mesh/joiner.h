// The blocking part of a member's life: from a configuration to a connected mesh.
//
//      dial the rendezvous, authenticate  -->  wait for everybody  -->  dial lower ranks, accept
//      higher ones, swap transport addresses  -->  tell the rendezvous  -->  wait until all are as
//      far
//
// Until the mesh has started, a rendezvous that goes away or that still serves a dying job is tried
// again. Frames of faster peers that belong to the running mesh are kept. Strangers that knock at
// the control listener get as little as at the rendezvous. Threads: one, the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mesh/control_connection.h"
#include "mesh/identity.h"
#include "mesh/mesh.h"
#include "mesh/messages.h"
#include "mesh/poller.h"
#include "mesh/route.h"
#include "mesh/socket.h"

namespace asyncmesh::mesh {

// A frame that came before the mesh was handed over.
struct HeldFrame {
  Rank from = 0;  // or kRendezvousRank
  Space space = Space::kMesh;
  uint16_t type = 0;
  std::vector<std::byte> body;
};

struct JoinedMesh {
  std::vector<Identity> members;                          // by rank
  std::vector<std::vector<std::byte>> addresses;          // of the transports, by rank
  std::unique_ptr<Poller> poller;                         // watches all connections
  std::vector<std::unique_ptr<ControlConnection>> peers;  // by rank; null: self, or ended already
  std::unique_ptr<ControlConnection> rendezvous;
  std::vector<HeldFrame> held;  // in order per sender
  uint64_t epoch = 0;
};

class Joiner final : private FrameSink {
 public:
  static constexpr size_t kMaxPending = 256;  // strangers at the control listener

  Joiner(const MeshConfig& config, const Endpoints& endpoints, const Clock& clock,
         const Logger& logger);

  // kTimeout names what is missing; kRefused, kMismatch, kPeerLost, kSystem as told or found.
  Result<JoinedMesh> run(Identity self, const Digest& key, Nanoseconds deadline);

 private:
  struct Link {
    std::unique_ptr<ControlConnection> connection;
    std::optional<Rank> dialed;  // whom; empty: accepted
    Nanoseconds since = 0;
    std::vector<HeldFrame> frames;
  };
  struct Peer {
    uint64_t token = 0;  // of its verified link; 0: none
    bool has_address = false;
    std::vector<HeldFrame> early;  // what a link that ended had delivered
    Nanoseconds next_dial = 0;
    std::string trouble;  // of the last attempt
  };
  static constexpr uint64_t kListenerToken = 0;
  static constexpr uint64_t kRendezvousToken = 1;

  void on_frame(ControlConnection& from, const ControlFrame& frame) override;
  void on_rendezvous_frame(const ControlFrame& frame);
  Status connect(Nanoseconds deadline);
  Status open_listener(const SocketAddress& local);
  Status attend(Nanoseconds deadline);
  Status serve(const std::vector<uint64_t>& tokens, Nanoseconds now);
  void serve_link(Link& link);
  void accept_waiting(Nanoseconds now);
  void drop_strangers(Nanoseconds now);
  void dial_peers(Nanoseconds now);
  Status add_link(ForkSafeFd fd, bool connected, std::optional<Rank> dialed, Nanoseconds now);
  void settle(Link& link);
  Status verify(const Link& link) const;
  void end_link(Link& link, const std::string& why);
  void report_ready();
  void reset();
  Status timeout_text() const;
  Status collect(JoinedMesh* joined_out);

  const MeshConfig& config_;
  const Endpoints& endpoints_;
  const Clock& clock_;
  const Logger& logger_;
  Identity self_;
  Digest key_{};
  std::unique_ptr<Poller> poller_;  // before what it watches
  ForkSafeFd listener_;
  std::unique_ptr<ControlConnection> rendezvous_;
  std::vector<std::unique_ptr<Link>> links_;  // the oldest first; an ended one has no connection
  uint64_t next_token_ = 2;
  std::vector<Identity> members_;  // by rank; empty until published
  std::vector<Peer> peers_;        // by rank; empty until published
  std::vector<std::vector<std::byte>> addresses_;
  std::optional<std::vector<Rank>> present_;
  std::vector<HeldFrame> rendezvous_frames_;
  uint64_t epoch_ = 0;  // not 0: started
  bool ready_told_ = false;
  bool closing_ = false;  // the rendezvous said so
  Status failure_;        // final
  std::string trouble_;   // why the rendezvous could not be reached, or did not take us
};

}  // namespace asyncmesh::mesh
