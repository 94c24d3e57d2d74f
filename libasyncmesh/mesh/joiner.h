// The blocking part of a member's life: from a configuration to a connected mesh.
//
//      dial the rendezvous, authenticate  -->  wait for everybody  -->  connect to the peers
//      -->  tell the rendezvous  -->  wait until all are as far
//
// Until the mesh has started, a rendezvous that goes away, or that still serves a dying job, is
// tried again until the deadline. Threads: one, the caller's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mesh/control_connection.h"
#include "mesh/mesh.h"
#include "mesh/peer_links.h"
#include "mesh/poller.h"
#include "mesh/route.h"

namespace asyncmesh::mesh {

class Joiner final : private FrameSink {
 public:
  // All references must outlive it.
  Joiner(const MeshConfig& config, const Endpoints& endpoints, const Clock& clock,
         const Logger& logger);

  // kTimeout names what is missing; kRefused, kMismatch, kPeerLost, kSystem as told or found. Once.
  Result<JoinedMesh> run(Identity self, const Digest& key, Nanoseconds deadline);

 private:
  static constexpr uint64_t kRendezvousToken = 1;

  void on_frame(ControlConnection& from, const ControlFrame& frame) override;
  Status connect(Nanoseconds deadline);
  Status attend(Nanoseconds deadline);
  Status serve(const std::vector<uint64_t>& tokens, Nanoseconds now);
  void reset();
  std::string progress_text() const;
  Status timeout() const;
  Status collect(JoinedMesh* joined);

  const MeshConfig& config_;
  const Endpoints& endpoints_;
  const Clock& clock_;
  const Logger& logger_;
  Identity self_;
  Digest key_{};
  std::unique_ptr<Poller> poller_;  // before what it watches
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<ControlConnection> rendezvous_;
  std::optional<std::vector<Rank>> present_;  // as the rendezvous last said
  std::vector<HeldFrame> held_;               // of the rendezvous, after the start
  uint64_t epoch_ = 0;                        // not 0: started
  bool ready_told_ = false;
  bool closing_ = false;   // the rendezvous said so
  Status failure_;         // final
  std::string trouble_;    // why the rendezvous could not be reached, or did not take us
  std::string last_seen_;  // how far the attempt before this one came
};

}  // namespace asyncmesh::mesh
