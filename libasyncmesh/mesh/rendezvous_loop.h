// What the thread of the rendezvous runs: sockets below, rosters above.
//
// Threads: built by one, then run by the server's. See rendezvous_server.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mesh/control_connection.h"
#include "mesh/poller.h"
#include "mesh/rendezvous_server.h"
#include "mesh/roster.h"

namespace asyncmesh::mesh {

class RendezvousServer::Loop final : private FrameSink {
 public:
  static Result<std::unique_ptr<Loop>> create(const RendezvousConfig& config, const Logger& logger,
                                              int stop_fd);
  uint16_t port() const { return local_address(listener_.get()).port(); }
  void run();  // until the stop descriptor becomes readable

 private:
  static constexpr uint64_t kListenerToken = 0;
  static constexpr uint64_t kStopToken = 1;
  static constexpr uint64_t kFirstToken = 2;

  struct Client {
    std::unique_ptr<ControlConnection> connection;
    Nanoseconds since = 0;  // accepted at
    bool admitted = false;
  };
  struct Job {
    std::unique_ptr<Roster> roster;
    std::vector<uint64_t> tokens;  // of the member at each rank; 0: none
  };

  Loop(const RendezvousConfig& config, const Logger& logger);
  void on_frame(ControlConnection& from, const ControlFrame& frame) override;
  bool step(Nanoseconds timeout);  // false: stop was asked for
  void accept_waiting(Nanoseconds now);
  void drop_strangers(Nanoseconds now);
  void serve(uint64_t token, Nanoseconds now);
  Status admit(ControlConnection& connection, Nanoseconds now);
  Result<Job*> job_for(const Identity& identity, Nanoseconds now);
  Job* job_of(const ControlConnection& connection);  // null: not (or no longer) a member
  void judge(Nanoseconds now);
  void deliver(Job& job);
  void close(uint64_t token, const Status& why);
  void hang_up();
  void log(LogLevel level, const std::string& text);
  Nanoseconds tick() const;

  const RendezvousConfig config_;
  const Logger logger_;
  const SteadyClock clock_;
  Digest key_{};
  Identity self_;
  std::unique_ptr<Poller> poller_;  // before what it watches
  ForkSafeFd listener_;
  int stop_fd_ = -1;                    // the server's
  Nanoseconds deaf_until_ = 0;          // out of descriptors: nobody is accepted until then
  std::map<uint64_t, Client> clients_;  // by token: the oldest first
  uint64_t next_token_ = kFirstToken;
  size_t pending_ = 0;               // clients that were not admitted
  std::map<std::string, Job> jobs_;  // by run id
  Nanoseconds log_window_ = 0;
  uint32_t logged_ = 0;
  std::vector<uint64_t> ready_;
};

}  // namespace asyncmesh::mesh
