// The two ends of a lane as the seam sees them, with frames of known contents: what LaneWriter and
// LaneReader are for the library, reduced to what a test of a transport needs. Contents and length
// of a frame follow from (key, sequence) alone, so the reader can check them without talking to the
// writer. Each end belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace asyncmesh::conformance {

using transport::Credit;
using transport::Frame;
using transport::Inbound;
using transport::LaneGeometry;
using transport::Outbound;
using transport::Sequence;
using transport::Transport;

void fill_frame(uint64_t key, Sequence sequence, std::byte* data, uint32_t bytes);
bool frame_matches(uint64_t key, Sequence sequence, const std::byte* data, uint32_t bytes);
// Some length in 0 .. slot_bytes, both included.
uint32_t frame_length(uint64_t key, Sequence sequence, uint32_t slot_bytes);

class SeamWriter final : public transport::OutboundSink {
 public:
  SeamWriter(uint64_t key, const LaneGeometry& geometry, Sequence first);

  Status attach(Transport& transport);  // registers the staging memory
  std::shared_ptr<const void> share_staging() const { return memory_; }  // outlives the transport
  void open(std::unique_ptr<Outbound> outbound) { outbound_ = std::move(outbound); }
  void close() { outbound_.reset(); }

  bool can_send() const;
  Code send(uint32_t bytes);  // the next sequence; can_send() holds
  uint32_t send_up_to(
      Sequence last);  // frames of frame_length bytes, while credit lasts; returns how many

  Sequence next() const { return next_; }
  Sequence sent() const { return sent_; }  // on_sent has come for first .. sent
  const Credit& credit() const { return credit_; }
  const std::string& error() const { return error_; }  // empty: nothing was wrong

  void on_sent(Sequence sequence) override;
  void on_credit(const Credit& credit) override;

 private:
  uint64_t key_;
  LaneGeometry geometry_;
  std::shared_ptr<std::vector<std::byte>> memory_;
  std::byte* staging_ = nullptr;  // memory_, aligned
  uint32_t staging_id_ = 0;
  std::vector<bool> done_;  // on_sent has come, by sequence % slots
  Sequence next_;
  Sequence sent_;
  Credit credit_;
  std::string error_;
  std::unique_ptr<Outbound> outbound_;
};

struct Arrival {
  Sequence sequence = 0;
  std::byte* slot = nullptr;
  uint32_t bytes = 0;
};

class SeamReader final : public transport::InboundSink {
 public:
  SeamReader(uint64_t key, const LaneGeometry& geometry, Sequence first);

  void open(std::unique_ptr<Inbound> inbound) { inbound_ = std::move(inbound); }
  void close() { inbound_.reset(); }
  Inbound& inbound() { return *inbound_; }
  bool is_open() const { return inbound_ != nullptr; }

  // Checks the frames that came (order, contents, length as frame_length says), releases all but
  // the newest `keep` and sends credit. Returns how many frames and credits moved.
  uint32_t take(uint32_t keep);
  void discard();  // releases what came, unchecked, and sends credit

  const std::vector<Arrival>& arrivals() const { return arrivals_; }  // since the last take
  Sequence received() const { return received_; }
  Sequence released() const { return released_; }
  bool intact(const Arrival& arrival, uint32_t bytes) const;  // it holds `bytes` bytes of its frame
  const std::string& error() const { return error_; }

  void on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) override;

 private:
  void release_oldest();
  bool send_credit();

  uint64_t key_;
  LaneGeometry geometry_;
  Sequence received_;  // on_frame has come for first .. received
  Sequence released_;
  Credit told_;
  std::vector<Arrival> arrivals_;
  std::string error_;
  std::unique_ptr<Inbound> inbound_;
};

}  // namespace asyncmesh::conformance
