#include "perf/micro/lane_bench_pair.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace asyncmesh::bench {
namespace {

void transfer(bool out, int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t moved = out ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
    if (moved <= 0) give_up("control socket", "the other process is gone");
    at += moved;
    bytes -= static_cast<size_t>(moved);
  }
}

}  // namespace

void give_up(const char* what, const char* why) {
  fmt::print(stderr, "lane_benchmark: {}: {}\n", what, why);
  std::_Exit(1);
}

ProcessPair::ProcessPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    give_up("socketpair", std::strerror(errno));
  pid_ = fork();
  if (pid_ < 0) give_up("fork", std::strerror(errno));
  if (pid_ == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Spinning on one core, each would wait for the other's time slice to end.
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(leader() ? 0 : 1, &core);
  sched_setaffinity(0, sizeof(core), &core);
  fd_ = fds[leader() ? 0 : 1];
  close(fds[leader() ? 1 : 0]);
}

ProcessPair::~ProcessPair() {
  close(fd_);
  if (leader()) waitpid(pid_, nullptr, 0);
}

Bytes ProcessPair::exchange(std::span<const std::byte> mine) const {
  uint64_t length = mine.size();
  transfer(true, fd_, &length, sizeof(length));
  Bytes copy(mine.begin(), mine.end());
  transfer(true, fd_, copy.data(), copy.size());
  transfer(false, fd_, &length, sizeof(length));
  Bytes theirs(length);
  transfer(false, fd_, theirs.data(), theirs.size());
  return theirs;
}

}  // namespace asyncmesh::bench
