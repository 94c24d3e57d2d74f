// The link to one peer and the lanes on it: epochs, offers, watchdogs, resets. Sans-I/O: it acts on
// a transport and a control channel that it is given.
//
//   idle --first port, or HELLO--> open --fault--> backoff --> open (epoch + 1) ...
//                                  open --suspect--> suspended --alive--> open (epoch + 1)
//                                  any --lost, left, given up--> ended
//
// Epoch. Either end may move to a higher epoch: it closes its link object, opens one in the new
// epoch and says HELLO. The other end follows; of two proposals the higher one wins, equal ones
// agree. Control messages are in order, so an offer is always preceded by the HELLO of its epoch;
// what names another epoch is stale and ignored.
//
// Lanes. The writing end announces itself once (WANT, kept by the peer until it has such a port).
// In every epoch the reading end opens a fresh inbound, at the first sequence that it has not yet
// published, and offers it; the writer then replays from there. Nothing is lost, nothing is
// doubled.
//
// Closing. A reading end goes at once. A writing end stays until the peer has received everything
// that was sent, or can no more; only then the peer hears CLOSED. So what is sent just before a
// close arrives, and whoever sees a lane end has seen all of it. A port that is opened meanwhile
// under the same key is announced behind its predecessor, and the peer's ports take them in turn.
// Averagers, whose creation is collective, must not meet lanes of their predecessors: the wants of
// those are declined (`decline_st`), and a want of theirs that was closed before there is a reader
// is kept to tell it.
//
// Watchdogs (link_timers.h): a writer whose credit is late asks for it on the control channel;
// unreceived frames that do not move, a standing gap, a frame or credit that no peer of ours would
// send, or an error of the transport reset the link. Resets without any movement back off, and end
// the link after `give_up`.
//
// Ownership: ports, observers, transport and environment outlive the link. Threads: progress owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "core/control_message.h"
#include "core/link_timers.h"
#include "lane/port.h"
#include "transport/transport.h"

namespace asyncmesh::core {

// Told when a lane of a port is dead, once per lane.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  virtual void on_lane_failed_st(Rank peer, const Status& why) = 0;
};

// What the links of one context share.
struct LinkEnvironment {
  const Clock& clock;
  const Logger& logger;
  ControlChannel& control;
  LinkTimers timers;
  Rank self = 0;
  uint32_t next_instance = 1;
  std::vector<bool> lane_ids = std::vector<bool>(UINT16_MAX + 1);  // in use
  LaneId next_lane_id = 0;

  bool take_lane_id(LaneId* id_out);
  void return_lane_id(LaneId id) { lane_ids[id] = false; }
};

// Registers a port's staging memory with a transport, once.
class StagingRegistry {
 public:
  virtual ~StagingRegistry() = default;
  virtual Result<uint32_t> staging_id_st(Port& port, transport::Transport& transport) = 0;
};

// How to reach a peer; `transport` null: there is none (the text says why).
struct Route {
  transport::Transport* transport = nullptr;
  std::vector<std::byte> address;
  std::string text;
};

struct LinkCounters {
  uint64_t opens = 0;      // links opened
  uint64_t resets = 0;     // epochs that ended in a fault
  uint64_t probes = 0;     // sent
  uint64_t malformed = 0;  // control messages that did not parse
};

class Link final : private transport::LinkSink {
 public:
  enum class State : uint32_t { kIdle, kOpen, kBackoff, kSuspended, kEnded };

  Link(LinkEnvironment& environment, StagingRegistry& staging, Rank peer, Route route);
  ~Link() override;

  // `lane` indexes the port's outbound or inbound lanes. kInvalidState: the key is taken here.
  Status add_writer_st(const PortKey& key, Port& port, uint32_t lane, LaneObserver& observer);
  Status add_reader_st(const PortKey& key, Port& port, uint32_t lane, LaneObserver& observer);
  // Tells the peer. `owner` keeps the port alive until it has no end left here; observers are not
  // told any more.
  void remove_port_st(const Port& port, const std::shared_ptr<const void>& owner);

  // Wants of `key` with an instance below `before`, those kept and those to come, are answered as
  // by a reading end that was closed. Replaces what was declined of the key until now.
  void decline_st(const PortKey& key, uint32_t before);
  void decline_all_st();  // all that have no reading end now: none is opened any more

