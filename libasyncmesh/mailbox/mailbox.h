// A mailbox: sparse deltas from every member of a group to every other (by default the replicas of
// one stage).
//
// Policy over a Port with one outbound and one inbound lane per other member. A delta is {round,
// step, encoding, count, weight} plus encoded values; the subset is implied by the round number
// (both sides derive it from the shared seed). fifo: nothing is lost, nothing is overwritten;
// back-pressure is kAgain. A frame that is not a delta (its meta contradicts itself) is released,
// counted in `malformed` and never seen.
//
// Members are group ranks 0..size-1 (position in `members`), `self` among them. Threads: as Port:
// one application thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/kernels.h"
#include "lane/port.h"

namespace asyncmesh {

enum class DeltaKind : uint8_t { kRound = 1, kMean = 2, kUser = 3, kFinish = 4 };

// Travels in FrameHeader::meta (little endian, 40 bytes; layout pinned in mailbox.cc).
struct DeltaMeta {
  DeltaKind kind = DeltaKind::kRound;  // travels as FrameHeader::kind
  kernels::Encoding encoding = kernels::Encoding::kFloat32;
  uint32_t piece = 0;  // of a delta that is cut into several frames
  uint32_t pieces = 1;
  uint64_t round = 0;   // round, or number of the blocking mean
  uint64_t step = 0;    // sender's call counter
  uint64_t count = 0;   // values in this frame
  float weight = 1.0F;  // of the sender in the mean, finite, >= 0; 0: contributes nothing
  uint8_t flags = 0;    // DeltaFlag
};
enum DeltaFlag : uint8_t { kLastRound = 1 };  // the sender starts no further round after this one

struct Delta {
  DeltaMeta meta;
  const std::byte* values = nullptr;  // lent until release; 64-byte aligned
  uint32_t bytes = 0;                 // of values; at least encoded_bytes(encoding, count)
  uint32_t member = 0;                // sender's group rank
  Received received;                  // for release
};

struct MailboxConfig {
  std::vector<Rank> members;  // ascending; includes self
  Rank self = 0;
  uint32_t slots = 4;
  uint32_t payload_bytes = 0;  // largest encoded payload of one frame
  bool checksum = false;
};

class Mailbox {
 public:
  Mailbox(const MailboxConfig& config, const Clock& clock, Submitter& submitter);

  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t self() const { return self_; }
  Rank rank_of(uint32_t member) const { return members_[member]; }
  // Self is always alive; a lost or departed member never again. After false, every delta that will
  // ever come from the member can be taken.
  bool alive(uint32_t member) const noexcept;
  uint32_t payload_bytes() const { return payload_bytes_; }

  struct Post {
    Port::Claim claim;
    std::byte* values = nullptr;  // payload_bytes() to pack into
  };
  // To every live other member that is not muted. kAgain: the lane of one of them is full, or no
  // buffer is free. Ok with no such member as well (the post goes nowhere). Exactly one commit or
  // abandon must follow.
  Code claim(Post* post_out) noexcept;
  void commit(const Post& post, const DeltaMeta& meta, uint32_t bytes) noexcept;
  void abandon(const Post& post) noexcept;
  // Later posts skip it (a member that finished); its frames still arrive.
  void mute(uint32_t member) noexcept;

  Code take(Delta* delta_out) noexcept;  // kAgain: none. Per member in the order posted
  void release(const Delta& delta) noexcept;
  uint64_t malformed() const noexcept { return malformed_; }  // frames dropped by take

  Port& port() { return *port_; }

 private:
  uint32_t lane_of(uint32_t member) const noexcept { return member < self_ ? member : member - 1; }
  uint32_t member_of(uint32_t lane) const noexcept { return lane < self_ ? lane : lane + 1; }

  std::vector<Rank> members_;
  uint32_t self_;
  uint32_t payload_bytes_;
  uint64_t malformed_ = 0;
  std::unique_ptr<Port> port_;
};

}  // namespace asyncmesh
