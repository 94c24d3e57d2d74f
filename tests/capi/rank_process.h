// Ranks as processes, and the numbered frames that they exchange: even ranks send to the odd rank
// above them. A frame's length and content follow from its number, so a reader knows a torn one.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "capi/ranks.h"

namespace asyncmesh_test {

inline constexpr Medium kProcessMedia[] = {kMedia[1], kMedia[2], kMedia[3]};

// A rank in a child process, killed at the latest by the destructor. It writes a byte per step that
// it completed.
class Child {
 public:
  template <typename Body>
  Child(const RankSetup& setup, uint32_t index, const std::string& url, Body body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      int code = 1;
      run_rank(setup, index, url, [&](Rank& rank) { code = body(rank, ends[1]); });
      _exit(testing::Test::HasFailure() ? 1 : code);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(pipe_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { kill(pid_, number); }
  // False: nothing was written in time.
  bool wait_byte(int timeout_ms) const {
    pollfd fd{pipe_, POLLIN, 0};
    char byte = 0;
    return poll(&fd, 1, timeout_ms) == 1 && read(pipe_, &byte, 1) == 1;
  }
  // Its exit status, or 128 + the signal that ended it: SIGKILL if it is not done in a minute.
  int wait_exit() {
    pollfd fd{pipe_, 0, 0};  // the pipe breaks when the process ends
    if (poll(&fd, 1, 60'000) != 1) kill(pid_, SIGKILL);
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int pipe_ = -1;
};

inline void say(int fd) {
  if (write(fd, "x", 1) != 1) throw std::runtime_error("the test is gone");
}

inline constexpr uint32_t kFrameBytes = 100'000;
inline uint64_t frame_length(uint64_t number) { return number * 977 % kFrameBytes; }
inline uint8_t frame_byte(uint64_t number) { return static_cast<uint8_t>(number * 31 + 7); }

inline asyncmesh_port_t* open_channel(const Rank& rank, uint32_t kind) {
  asyncmesh_port_config_t config = ASYNCMESH_PORT_CONFIG_INIT;
  config.kind = kind;
  config.peer = rank.rank ^ 1;
  config.payload_bytes = kFrameBytes;
  asyncmesh_port_t* port = nullptr;
  CHECK_OK(asyncmesh_port_open(rank.mesh, &config, &port));
  return port;
}

// Frames 0, 1, ... while `goes_on(number)`, asked before each. The status that ended it.
inline asyncmesh_status_t send_frames(asyncmesh_port_t* out,
                                      const std::function<bool(uint64_t)>& goes_on) {
  std::vector<uint8_t> payload(kFrameBytes);
  asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
  send.data = payload.data();
  send.timeout_ns = 30 * kSecond;
  for (uint64_t number = 0; goes_on(number); ++number) {
    send.micro_batch = number;
    send.bytes = frame_length(number);
    std::fill_n(payload.begin(), send.bytes, frame_byte(number));
    const asyncmesh_status_t status = asyncmesh_port_send(out, &send);
    if (status != ASYNCMESH_OK) return status;
  }
  return ASYNCMESH_OK;
}

// Reads until a status other than OK, which is returned. Every frame must be whole and the next in
// order; `on_frame(number)` follows each.
inline asyncmesh_status_t read_frames(asyncmesh_port_t* in,
                                      const std::function<void(uint64_t)>& on_frame) {
  for (uint64_t number = 0;; ++number) {
    asyncmesh_message_t message = {};
    message.struct_size = sizeof message;
    const asyncmesh_status_t status = asyncmesh_port_recv(in, 0, 30 * kSecond, &message);
    if (status != ASYNCMESH_OK) return status;
    const auto* bytes = static_cast<const uint8_t*>(message.data);
    if (message.micro_batch != number || message.bytes != frame_length(number) ||
        !std::all_of(bytes, bytes + message.bytes,
                     [&](uint8_t byte) { return byte == frame_byte(number); }))
      throw std::runtime_error("frame " + std::to_string(number) + " is not what was sent");
    CHECK_OK(asyncmesh_port_release(in, message.token));
    on_frame(number);
  }
}

// Says so after a hundred frames. 0 if a loss ends it.
inline int send_until_loss(Rank& rank, int fd) {
  asyncmesh_port_t* out = open_channel(rank, ASYNCMESH_PORT_CHANNEL_OUT);
  const asyncmesh_status_t status = send_frames(out, [fd](uint64_t number) {
    if (number == 100) say(fd);
    return true;
  });
  if (status != ASYNCMESH_PEER_LOST) check(status, "port_send", __LINE__);
  asyncmesh_port_close(out);
  return 0;
}

// Says so after a hundred frames and after the loss, then calls `afterwards(in)`. 0 if the loss
// names the writer.
inline int read_until_loss(Rank& rank, int fd,
                           const std::function<void(asyncmesh_port_t*)>& afterwards) {
  asyncmesh_port_t* in = open_channel(rank, ASYNCMESH_PORT_CHANNEL_IN);
  const asyncmesh_status_t status = read_frames(in, [fd](uint64_t number) {
    if (number == 100) say(fd);
  });
  if (status != ASYNCMESH_PEER_LOST) check(status, "port_recv", __LINE__);
  const std::string text = asyncmesh_last_error();
  say(fd);
  afterwards(in);
  asyncmesh_port_close(in);
  const std::string expected = "rank " + std::to_string(rank.rank ^ 1) + " is lost";
  return text.find(expected) != std::string::npos ? 0 : 2;
}

}  // namespace asyncmesh_test
