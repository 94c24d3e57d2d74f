#include "support/fake_mesh.h"

#include <utility>

namespace asyncmesh::test {
namespace {

uint32_t index_of(const std::vector<Rank>& ranks, Rank rank) {
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank) return i;
  }
  return kAllLanes;
}

}  // namespace

void FakeMesh::attach(Rank rank, Port& port) {
  members_.push_back(std::make_unique<Member>(Member{rank, &port, true}));
}

void FakeMesh::build() {
  for (const auto& from : members_) {
    for (const auto& to : members_) {
      const uint32_t out = index_of(from->port->config().outbound, to->rank);
      const uint32_t in = index_of(to->port->config().inbound, from->rank);
      if (out == kAllLanes || in == kAllLanes) continue;
      lanes_.push_back(Lane{from.get(), to.get(), &from->port->writer_st(out),
                            &to->port->reader_st(in), nullptr});
    }
  }
}

void FakeMesh::connect() {
  if (lanes_.empty()) build();
  for (Lane& lane : lanes_) {
    if (lane.wire != nullptr || !lane.from->alive || !lane.to->alive) continue;
    const Sequence next = lane.reader->resume_st();
    lane.wire = std::make_unique<FakeWire>(lane.reader->geometry(), next, sent_at_once_);
    lane.reader->open_st(lane.wire->make_inbound(*lane.reader));
    if (lane.writer->open_st(lane.wire->make_outbound(*lane.writer), next, 0) != Code::kOk) {
      ++closed_violations_;
    }
  }
}

uint32_t FakeMesh::pump() {
  uint32_t total = 0;
  for (uint32_t events = 1; events > 0; total += events) {
    events = 0;
    for (Lane& lane : lanes_) {
      if (lane.wire == nullptr) continue;
      events += lane.wire->pump();
      events += lane.reader->flush_credit_st(0, 0);
    }
  }
  return total;
}

void FakeMesh::close(Lane& lane) {
  if (lane.wire == nullptr) return;
  closed_violations_ += lane.wire->violations();
  lane.writer->close_st();
  lane.reader->close_st();
  lane.wire.reset();
}

void FakeMesh::cut(Rank a, Rank b) {
  for (Lane& lane : lanes_) {
    const bool forth = lane.from->rank == a && lane.to->rank == b;
    const bool back = lane.from->rank == b && lane.to->rank == a;
    if (forth || back) close(lane);
  }
}

void FakeMesh::cut_all() {
  for (Lane& lane : lanes_) close(lane);
}

void FakeMesh::kill(Rank rank) {
  for (Lane& lane : lanes_) {
    if (lane.from->rank == rank || lane.to->rank == rank) close(lane);
  }
  for (const auto& member : members_) {
    if (member->rank == rank) {
      member->alive = false;
    } else {
      member->port->fail_peer_st(rank);
    }
  }
}

FakeWire* FakeMesh::wire(Rank from, Rank to) {
  for (Lane& lane : lanes_) {
    if (lane.from->rank == from && lane.to->rank == to) return lane.wire.get();
  }
  return nullptr;
}

uint32_t FakeMesh::violations() const {
  uint32_t total = closed_violations_;
  for (const Lane& lane : lanes_) {
    if (lane.wire != nullptr) total += lane.wire->violations();
  }
  return total;
}

}  // namespace asyncmesh::test
