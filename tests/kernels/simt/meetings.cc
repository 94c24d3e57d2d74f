// Who meets whom, and what each takes home.
#include <cstring>

#include "tests/kernels/simt/block.h"

namespace simt {
namespace {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kBarrier:
      return "__syncthreads";
    case Operation::kSyncWarp:
      return "__syncwarp";
    case Operation::kVote:
      return "a vote";
    case Operation::kSum:
      return "a sum";
    case Operation::kShuffle:
      return "a shuffle";
  }
  return "?";
}

}  // namespace

std::string thread_name(uint32_t number) {
  const uint32_t x = number % blockDim.x, y = number / blockDim.x % blockDim.y;
  const uint32_t z = number / blockDim.x / blockDim.y;
  return "thread (" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string meeting_name(const Meeting& meeting) {
  const char* const slash = strrchr(meeting.file, '/');
  return std::string(name_of(meeting.operation)) + " at " +
         (slash == nullptr ? meeting.file : slash + 1) + ":" + std::to_string(meeting.line);
}

// Lets everybody go on whose meeting is complete; false: there is none.
bool Block::complete_any() {
  if (complete_barrier()) return true;
  bool any = false;
  for (uint32_t number = 0; number < threads_.size() && failure_.empty(); ++number) {
    const Thread& thread = threads_[number];
    if (thread.state != Thread::State::kWaiting) continue;
    if (thread.meeting.operation != Operation::kBarrier) any |= complete_warp(number);
  }
  return any && failure_.empty();
}

bool Block::joins(uint32_t number, const Meeting& meeting) const {
  if (number >= threads_.size() || threads_[number].state != Thread::State::kWaiting) return false;
  const Meeting& other = threads_[number].meeting;
  return other.operation == meeting.operation && other.mask == meeting.mask &&
         other.line == meeting.line &&
         (other.file == meeting.file || strcmp(other.file, meeting.file) == 0);
}

bool Block::complete_barrier() {
  uint64_t predicates = 0;
  for (uint32_t number = 0; number < threads_.size(); ++number) {
    if (threads_[0].meeting.operation != Operation::kBarrier) return false;
    if (!joins(number, threads_[0].meeting)) return false;
    predicates += threads_[number].meeting.value != 0 ? 1 : 0;
  }
  for (Thread& thread : threads_) {
    thread.result = predicates;
    thread.state = Thread::State::kRunning;
  }
  return true;
}

bool Block::complete_warp(uint32_t number) {
  const Meeting meeting = threads_[number].meeting;
  const uint32_t first = number / kWarp * kWarp;
  uint64_t votes = 0, sum = 0;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((meeting.mask >> lane & 1) == 0) continue;
    if (!joins(first + lane, meeting)) return false;
    sum += threads_[first + lane].meeting.value;
    if (threads_[first + lane].meeting.value != 0) votes |= 1ULL << lane;
  }
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((meeting.mask >> lane & 1) == 0) continue;
    threads_[first + lane].result = meeting.operation == Operation::kSum ? sum : votes;
    threads_[first + lane].state = Thread::State::kRunning;
  }
  if (meeting.operation == Operation::kShuffle) shuffle(first, meeting.mask);
  return true;
}

void Block::shuffle(uint32_t first, uint32_t mask) {
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Thread& thread = threads_[first + lane];
    const uint32_t source = thread.meeting.source;
    if ((mask >> source & 1) == 0) {
      failure_ = thread_name(first + lane) + " reads lane " + std::to_string(source) + " in " +
                 meeting_name(thread.meeting) + ", which takes no part in it";
      return;
    }
    thread.result = threads_[first + source].meeting.value;
  }
}

// Empty: nobody waits any more.
std::string Block::stuck() const {
  for (uint32_t number = 0; number < threads_.size(); ++number) {
    if (threads_[number].state != Thread::State::kWaiting) continue;
    const Meeting& meeting = threads_[number].meeting;
    const bool barrier = meeting.operation == Operation::kBarrier;
    const uint32_t first = barrier ? 0 : number / kWarp * kWarp;
    const auto end = barrier ? static_cast<uint32_t>(threads_.size()) : first + kWarp;
    for (uint32_t other = first; other < end; ++other) {
      if (!barrier && (meeting.mask >> (other - first) & 1) == 0) continue;
      if (joins(other, meeting)) continue;
      return thread_name(number) + " waits in " + meeting_name(meeting) + ", but " + absent(other);
    }
  }
  return {};
}

std::string Block::absent(uint32_t number) const {
  if (number >= threads_.size()) {
    return "lane " + std::to_string(number % kWarp) + " of its warp does not exist";
  }
  const Thread& thread = threads_[number];
  if (thread.state == Thread::State::kDone) return thread_name(number) + " has left the kernel";
  return thread_name(number) + " waits in " + meeting_name(thread.meeting) +
         (thread.meeting.operation == Operation::kBarrier
              ? ""
              : " with mask " + std::to_string(thread.meeting.mask));
}

}  // namespace simt
