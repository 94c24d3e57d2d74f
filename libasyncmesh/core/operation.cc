#include "core/operation.h"

#include <thread>

namespace asyncmesh::core {

void OperationRing::post(const Operation& operation) noexcept {
  while (!ring_.push(operation)) std::this_thread::yield();
  bell_.ring();
}

void PortQueue::submit(const Submission& submission) noexcept {
  ring_->push(submission);
  poke();
}

void PortQueue::poke() noexcept {
  // Pairs with the exchange in `drain_st`: if the flag was set, the owner has not cleared it yet
  // and will see what was pushed before.
  if (queued_.exchange(true, std::memory_order_acq_rel)) return;
  operations_.post({this, nullptr});
}

uint32_t PortQueue::drain_st() {
  queued_.exchange(false, std::memory_order_acq_rel);  // before the ring is read; see `poke`
  uint32_t count = 0;
  Submission submission;
  while (ring_->pop(&submission)) {
    submission.port->execute_st(submission);
    ++count;
  }
  return count;
}

}  // namespace asyncmesh::core
