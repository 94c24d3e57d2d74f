// The credit block of an arena: two cache lines by which credit comes back without a message.
//
//   0           8        16          24        64
//   | released  | taken  | received  | number  | read_here |
//
// The first line is the reader's: the counts of its newest credit, and the number of credits it has
// stored so far. The second is the writer's: equal to kReadHere from the moment that a writer looks
// at `number`; it never goes back. Until then credit is a message.
//
// The counts are no snapshot: a writer that loads them while others are stored gets some of each.
// It still gets released <= taken <= received, as each count only grows and the orders are
// opposite: the reader stores received, taken, released, number; the writer loads number, released,
// taken, received. Each of the last three stores is a release, each of the first three loads an
// acquire of the same word: whoever sees a count sees all that was stored before it, and whoever
// sees a number sees at least that credit.
//
// The peer can store anything. Nothing here depends on the counts; LaneWriter checks them. A wrong
// number costs wake-ups on this link only.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/transport.h"

namespace asyncmesh::transport {

class RmaCreditBlock {
 public:
  // Reader.
  bool read_here() {
    // Relaxed: nothing else that the writer wrote is read because of it.
    return word(read_here_).load(std::memory_order_relaxed) == kReadHere;
  }
  void store(const Credit& credit, uint64_t number) {
    word(received_).store(credit.received, std::memory_order_relaxed);
    word(taken_).store(credit.taken, std::memory_order_release);
    word(released_).store(credit.released, std::memory_order_release);
    word(number_).store(number, std::memory_order_release);
  }

  // Writer.
  void announce() { word(read_here_).store(kReadHere, std::memory_order_relaxed); }
  uint64_t number() { return word(number_).load(std::memory_order_acquire); }
  // After number(), of which it is at least the credit.
  Credit load() {
    Credit credit;
    credit.released = word(released_).load(std::memory_order_acquire);
    credit.taken = word(taken_).load(std::memory_order_acquire);
    credit.received = word(received_).load(std::memory_order_relaxed);
    return credit;
  }

 private:
  static constexpr uint64_t kReadHere = 0x4552454844414552;  // "READHERE"

  static std::atomic_ref<uint64_t> word(uint64_t& value) { return std::atomic_ref(value); }

  alignas(64) uint64_t released_;
  uint64_t taken_;
  uint64_t received_;
  uint64_t number_;
  alignas(64) uint64_t read_here_;
};
static_assert(sizeof(RmaCreditBlock) == 128);

}  // namespace asyncmesh::transport
