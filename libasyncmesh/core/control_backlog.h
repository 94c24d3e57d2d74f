// Control messages that a peer's socket could not take: it has not read for 16 MiB. Dropping one
// would leave the two ends of a link, or of an averager, with different views for good.
//
// In order per peer: while a peer's messages wait, later ones wait behind them. Grows with what is
// sent to a peer that does not read, which the mesh reports as lost after its peer timeout; then
// the channel refuses the messages, and they are dropped. Progress owner only.
#pragma once

#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "base/status.h"
#include "core/control_message.h"

namespace asyncmesh::core {

class ControlBacklog {
 public:
  bool waits_for_st(Rank to) const { return waiting_.contains(to); }
  uint64_t deferred_st() const { return deferred_; }  // messages that ever had to wait

  void put_st(Rank to, MessageType type, const Body& body) {
    waiting_[to].emplace_back(type, body);
    ++deferred_;
  }

  // Gives every peer its messages until `send(to, type, body)` returns kAgain. Returns how many
  // are gone, taken or refused for good.
  template <typename Send>
  uint32_t drain_st(const Send& send) {
    uint32_t gone = 0;
    for (auto peer = waiting_.begin(); peer != waiting_.end();) {
      std::deque<Message>& messages = peer->second;
      while (!messages.empty() &&
             send(peer->first, messages.front().first, messages.front().second) != Code::kAgain) {
        messages.pop_front();
        ++gone;
      }
      peer = messages.empty() ? waiting_.erase(peer) : std::next(peer);
    }
    return gone;
  }

 private:
  using Message = std::pair<MessageType, Body>;
  std::map<Rank, std::deque<Message>> waiting_;
  uint64_t deferred_ = 0;
};

}  // namespace asyncmesh::core
