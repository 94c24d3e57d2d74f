// Through the library: a port with one lane each way, its submission ring, a transport, progress by
// hand. Payloads are not checksummed, headers are.
#include <fmt/core.h>

#include "base/clock.h"
#include "base/spsc_ring.h"
#include "lane/port.h"
#include "perf/micro/lane_bench_pattern.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::bench {
namespace {

constexpr Nanoseconds kCreditQuiet = 1'000'000;
constexpr uint32_t kStepsPerClock = 256;
constexpr uint32_t kStepsPerCredit = 4;

class LanePattern final : public Pattern, private Submitter, private transport::LinkSink {
 public:
  LanePattern(const ProcessPair& pair, const Medium& medium, const Shape& shape);

  void ping_pong(uint32_t rounds) override;
  void stream(uint32_t frames) override;
  std::string describe() const override { return link_->describe(); }

 private:
  void submit(const Submission& submission) noexcept override { submissions_.push(submission); }
  void on_link_down(Rank, transport::Epoch, const Status& why) override {
    give_up("link", why.text().c_str());
  }
  void open(const ProcessPair& pair);
  void step();
  void post(uint32_t bytes);
  Received take();

  bool leader_;
  uint32_t bytes_;
  SteadyClock clock_;
  Nanoseconds now_ = 0;
  uint32_t steps_ = 0;
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
  SpscRing<Submission> submissions_{256};
  // Creation order; a transport outlives links and lanes, staging memory outlives the transport.
  std::shared_ptr<StagingPool> staging_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Link> link_;
  std::unique_ptr<Port> port_;
};

LanePattern::LanePattern(const ProcessPair& pair, const Medium& medium, const Shape& shape)
    : leader_(pair.leader()), bytes_(shape.bytes), now_(clock_.now()) {
  transport::UcxConfig config;
  config.tls = medium.tls;
  auto transport = medium.rma ? make_ucx_rma(config, clock_) : make_ucx_tag(config, clock_);
  if (!transport.ok()) give_up(medium.name.c_str(), transport.status().text().c_str());
  transport_ = std::move(transport.value());
  PortConfig port;
  port.outbound = {1};
  port.inbound = {1};
  port.slots = shape.window;
  port.payload_bytes = shape.bytes;
  port_ = std::make_unique<Port>(port, clock_, static_cast<Submitter&>(*this));
  staging_ = port_->share_staging();
  open(pair);
}

void LanePattern::open(const ProcessPair& pair) {
  const Bytes address = pair.exchange(transport_->address());
  auto link = transport_->open_link(1, 1, address, *this);
  auto staging = transport_->register_staging(staging_->memory());
  if (!link.ok() || !staging.ok())
    give_up("open_link", (link.ok() ? staging.status() : link.status()).text().c_str());
  link_ = std::move(link.value());
  auto inbound = link_->open_inbound(0, port_->geometry(), 1, port_->reader_st(0));
  if (!inbound.ok()) give_up("open_inbound", inbound.status().text().c_str());
  const Bytes offer = pair.exchange(inbound.value()->offer());
  port_->reader_st(0).open_st(std::move(inbound.value()));
  auto outbound = link_->open_outbound(0, port_->geometry(), offer, port_->writer_st(0));
  if (!outbound.ok()) give_up("open_outbound", outbound.status().text().c_str());
  if (port_->writer_st(0).open_st(std::move(outbound.value()), 1, staging.value()) != Code::kOk) {
    give_up("open_st", "refused");
  }
}

void LanePattern::step() {
  for (Submission submission; submissions_.pop(&submission);) port_->execute_st(submission);
  if ((++steps_ & (kStepsPerClock - 1)) == 0) now_ = clock_.now();
  // Half of the slots may wait for it: a frame is not held up by a look at every step.
  if ((steps_ & (kStepsPerCredit - 1)) == 0) {
    port_->reader_st(0).flush_credit_st(now_, kCreditQuiet);
  }
  transport_->progress();
}

void LanePattern::post(uint32_t bytes) {
  Port::Claim claim;
  while (port_->claim(0, &claim) != Code::kOk) step();
  mark_payload(claim.payload, ++posted_);
  port_->commit(claim, 0, bytes, 1);
  step();
}

Received LanePattern::take() {
  Received received;
  while (port_->receive(&received) != Code::kOk) step();
  check_payload(received.payload, ++taken_);
  return received;
}

// A frame is released after its answer has left, here as in the bare patterns.
void LanePattern::ping_pong(uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    if (leader_) post(bytes_);
    const Received received = take();
    if (!leader_) post(bytes_);
    port_->release(received);
  }
}

// The end is told by a small frame: it has left when post returns, while a rendezvous would need
// the follower's progress for longer than the follower stays.
void LanePattern::stream(uint32_t frames) {
  for (uint32_t frame = 0; frame < frames; ++frame) {
    if (leader_) {
      post(bytes_);
    } else {
      port_->release(take());
    }
  }
  if (leader_) {
    port_->release(take());
  } else {
    post(8);
  }
}

}  // namespace

std::unique_ptr<Pattern> make_lane_pattern(const ProcessPair& pair, const Medium& medium,
                                           const Shape& shape) {
  return std::make_unique<LanePattern>(pair, medium, shape);
}

}  // namespace asyncmesh::bench
