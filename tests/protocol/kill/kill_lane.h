// One end of one lane between two processes, with what a link needs beside it: what the peer's
// process runs, and what the test runs against it.
//
// The reader leads: it opens its side for an epoch and sends {epoch, next sequence, offer}; the
// writer follows, and sends again from that sequence on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/seam_lane.h"
#include "tests/protocol/kill/peer_process.h"
#include "transport/transport.h"

namespace asyncmesh::protocol {

class KillLane final : public transport::LinkSink {
 public:
  KillLane(transport::Transport& transport, const PeerOrders& orders, int fd);

  bool introduce();  // exchanges the transports' addresses
  // Next epoch, or the first: closes what was open and opens anew. The writer waits for the
  // reader's message. False: the other end is closed, or something was refused (see error()).
  bool open();
  void close();  // lane and link
  void step();   // writes or reads what is possible, and progress
  void take() {
    if (reader_ != nullptr) reader_->take(0);
  }

  transport::Sequence received() const { return reader_ == nullptr ? 0 : reader_->received(); }
  transport::Sequence sent() const { return writer_ == nullptr ? 0 : writer_->next() - 1; }
  bool down() const { return downs_ > 0; }
  uint32_t downs() const { return downs_; }
  std::string error() const;

  void on_link_down(transport::Rank peer, transport::Epoch epoch, const Status& why) override;

 private:
  struct Opening {
    transport::Epoch epoch = 0;
    transport::Sequence next = 1;
  };
  bool open_reader();
  bool open_writer();
  bool open_link();

  transport::Transport& transport_;
  PeerOrders orders_;
  transport::LaneGeometry geometry_;
  int fd_;
  Role role_;
  transport::Epoch epoch_ = 0;
  transport::Sequence next_ = 1;
  uint32_t downs_ = 0;
  std::string error_;
  Bytes peer_address_;
  std::unique_ptr<transport::Link> link_;
  std::unique_ptr<conformance::SeamWriter> writer_;
  std::unique_ptr<conformance::SeamReader> reader_;
  std::vector<std::unique_ptr<conformance::SeamWriter>> retired_;
};

}  // namespace asyncmesh::protocol
