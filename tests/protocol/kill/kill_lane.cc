#include "tests/protocol/kill/kill_lane.h"

#include <cstring>
#include <limits>
#include <utility>

namespace asyncmesh::protocol {
namespace {

constexpr transport::LaneId kLane = 7;
constexpr uint64_t kContents = 99;

}  // namespace

KillLane::KillLane(transport::Transport& transport, const PeerOrders& orders, int fd)
    : transport_(transport),
      orders_(orders),
      geometry_{orders.slots, orders.slot_bytes},
      fd_(fd),
      role_(orders.role) {}

bool KillLane::introduce() {
  if (!send_message(fd_, transport_.address())) return false;
  peer_address_ = receive_message(fd_);
  return !peer_address_.empty();
}

bool KillLane::open() { return role_ == Role::kReader ? open_reader() : open_writer(); }

bool KillLane::open_link() {
  auto link = transport_.open_link(1, epoch_, peer_address_, *this);
  if (!link.ok()) {
    error_ = link.status().text();
    return false;
  }
  link_ = std::move(link.value());
  return true;
}

bool KillLane::open_reader() {
  if (reader_ != nullptr) next_ = reader_->received() + 1;
  close();
  ++epoch_;
  if (!open_link()) return false;
  reader_ = std::make_unique<conformance::SeamReader>(kContents, geometry_, next_);
  auto inbound = link_->open_inbound(kLane, geometry_, next_, *reader_);
  if (!inbound.ok()) {
    error_ = inbound.status().text();
    return false;
  }
  const Opening opening{epoch_, next_};
  Bytes message(sizeof(opening));
  std::memcpy(message.data(), &opening, sizeof(opening));
  const auto offer = inbound.value()->offer();
  message.insert(message.end(), offer.begin(), offer.end());
  reader_->open(std::move(inbound.value()));
  return send_message(fd_, message);
}

bool KillLane::open_writer() {
  const Bytes message = receive_message(fd_);
  Opening opening;
  if (message.size() <= sizeof(opening)) return false;
  std::memcpy(&opening, message.data(), sizeof(opening));
  close();
  epoch_ = opening.epoch;
  if (!open_link()) return false;
  auto writer = std::make_unique<conformance::SeamWriter>(kContents, geometry_, opening.next);
  const Status attached = writer->attach(transport_);
  auto outbound =
      link_->open_outbound(kLane, geometry_, std::span(message).subspan(sizeof(opening)), *writer);
  if (!attached.ok() || !outbound.ok()) {
    error_ = attached.ok() ? outbound.status().text() : attached.text();
    return false;
  }
  writer->open(std::move(outbound.value()));
  writer_ = std::move(writer);
  return true;
}

// The memory of a writer stays: UCX may read it as long as the transport lives.
void KillLane::close() {
  if (reader_ != nullptr) reader_->close();
  if (writer_ != nullptr) {
    writer_->close();
    retired_.push_back(std::move(writer_));
  }
  link_.reset();
}

void KillLane::step() {
  if (writer_ != nullptr) writer_->send_up_to(std::numeric_limits<transport::Sequence>::max());
  transport_.progress();
  take();
}

std::string KillLane::error() const {
  std::string all = error_;
  if (reader_ != nullptr) all += reader_->error();
  if (writer_ != nullptr) all += writer_->error();
  return all;
}

void KillLane::on_link_down(transport::Rank, transport::Epoch, const Status&) { ++downs_; }

}  // namespace asyncmesh::protocol
