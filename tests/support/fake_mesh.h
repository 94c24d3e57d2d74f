// Ports of several ranks in one thread, joined lane by lane through FakeWires and pumped by hand:
// what the core's link managers do, without links.
//
//      DirectSubmitter submitter;
//      Mailbox a({{0, 1}, 0, ...}, clock, submitter), b({{0, 1}, 1, ...}, clock, submitter);
//      FakeMesh mesh;
//      mesh.attach(0, a.port());
//      mesh.attach(1, b.port());
//      mesh.connect();
//      ... post ... mesh.pump(); ... take ...
//
// One FakeMesh joins one port per rank (a job with two mailboxes uses two). The mesh is destroyed
// before the ports. After `connect`, `pump` does not allocate.
#pragma once

#include <memory>
#include <vector>

#include "base/mpsc_ring.h"
#include "lane/port.h"
#include "support/fake_wire.h"

namespace asyncmesh::test {

// Executes at once: application and progress owner are one thread.
class DirectSubmitter final : public Submitter {
 public:
  void submit(const Submission& submission) noexcept override {
    submission.port->execute_st(submission);
  }
};

// Executes when the owner drains: for tests of what happens between the two, and with two threads.
class QueuedSubmitter final : public Submitter {
 public:
  explicit QueuedSubmitter(size_t capacity) : ring_(capacity) {}
  void submit(const Submission& submission) noexcept override {
    if (!ring_.push(submission)) overflowed_.store(true, std::memory_order_relaxed);
  }
  uint32_t drain_st() {
    uint32_t events = 0;
    Submission submission;
    for (; ring_.pop(&submission); ++events) submission.port->execute_st(submission);
    return events;
  }
  bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

 private:
  MpscRing<Submission> ring_;
  std::atomic<bool> overflowed_{false};
};

class FakeMesh {
 public:
  explicit FakeMesh(bool sent_at_once = true) : sent_at_once_(sent_at_once) {}

  void attach(Rank rank, Port& port);
  // Opens every lane that is not open and whose ranks are both alive, with a new epoch.
  void connect();
  // Moves frames and credit until nothing moves; returns events.
  uint32_t pump();
  // Closes the lanes between a and b, both ways; what was in flight is lost.
  void cut(Rank a, Rank b);
  void cut_all();
  // `rank` is gone: its lanes are cut, and all others are told.
  void kill(Rank rank);
  // The lane from `from` to `to`, for manual moves; nullptr where there is none or it is closed.
  FakeWire* wire(Rank from, Rank to);
  uint32_t violations() const;

 private:
  struct Member {
    Rank rank;
    Port* port;
    bool alive;
  };
  struct Lane {
    Member* from;
    Member* to;
    LaneWriter* writer;
    LaneReader* reader;
    std::unique_ptr<FakeWire> wire;
  };
  void close(Lane& lane);
  void build();

  bool sent_at_once_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Lane> lanes_;
  uint32_t closed_violations_ = 0;
};

}  // namespace asyncmesh::test
