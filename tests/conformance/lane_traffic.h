// The application on both ends of a port: sends numbered frames of random length, and checks that
// every frame of the other side comes exactly once, in order and undamaged, whatever happens to the
// link. Received frames are held for a while and released in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "lane/port.h"

namespace asyncmesh::conformance {

class LaneTraffic {
 public:
  // Sends frames 1 .. total of stream `own_key`, expects frames 1 .. total of stream `peer_key`.
  LaneTraffic(Port& port, uint64_t own_key, uint64_t peer_key, uint64_t total);

  uint32_t step();  // returns the frames moved
  bool done() const { return sent_ == total_ && received_ == total_ && held_.empty(); }
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  const std::string& error() const { return error_; }

 private:
  bool send();
  bool receive();
  void release_some();

  Port& port_;
  const uint64_t own_key_;
  const uint64_t peer_key_;
  const uint64_t total_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  std::vector<Received> held_;
  CounterRandom random_;
  std::string error_;
};

}  // namespace asyncmesh::conformance
