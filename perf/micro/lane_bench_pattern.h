// What is measured: the same exchange, once with lanes of this library and once with bare UCP
// calls.
//
// Both processes hold the same pattern and call it in step; the leader measures. A ping-pong round
// is a frame there and a frame back. A stream goes from the leader to the follower, with at most
// `window` frames that the follower has not released, and ends when the follower has all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "perf/micro/lane_bench_pair.h"

namespace asyncmesh::bench {

inline constexpr uint32_t kLatencyWindow = 16;
inline constexpr uint32_t kStreamWindow = 4;

class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual void ping_pong(uint32_t rounds) = 0;
  virtual void stream(uint32_t frames) = 0;
  virtual std::string describe() const = 0;
};

// Each frame says which one it is in the first word of its payload; whoever takes it looks there.
inline void mark_payload(std::byte* payload, uint64_t number) {
  std::memcpy(payload, &number, sizeof(number));
}
inline void check_payload(const std::byte* payload, uint64_t number) {
  uint64_t word = 0;
  std::memcpy(&word, payload, sizeof(word));
  if (word != number) give_up("payload", "a frame is not the one that was due");
}

struct Shape {
  uint32_t bytes = 0;  // of payload
  uint32_t window = 0;
};

struct Medium {
  std::string name;  // "tag/tcp", "tag/shm", "rma/shm"
  std::string tls;   // "tcp" or "shm"
  bool rma = false;
};

// The bare frames, too, have a payload of `bytes`, and carry the frame header's 56 bytes besides.
std::unique_ptr<Pattern> make_lane_pattern(const ProcessPair& pair, const Medium& medium,
                                           const Shape& shape);
std::unique_ptr<Pattern> make_tag_pattern(const ProcessPair& pair, const Medium& medium,
                                          const Shape& shape);
std::unique_ptr<Pattern> make_put_pattern(const ProcessPair& pair, const Medium& medium,
                                          const Shape& shape);

}  // namespace asyncmesh::bench
