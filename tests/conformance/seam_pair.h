// Two transports that face each other in one process, their links, and lanes between them, driven
// by hand.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "tests/conformance/backend.h"
#include "tests/conformance/seam_lane.h"
#include "tests/conformance/test_clock.h"

namespace asyncmesh::conformance {

using transport::Epoch;
using transport::LaneId;
using transport::Link;
using transport::Rank;

struct LinkDown {
  Rank peer = 0;
  Epoch epoch = 0;
  Code code = Code::kOk;
};

class LinkRecorder final : public transport::LinkSink {
 public:
  void on_link_down(Rank peer, Epoch epoch, const Status& why) override {
    downs.push_back({peer, epoch, why.code()});
  }
  std::vector<LinkDown> downs;
};

// One lane with both its ends.
struct SeamLane {
  SeamLane(uint64_t key, const LaneGeometry& geometry, Sequence first)
      : writer(key, geometry, first), reader(key, geometry, first) {}
  SeamWriter writer;
  SeamReader reader;
  std::string error() const { return writer.error() + reader.error(); }
};

class SeamPair {
 public:
  // `real_clock`: for tests with threads, whatever the backend needs.
  explicit SeamPair(const Backend& backend, bool real_clock = false);

  Status ready() const { return ready_; }  // both transports were made
  Transport& transport(uint32_t side) { return *ends_[side].transport; }
  Link& link(uint32_t side) { return *ends_[side].link; }
  LinkRecorder& downs(uint32_t side) { return ends_[side].recorder; }

  Status open_links(Epoch epoch);
  void close_link(uint32_t side) { ends_[side].link.reset(); }
  void destroy_transport(uint32_t side);  // closes its link first
  // A lane that `writer_side` writes. `key` seeds its contents.
  Result<std::unique_ptr<SeamLane>> open_lane(uint32_t writer_side, LaneId id,
                                              const LaneGeometry& geometry, Sequence first = 1,
                                              uint64_t key = 1);

  // Progress of both ends until `done`, or false after 20 s of wall time.
  bool pump_until(const std::function<bool()>& done);
  void pump(uint32_t rounds);  // of both ends
  void pump_side(uint32_t side, uint32_t rounds);
  TestClock& clock() { return clock_; }

 private:
  struct End {
    std::vector<std::shared_ptr<const void>> stagings;
    std::unique_ptr<Transport> transport;
    LinkRecorder recorder;
    std::unique_ptr<Link> link;
  };
  uint32_t step(uint32_t side);
  void idle();

  TestClock clock_;
  std::array<End, 2> ends_;
  Status ready_;
};

}  // namespace asyncmesh::conformance
