// What a port object does with frames: a channel or a mailbox, behind one face.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "channel/channel.h"
#include "lane/port.h"
#include "mailbox/mailbox.h"

namespace asyncmesh::core {

enum class FrameKind : uint8_t { kTrain = 1, kEvaluate = 2, kControl = 3 };

struct OutgoingFrame {
  FrameKind kind = FrameKind::kTrain;
  const void* data = nullptr;
  uint32_t bytes = 0;
  uint64_t micro_batch = 0;  // mailbox: round
  uint64_t version = 0;      // mailbox: step
  uint32_t dtype = 0;
  uint32_t dimensions = 0;
  std::array<uint32_t, 4> shape{};
};

struct IncomingFrame {
  FrameKind kind = FrameKind::kTrain;
  const std::byte* data = nullptr;
  uint32_t bytes = 0;
  uint64_t micro_batch = 0;
  uint64_t version = 0;
  uint32_t dtype = 0;
  uint32_t dimensions = 0;
  std::array<uint32_t, 4> shape{};
  Rank source = 0;
  int64_t staleness = 0;
  Received received;  // for release
};

// Threads: the port's application thread.
class FramePolicy {
 public:
  virtual ~FramePolicy() = default;
  virtual Port& port() = 0;
  virtual uint32_t payload_bytes() const = 0;
  virtual Code send(const OutgoingFrame& frame) noexcept = 0;
  virtual Code receive(uint64_t consumer_version, IncomingFrame* frame_out) noexcept = 0;
  virtual void release(const Received& received) noexcept = 0;
  virtual bool readable() const noexcept = 0;
  virtual bool writable() const noexcept = 0;
};

std::unique_ptr<FramePolicy> make_channel_policy(const ChannelConfig& config, const Clock& clock,
                                                 Submitter& submitter);
std::unique_ptr<FramePolicy> make_mailbox_policy(MailboxConfig config, const Clock& clock,
                                                 Submitter& submitter);

}  // namespace asyncmesh::core
