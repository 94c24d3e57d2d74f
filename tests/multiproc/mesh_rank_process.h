// One rank of a mesh as a process of its own, and the test's handle to it.
//
// The process joins, then drives its mesh from one loop, prints one line per event, and obeys one
// letter per command on its standard input:
//
//      out   joined | refused TEXT | peer RANK STATE NANOSECONDS REASON | mesh_lost NANOSECONDS
//      TEXT |
//            left | forked PID | message FROM
//      in    l leave   f fork a child that only lives   d fork a child that destroys its mesh and
//      exits
//            m send a message to all
//
// Times are of the monotonic clock, which all processes of a machine share.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace asyncmesh::mesh {

struct RankOptions {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint16_t port = 0;
  int64_t peer_timeout_ms = 10'000;
  std::string secret = "secret";
};

// What `main` runs when the program was started as a rank; nullopt if it was not.
std::optional<int> run_as_rank(int argc, char** argv);

class RankProcess {
 public:
  explicit RankProcess(const RankOptions& options);
  ~RankProcess();  // kills it
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void kill_and_reap();
  void command(char letter) const;
  // The first unread line that starts with `start` (those before it stay readable); "" at the
  // limit.
  std::string expect(const std::string& start, Nanoseconds limit = 30'000'000'000);
  // Lines that have come so far and were not taken.
  const std::deque<std::string>& lines() const { return lines_; }
  void read_available();
  // Its exit status, as waitpid gives it.
  int wait_for_exit();

 private:
  void read_for(int milliseconds);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string partial_;
  std::deque<std::string> lines_;
};

// All ranks of a world, joined. Fails the test if one does not.
std::vector<std::unique_ptr<RankProcess>> start_world(uint32_t world, uint16_t port,
                                                      int64_t peer_timeout_ms);

// The time of a "peer ..." or "mesh_lost ..." line.
Nanoseconds time_of(const std::string& line);

}  // namespace asyncmesh::mesh
