#include "tests/protocol/kill/peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/protocol/kill/kill_lane.h"

namespace asyncmesh::protocol {
namespace {

constexpr int kMessageTimeoutMs = 20'000;

PeerOrders orders_in_force;

void end_at_step(transport::FrameStep step, transport::LaneId, transport::Sequence sequence) {
  const PeerOrders& orders = orders_in_force;
  if (orders.ends != 0 && step == orders.step && sequence >= orders.sequence)
    kill(getpid(), SIGKILL);
}

bool read_all(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd waiter{fd, POLLIN, 0};
    if (poll(&waiter, 1, kMessageTimeoutMs) <= 0) return false;
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<transport::Transport>> make_engine(const std::string& name,
                                                          const Clock& clock,
                                                          transport::FrameHook hook) {
  transport::UcxConfig config;
  config.hook = hook;
  config.tls = name == "tag_tcp" ? "tcp" : "shm";
  config.direct_stores = name != "rma_puts";
  return name.starts_with("tag") ? make_ucx_tag(config, clock) : make_ucx_rma(config, clock);
}

bool send_message(int fd, std::span<const std::byte> bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  Bytes whole(sizeof(length));
  std::memcpy(whole.data(), &length, sizeof(length));
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  return send(fd, whole.data(), whole.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(whole.size());
}

Bytes receive_message(int fd) {
  uint32_t length = 0;
  if (!read_all(fd, &length, sizeof(length))) return {};
  Bytes bytes(length);
  if (!read_all(fd, bytes.data(), length)) return {};
  return bytes;
}

bool message_waits(int fd) {
  pollfd waiter{fd, POLLIN, 0};
  return poll(&waiter, 1, 0) > 0;
}

int run_peer(int fd) {
  const Bytes orders = receive_message(fd);
  if (orders.size() != sizeof(PeerOrders)) return 2;
  std::memcpy(&orders_in_force, orders.data(), sizeof(PeerOrders));
  const SteadyClock clock;
  auto transport = make_engine(orders_in_force.engine, clock, &end_at_step);
  if (!transport.ok()) return 3;
  KillLane lane(*transport.value(), orders_in_force, fd);
  if (!lane.introduce() || !lane.open()) return 4;
  while (true) {
    lane.step();
    if (!message_waits(fd)) continue;
    // The other side starts a new epoch, or is done with us.
    if (!lane.open()) return lane.error().empty() ? 0 : 5;
  }
}

PeerProcess::PeerProcess(const PeerOrders& orders) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return;
  const std::string argument = std::to_string(fds[1]);
  pid_ = fork();
  if (pid_ == 0) {
    fcntl(fds[1], F_SETFD, 0);
    execl("/proc/self/exe", "kill_test", "--peer", argument.c_str(), nullptr);
    _exit(127);
  }
  close(fds[1]);
  fd_ = fds[0];
  send_message(fd_, std::as_bytes(std::span(&orders, 1)));
}

PeerProcess::~PeerProcess() {
  if (fd_ >= 0) close(fd_);
  if (pid_ <= 0 || reaped_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void PeerProcess::signal(int number) const { kill(pid_, number); }

bool PeerProcess::ended() {
  if (reaped_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  reaped_ = true;
  killed_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return true;
}

}  // namespace asyncmesh::protocol
