#include "tests/conformance/seam_pair.h"

#include <algorithm>

namespace asyncmesh::conformance {

SeamPair::SeamPair(const Backend& backend, bool real_clock)
    : clock_(real_clock || backend.real_time) {
  for (uint32_t side = 0; side < 2; ++side) {
    auto made = backend.make(clock_, side);
    if (made.ok()) {
      ends_[side].transport = std::move(made.value());
    } else {
      ready_ = made.status();
    }
  }
}

Status SeamPair::open_links(Epoch epoch) {
  for (uint32_t side = 0; side < 2; ++side) {
    auto link = transport(side).open_link(1 - side, epoch, transport(1 - side).address(),
                                          ends_[side].recorder);
    if (!link.ok()) return link.status();
    ends_[side].link = std::move(link.value());
  }
  return Status();
}

void SeamPair::destroy_transport(uint32_t side) {
  close_link(side);
  ends_[side].transport.reset();
}

Result<std::unique_ptr<SeamLane>> SeamPair::open_lane(uint32_t writer_side, LaneId id,
                                                      const LaneGeometry& geometry, Sequence first,
                                                      uint64_t key) {
  auto lane = std::make_unique<SeamLane>(key, geometry, first);
  ASYNCMESH_RETURN_IF_ERROR(lane->writer.attach(transport(writer_side)));
  ends_[writer_side].stagings.push_back(lane->writer.share_staging());
  auto inbound = link(1 - writer_side).open_inbound(id, geometry, first, lane->reader);
  if (!inbound.ok()) return inbound.status();
  lane->reader.open(std::move(inbound.value()));
  auto outbound =
      link(writer_side).open_outbound(id, geometry, lane->reader.inbound().offer(), lane->writer);
  if (!outbound.ok()) return outbound.status();
  lane->writer.open(std::move(outbound.value()));
  return lane;
}

uint32_t SeamPair::step(uint32_t side) {
  return ends_[side].transport == nullptr ? 0 : ends_[side].transport->progress();
}

void SeamPair::idle() {
  Nanoseconds next = kNever;
  for (const End& end : ends_) {
    if (end.transport != nullptr) next = std::min(next, end.transport->next_deadline());
  }
  clock_.idle(next);
}

bool SeamPair::pump_until(const std::function<bool()>& done) {
  const WallDeadline deadline(20 * kSecond);
  while (!done()) {
    if (deadline.passed()) return false;
    if (step(0) + step(1) == 0) idle();
  }
  return true;
}

void SeamPair::pump(uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    if (step(0) + step(1) == 0) idle();
  }
}

void SeamPair::pump_side(uint32_t side, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    if (step(side) == 0) idle();
  }
}

}  // namespace asyncmesh::conformance
