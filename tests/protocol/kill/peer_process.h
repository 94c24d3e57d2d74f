// A second process for tests that end or stop it: the test program again, started with "--peer" and
// a descriptor over which both exchange small messages, as the control socket does in the library.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::protocol {

using transport::Bytes;

enum class Role : uint32_t { kWriter, kReader };

// What the peer is and where it ends. Travels as it lies in memory, over the descriptor.
struct PeerOrders {
  char engine[16] = {};  // see make_engine
  Role role = Role::kWriter;
  uint32_t slots = 4;
  uint32_t slot_bytes = 504;
  uint32_t ends = 0;  // 1: SIGKILL at `step` of the first frame from `sequence` on
  transport::FrameStep step = transport::FrameStep::kBeforeFrame;
  transport::Sequence sequence = 0;
};

// "tag_tcp", "tag_shm", "rma_direct" or "rma_puts".
Result<std::unique_ptr<transport::Transport>> make_engine(const std::string& name,
                                                          const Clock& clock,
                                                          transport::FrameHook hook);

// Length-prefixed messages over a stream socket. Any failure reads as an empty message.
bool send_message(int fd, std::span<const std::byte> bytes);
Bytes receive_message(int fd);
bool message_waits(int fd);  // or the other end is closed

// Runs in the peer's process; returns its exit status.
int run_peer(int fd);

class PeerProcess {
 public:
  explicit PeerProcess(const PeerOrders& orders);
  ~PeerProcess();  // ends it if it still runs
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  int fd() const { return fd_; }
  void signal(int number) const;
  bool ended();  // reaps it
  bool killed() const { return killed_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  bool reaped_ = false;
  bool killed_ = false;  // ended by SIGKILL
};

}  // namespace asyncmesh::protocol