  void on_message_st(MessageType type, std::span<const std::byte> body);
  void suspend_st();               // the peer is suspect: nothing moves any more
  void resume_st();                // it is alive
  void end_st(const Status& why);  // lost, left or given up: every lane fails

  uint32_t progress_st(Nanoseconds now);  // credit and watchdogs; returns events handled
  void flush_st(Nanoseconds now);         // credit that was held back, before a sleep
  Nanoseconds next_deadline_st() const;
  bool delivered_st() const;  // no live writer has a frame that the peer has not received

  State state_st() const { return state_; }
  Epoch epoch_st() const { return epoch_; }
  std::string describe_st() const;  // "rma over posix"; why not, when there is no link
  const LinkCounters& counters_st() const { return counters_; }

 private:
  struct WriterEnd {
    PortKey key;
    Port* port = nullptr;
    uint32_t lane = 0;
    uint32_t instance = 0;
    LaneObserver* observer = nullptr;
    bool dead = false;
    bool closing = false;
    std::shared_ptr<const void> owner = nullptr;  // closing: of the port
    LaneWriter& writer() const { return port->writer_st(lane); }
    bool delivered() const {
      return dead || writer().credit_st().received >= writer().last_sequence_st();
    }
  };
  struct ReaderEnd {
    PortKey key;
    Port* port = nullptr;
    uint32_t lane = 0;
    uint32_t instance = 0;  // of the writer; 0: none has announced itself
    LaneId id = 0;
    LaneObserver* observer = nullptr;
    bool dead = false;
    LaneReader& reader() const { return port->reader_st(lane); }
  };

  // A writer of the peer that has no reader here yet.
  struct Want {
    LaneWant want;
    bool closed = false;
  };

  void on_link_down(Rank peer, Epoch epoch, const Status& why) override;

  void ensure_open();
  void open(const std::string& reason);
  void close();
  void reset(const std::string& reason);
  void back_off(const std::string& reason);
  bool barren();
  Status closed_by_peer() const;
  bool declined(const LaneWant& want) const;
  void decline(const LaneWant& want);
  void bind(ReaderEnd& end, const LaneWant& want);
  bool offer(ReaderEnd& end);
  uint32_t remove_closed();
  void fail(WriterEnd& end, const Status& why);
  void fail(ReaderEnd& end, const Status& why);
  std::string watch(Nanoseconds now);
  WriterEnd* writer_of(uint32_t instance);
  ReaderEnd* reader_of(uint32_t instance);

  void on_hello(const LinkHello& hello);
  void on_want(const LaneWant& want);
  void on_offer(const LaneOffer& offer);
  void on_refused(const LaneRefused& refused);
  void on_probe(const LaneProbe& probe);
  void on_state(const LaneStateReply& reply);
  void on_closed(const LaneClosed& closed);
  uint64_t movement() const;
  void send(MessageType type, const Body& body) { environment_.control.send_st(peer_, type, body); }
  template <typename Message>
  void receive(std::span<const std::byte> body, void (Link::*handler)(const Message&));

  LinkEnvironment& environment_;
  StagingRegistry& staging_;
  const Rank peer_;
  const Route route_;
  State state_ = State::kIdle;
  Epoch epoch_ = 0;
  std::unique_ptr<transport::Link> link_;
  std::string description_;  // of the last link, once it is closed
  std::vector<WriterEnd> writers_;
  std::vector<ReaderEnd> readers_;
  uint32_t closing_ = 0;                  // of writers_
  std::vector<Want> wants_;               // as they came
  std::map<PortKey, uint32_t> declined_;  // instances below
  bool declines_all_ = false;
  std::string down_;  // why the transport reported the link down; "": it did not
  Status ended_;      // why the link ended
  Nanoseconds watch_at_ = 0;
  Nanoseconds reopen_at_ = 0;  // kBackoff
  std::string reopen_reason_;
  uint32_t barren_resets_ = 0;
  Nanoseconds barren_since_ = 0;
  uint64_t movement_at_reset_ = 0;
  LinkCounters counters_;
};

}  // namespace asyncmesh::core
