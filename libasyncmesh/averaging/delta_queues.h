// Frames that a mailbox delivered and that wait for their turn: one queue per member, in the order
// posted.
//
// Lanes are fifo, so a member's frames come in the order of (round, piece), and all of its rounds
// come before its finish. Frames stay lent in their slots; the queues hold only what describes
// them, at most `slots` per member, and never allocate after construction.
//
// Lost: a member that is gone without having finished. It is judged only after everything that had
// arrived from it was taken, so a member that finished and left is never taken for lost.
//
// Threads: the mailbox's application thread.
#pragma once

#include <cstdint>
#include <vector>

#include "mailbox/mailbox.h"

namespace asyncmesh {

class DeltaQueues {
 public:
  explicit DeltaQueues(Mailbox& mailbox);

  // Takes everything that has arrived. Finish frames are consumed here: the sender is muted.
  void poll() noexcept;

  uint32_t size() const { return static_cast<uint32_t>(queues_.size()); }
  uint32_t depth(uint32_t member) const { return queues_[member].count; }
  const Delta& at(uint32_t member, uint32_t index) const;  // 0: the oldest
  void drop(uint32_t member) noexcept;                     // releases the oldest
  void drop_all(uint32_t member) noexcept;

  bool finished(uint32_t member) const { return queues_[member].finished; }
  // The first round that a finished member does not take part in.
  uint64_t finished_at(uint32_t member) const { return queues_[member].finished_at; }
  bool lost(uint32_t member) const { return queues_[member].lost; }
  // Takes part in `round` as far as known now.
  bool contributes(uint32_t member, uint64_t round) const;

  uint64_t discarded() const { return discarded_; }  // frames dropped here: not for a queue
  void discard(uint32_t member) noexcept;            // drop, and count it

 private:
  struct Queue {
    std::vector<Delta> ring;
    uint32_t head = 0;
    uint32_t count = 0;
    uint64_t finished_at = 0;
    bool finished = false;
    bool lost = false;
    bool was_alive = true;  // before the frames of this poll were taken
  };

  void accept(const Delta& delta) noexcept;

  Mailbox& mailbox_;
  uint32_t mask_;
  std::vector<Queue> queues_;
  uint64_t discarded_ = 0;
};

}  // namespace asyncmesh
