// The control connections of one joining rank to its peers, until they are handed to a running
// mesh.
//
// The higher rank dials, the lower one accepts; both authenticate, check that the other is the very
// process that the rendezvous published, and swap transport addresses. A connection that ends
// before the mesh has started is dialed again. Frames of faster peers that belong to the running
// mesh are kept. Strangers at the listener: at most `kMaxPending` are kept, the oldest goes first,
// and each has `kHandshakeTimeout`. Threads: one. The poller must outlive it.
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
#include "mesh/poller.h"
#include "mesh/socket.h"

namespace asyncmesh::mesh {

// A frame that came before the mesh was handed over.
struct HeldFrame {
  Rank from = 0;  // or kRendezvousRank
  Space space = Space::kMesh;
  uint16_t type = 0;
  std::vector<std::byte> body;
};

// What a join leaves behind.
struct JoinedMesh {
  std::vector<Identity> members;                          // by rank
  std::vector<std::vector<std::byte>> addresses;          // of the transports, by rank
  std::unique_ptr<Poller> poller;                         // watches all connections; before them
  std::vector<std::unique_ptr<ControlConnection>> peers;  // by rank; null: self, or ended already
  std::unique_ptr<ControlConnection> rendezvous;
  std::vector<HeldFrame> held;  // in order per sender
  uint64_t epoch = 0;
};

class PeerLinks final : private FrameSink {
 public:
  static constexpr size_t kMaxPending = 256;
  static constexpr Nanoseconds kHandshakeTimeout = 5'000'000'000;
  static constexpr uint64_t kListenerToken = 0;
  static constexpr uint64_t kFirstToken = 2;  // 1 is the owner's

  PeerLinks(Poller& poller, const Digest& key, const Logger& logger);

  // Opens the listener; `self.port` is filled in. Afterwards peers may come, even before `publish`.
  Status listen(const SocketAddress& address, Identity* self_in_out);
  void identify(Identity self, std::vector<std::byte> address);
  void publish(std::vector<Identity> members);  // by rank
  void reset();                                 // forgets everything, closes the listener

  // One round: what the poller reported for a token of ours, then dialing, checking, dropping.
  void on_event(uint64_t token, Nanoseconds now);
  void advance(Nanoseconds now);

  bool published() const { return !members_.empty(); }
  bool complete() const;        // every peer is connected and has told its address
  std::string missing() const;  // for people: which peers are not, where, and why
  // Moves the connections into `joined` and its poller.
  Status hand_over(JoinedMesh* joined);

 private:
  struct Link {
    std::unique_ptr<ControlConnection> connection;  // null: ended
    std::optional<Rank> dialed;                     // whom; empty: accepted
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

  void on_frame(ControlConnection& from, const ControlFrame& frame) override;
  void accept_waiting(Nanoseconds now);
  void dial_peers(Nanoseconds now);
  void drop_strangers(Nanoseconds now);
  Status add(ForkSafeFd fd, bool connected, std::optional<Rank> dialed, Nanoseconds now);
  void settle(Link& link);
  void take_address(Link& link, Rank rank);
  Status verify(const Link& link) const;
  void end(Link& link, const std::string& why);
  void warn(const std::string& text);

  Poller& poller_;
  const Digest key_;
  const Logger logger_;
  Identity self_;
  std::vector<std::byte> address_;
  ForkSafeFd listener_;
  std::vector<std::unique_ptr<Link>> links_;  // the oldest first
  uint64_t next_token_ = kFirstToken;
  std::vector<Identity> members_;  // by rank; empty until published
  std::vector<Peer> peers_;        // likewise
  std::vector<std::vector<std::byte>> addresses_;
  Nanoseconds now_ = 0;  // of this round
  uint32_t warnings_ = 0;
};

}  // namespace asyncmesh::mesh
