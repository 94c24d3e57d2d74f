#include "averaging/delta_queues.h"

#include <bit>

namespace asyncmesh {

DeltaQueues::DeltaQueues(Mailbox& mailbox)
    : mailbox_(mailbox),
      mask_(std::bit_ceil(mailbox.port().config().slots) - 1),
      queues_(mailbox.size()) {
  for (Queue& queue : queues_) queue.ring.resize(size_t{mask_} + 1);
}

const Delta& DeltaQueues::at(uint32_t member, uint32_t index) const {
  const Queue& queue = queues_[member];
  return queue.ring[(queue.head + index) & mask_];
}

void DeltaQueues::drop(uint32_t member) noexcept {
  Queue& queue = queues_[member];
  mailbox_.release(queue.ring[queue.head & mask_]);
  ++queue.head;
  --queue.count;
}

void DeltaQueues::drop_all(uint32_t member) noexcept {
  while (queues_[member].count > 0) drop(member);
}

void DeltaQueues::discard(uint32_t member) noexcept {
  drop(member);
  ++discarded_;
}

bool DeltaQueues::contributes(uint32_t member, uint64_t round) const {
  const Queue& queue = queues_[member];
  return queue.finished ? round < queue.finished_at : !queue.lost;
}

void DeltaQueues::accept(const Delta& delta) noexcept {
  Queue& queue = queues_[delta.member];
  if (delta.meta.kind == DeltaKind::kFinish) {
    queue.finished = true;
    queue.finished_at = delta.meta.round;
    mailbox_.mute(delta.member);
    mailbox_.release(delta);
    return;
  }
  const bool wanted = delta.meta.kind == DeltaKind::kRound || delta.meta.kind == DeltaKind::kMean;
  if (!wanted || queue.finished || queue.count > mask_) {
    mailbox_.release(delta);
    ++discarded_;
    return;
  }
  queue.ring[(queue.head + queue.count) & mask_] = delta;
  ++queue.count;
}

void DeltaQueues::poll() noexcept {
  for (uint32_t member = 0; member < size(); ++member) {
    queues_[member].was_alive = mailbox_.alive(member);
  }
  Delta delta;
  while (mailbox_.take(&delta) == Code::kOk) accept(delta);
  for (uint32_t member = 0; member < size(); ++member) {
    Queue& queue = queues_[member];
    if (queue.was_alive || queue.finished || queue.lost) continue;
    queue.lost = true;
    mailbox_.mute(member);  // its writing lane may still be connecting, and take no more
  }
}

}  // namespace asyncmesh
