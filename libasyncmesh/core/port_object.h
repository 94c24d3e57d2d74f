// asyncmesh_port_t: a channel or mailbox of the application, on the links of its mesh.
//
// Threads: one caller at a time per port; the counters from any thread. Lent frames are named by
// tokens (generation and index), so that releasing one twice is an error and not a crash.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "core/frame_policy.h"
#include "core/mesh_session.h"
#include "core/port_failure.h"
#include "core/waiter.h"

namespace asyncmesh::core {

enum class PortRole : uint32_t { kChannelOut = 0, kChannelIn = 1, kMailbox = 2 };

struct PortSettings {
  PortRole role = PortRole::kChannelOut;
  Rank peer = 0;
  uint32_t tag = 0;
  uint32_t slots = 0;
  uint32_t payload_bytes = 0;
  uint32_t max_untaken = 0;
  uint32_t max_versions = 0;
  uint64_t key = 0;
};

// Frames lent to the application.
class LentFrames {
 public:
  explicit LentFrames(size_t capacity);
  bool full() const noexcept { return free_.empty(); }
  uint64_t lend(const Received& received) noexcept;
  bool take_back(uint64_t token, Received* received_out) noexcept;  // false: not lent

 private:
  struct Entry {
    Received received;
    uint32_t generation = 0;
    bool lent = false;
  };
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
};

class PortObject final : private Pollable, private CounterSource {
 public:
  static Result<std::unique_ptr<PortObject>> open(const std::shared_ptr<MeshSession>& session,
                                                  const PortSettings& settings);
  ~PortObject() override;

  Context& context() const { return session_->context(); }
  // kAgain with timeout 0, kTimeout after one that passed; for other failures see `explain`.
  Code send(const OutgoingFrame& frame, Nanoseconds timeout) noexcept;
  Code receive(uint64_t consumer_version, Nanoseconds timeout, IncomingFrame* frame_out,
               uint64_t* token_out) noexcept;
  Code release(uint64_t token) noexcept;
  Status explain(Code code) const;

 private:
  PortObject(std::shared_ptr<MeshSession> session, const PortSettings& settings);
  Status attach();

  bool ready() noexcept override;
  uint64_t key() const noexcept override { return settings_.key; }
  void read_counters(std::vector<Counter>& out) const override;
  void note_received(const IncomingFrame& frame) noexcept;

  struct Totals {  // one writer, the port's caller; any reader
    std::atomic<uint64_t> frames_sent{0}, bytes_sent{0}, frames_received{0}, bytes_received{0};
    std::atomic<uint64_t> refused{0}, blocked_ns{0};
    std::array<std::atomic<uint64_t>, kStalenessBuckets> staleness{};
  };

  std::shared_ptr<MeshSession> session_;
  const PortSettings settings_;
  PortFailure failure_;
  PortQueue queue_;
  std::unique_ptr<FramePolicy> policy_;
  CoreWaiter waiter_;
  std::unique_ptr<LentFrames> lent_;
  bool wants_room_ = false;  // a send was refused since the last one that was not
  bool attached_ = false;
  Totals totals_;
};

}  // namespace asyncmesh::core
