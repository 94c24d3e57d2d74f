// One control connection: a non-blocking socket, the handshake, sealed frames, a queue of what the
// socket did not take yet.
//
// Life: dialing (unless accepted) -> handshake -> established -> over. A status that is not ok,
// from `receive` or `flush`, ends it and says why; the owner then destroys the object, but never
// from inside the sink. It watches its own socket in the owner's poller; the poller must outlive
// it. Threads: one. Bounds: frame sizes by control_frame.h; the queue by kMaxQueued (kAgain
// beyond).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "mesh/control_frame.h"
#include "mesh/fork_safe_fd.h"
#include "mesh/handshake.h"
#include "mesh/poller.h"
#include "mesh/socket.h"

namespace asyncmesh::mesh {

class ControlConnection;

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // An authenticated frame. May send on any connection; must not destroy one.
  virtual void on_frame(ControlConnection& from, const ControlFrame& frame) = 0;
};

class ControlConnection {
 public:
  static constexpr size_t kMaxQueued = 16 * kMaxBody;

  // `connected`: false for a socket that is still dialing.
  ControlConnection(ForkSafeFd fd, bool connected, Handshake handshake);
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  // Before anything else. Starts the handshake where the socket is connected already.
  Status attach(Poller& poller, uint64_t token);
  // Moves it to another poller.
  Status move_to(Poller& poller, uint64_t token);

  // The poller reported something: finishes dialing, reads until nothing is left (or 1 MiB
  // came, to be fair to other sockets), and hands frames to `sink` once established; writes.
  // kPeerLost: the other side closed; kSystem: the socket failed; kRefused, kMismatch: by the
  // handshake. `received` of the last call: whether bytes came.
  Status on_event(FrameSink& sink);
  bool received() const { return received_; }

  // Queues and writes what the socket takes. kOk, kTooLarge, kAgain (queue full), kPeerLost (over,
  // or not established).
  Code send(Space space, uint16_t type, ByteSpan body);
  Status flush();

  bool authenticated() const { return handshake_.done(); }  // also after the end
  bool established() const { return handshake_.done() && over_.ok(); }
  bool has_queued() const { return sent_ < queue_.size(); }
  const Identity& self() const { return handshake_.self(); }
  const Identity& peer() const { return handshake_.peer(); }
  uint64_t token() const { return token_; }
  const SocketAddress& remote() const { return remote_; }
  const SocketAddress& local() const { return local_; }
  // The other process runs on this machine: same kernel, and the connection did not leave the host.
  bool same_host() const;
  // "rank 2 (node7, pid 4711)" once established, "10.0.0.3:4242" before.
  std::string describe() const;

 private:
  Status on_connected();
  Status read_frames(FrameSink& sink);
  Status handle(FrameSink& sink, const ControlFrame& frame);
  Status queue_replies(const HandshakeReplies& replies);
  Status end(Status why);
  void update_interest();

  ForkSafeFd fd_;
  bool connected_;
  Handshake handshake_;
  Poller* poller_ = nullptr;
  uint64_t token_ = 0;
  bool watching_write_ = false;
  bool received_ = false;
  SocketAddress remote_;
  SocketAddress local_;
  FrameReader reader_;
  FrameWriter writer_;
  std::vector<std::byte> queue_;  // sent_.. is still to be written
  size_t sent_ = 0;
  Status over_;
};

}  // namespace asyncmesh::mesh
