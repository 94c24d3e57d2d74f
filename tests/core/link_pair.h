// Two link managers driven by hand: loopback transports, a control channel that is a queue, and a
// fake clock. What a test may do to the control channel is hold it.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/link_manager.h"
#include "core/operation.h"
#include "core/port_failure.h"
#include "transport/faulty/faulty.h"
#include "transport/loopback/loopback.h"

namespace asyncmesh::core::test {

// Executes at once: application and owner are one thread.
class DirectSubmitter final : public Submitter {
 public:
  void submit(const Submission& submission) noexcept override {
    submission.port->execute_st(submission);
  }
};

class LinkPair {
 public:
  static constexpr Nanoseconds kPeerTimeout = 1'600'000'000;

  LinkPair() : LinkPair(nullptr) {}
  explicit LinkPair(const transport::FaultyConfig* faults) {
    for (Rank rank = 0; rank < 2; ++rank) {
      Side& side = sides_[rank];
      side.control.pair = this;
      side.control.self = rank;
      side.transport = transport::make_loopback();
      if (faults != nullptr) {
        transport::FaultyConfig config = *faults;
        config.seed += rank;
        side.transport = transport::make_faulty(std::move(side.transport), config, clock);
      }
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      Side& side = sides_[rank];
      const auto address = sides_[1 - rank].transport->address();
      std::vector<Route> routes(2);
      routes[1 - rank] = {side.transport.get(), {address.begin(), address.end()}, {}};
      const LinkEnvironment environment{clock, logger, side.control, LinkTimers::from(kPeerTimeout),
                                        rank};
      side.links = std::make_unique<LinkManager>(environment, std::move(routes),
                                                 [&side] { return side.transport->progress(); });
    }
  }
  ~LinkPair() {
    for (Side& side : sides_) side.links.reset();
    for (Side& side : sides_) side.transport.reset();
  }

  LinkManager& links(Rank rank) { return *sides_[rank].links; }
  const Link& link(Rank rank) { return sides_[rank].links->link_st(1 - rank); }

  // One round on both sides; returns the number of events.
  uint32_t step() {
    uint32_t events = 0;
    for (Side& side : sides_) events += side.transport->progress();
    for (Side& side : sides_) events += side.links->progress_st(clock.now());
    events += deliver();
    return events;
  }
  // Until nothing moves.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      clock.advance(50'000);
      quiet = step() == 0 ? quiet + 1 : 0;
    }
  }
  // Lets `duration` pass in steps of a millisecond.
  void pass(Nanoseconds duration) {
    for (Nanoseconds past = 0; past < duration; past += 1'000'000) {
      clock.advance(1'000'000);
      step();
    }
  }

  FakeClock clock;
  Logger logger;
  bool hold_control = false;
  std::vector<std::string> spoken;  // "0:1" = rank 0 sent a message of type 1

 private:
  struct Control final : ControlChannel {
    void send_st(Rank, MessageType type, const Body& body) override {
      pair->spoken.push_back(std::to_string(self) + ":" + std::to_string(static_cast<int>(type)));
      out.emplace_back(type, body);
    }
    LinkPair* pair = nullptr;
    Rank self = 0;
    std::deque<std::pair<MessageType, Body>> out;
  };
  struct Side {
    Control control;
    std::unique_ptr<transport::Transport> transport;
    std::unique_ptr<LinkManager> links;
  };

  uint32_t deliver() {
    if (hold_control) return 0;
    uint32_t count = 0;
    for (Rank rank = 0; rank < 2; ++rank) {
      auto out = std::move(sides_[rank].control.out);
      sides_[rank].control.out.clear();
      for (const auto& [type, body] : out) {
        sides_[1 - rank].links->on_message_st(rank, type, body);
        ++count;
      }
    }
    return count;
  }

  Side sides_[2];
};

// One port with one lane, and what happened to it.
struct TestPort {
  TestPort(LinkPair& pair, Rank self, bool writer, uint32_t slots = 4, uint32_t payload = 256)
      : links(pair.links(self)) {
    PortConfig config;
    (writer ? config.outbound : config.inbound) = {1 - self};
    config.slots = slots;
    config.payload_bytes = payload;
    config.checksum = true;
    port = std::make_shared<Port>(config, pair.clock, submitter);
  }
  ~TestPort() { close(); }

  Status open(PortKey key = {PortKind::kChannel, 7}) {
    Status status = links.attach_st(key, *port, failure);
    attached = status.ok();
    return status;
  }
  void close() {
    if (attached) links.detach_st(*port, port);
    attached = false;
  }
  Code send(uint64_t value) {
    Port::Claim claim;
    if (const Code code = port->claim(0, &claim); code != Code::kOk) return code;
    std::memset(claim.meta, 0, kMetaBytes);
    std::memcpy(claim.payload, &value, sizeof value);
    port->commit(claim, 0, sizeof value, 1);
    return Code::kOk;
  }
  Code receive(uint64_t* value_out) {
    Received received;
    if (const Code code = port->receive(&received); code != Code::kOk) return code;
    std::memcpy(value_out, received.payload, sizeof *value_out);
    port->release(received);
    return Code::kOk;
  }

  LinkManager& links;
  DirectSubmitter submitter;
  PortFailure failure;
  std::shared_ptr<Port> port;
  bool attached = false;
};

}  // namespace asyncmesh::core::test
