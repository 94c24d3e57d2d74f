#include "mesh_rank_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "mesh/mesh.h"

namespace asyncmesh::mesh {

namespace {

constexpr const char* kMarker = "--as-rank";
constexpr unsigned kLifetime = 120;  // seconds after which a forgotten process ends by itself

const char* name_of(PeerState state) {
  switch (state) {
    case PeerState::kAbsent:
      return "absent";
    case PeerState::kAlive:
      return "alive";
    case PeerState::kSuspect:
      return "suspect";
    case PeerState::kLost:
      return "lost";
    case PeerState::kLeft:
      return "left";
  }
  return "?";
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

struct Printer final : MeshListener {
  SteadyClock clock;
  void on_message(Rank from, uint16_t, std::span<const std::byte>) override {
    say("message " + std::to_string(from));
  }
  void on_peer(const PeerInfo& peer) override {
    say("peer " + std::to_string(peer.rank) + " " + name_of(peer.state) + " " +
        std::to_string(clock.now()) + " " + peer.reason);
  }
  void on_mesh_lost(const Status& why) override {
    say("mesh_lost " + std::to_string(clock.now()) + " " + why.text());
  }
};

void fork_child(std::unique_ptr<Mesh>& mesh, bool destroy) {
  const pid_t child = fork();
  if (child != 0) {
    say("forked " + std::to_string(child));
    return;
  }
  alarm(kLifetime);
  if (destroy) {
    const SteadyClock clock;
    mesh->progress_st(clock.now());
    mesh.reset();
    _exit(0);
  }
  for (;;) pause();
}

// False: the test is gone.
bool obey(std::unique_ptr<Mesh>& mesh) {
  char letter = 0;
  const ssize_t got = read(STDIN_FILENO, &letter, 1);
  if (got <= 0) return got < 0;
  if (letter == 'l') mesh->leave_st();
  if (letter == 'f') fork_child(mesh, false);
  if (letter == 'd') fork_child(mesh, true);
  if (letter == 'm') {
    for (Rank rank = 0; rank < mesh->world(); ++rank) static_cast<void>(mesh->send_st(rank, 1, {}));
  }
  return true;
}

int drive(std::unique_ptr<Mesh> mesh) {
  const SteadyClock clock;
  Printer printer;
  mesh->set_listener_st(&printer);
  say("joined");
  for (;;) {
    mesh->progress_st(clock.now());
    if (mesh->left_st()) break;
    const Nanoseconds left = mesh->next_deadline_st() - clock.now();
    pollfd fds[] = {{mesh->event_fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    poll(fds, 2, static_cast<int>(std::clamp<Nanoseconds>(left / 1'000'000, 0, 1000)));
    if (fds[1].revents != 0 && !obey(mesh)) return 1;
  }
  mesh.reset();
  say("left");
  // A removed rank stays until it is told to go, so that its lines can be read in peace.
  for (char letter; read(STDIN_FILENO, &letter, 1) > 0;) {
  }
  return 0;
}

}  // namespace

std::optional<int> run_as_rank(int argc, char** argv) {
  if (argc != 7 || std::string(argv[1]) != kMarker) return std::nullopt;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kLifetime);
  MeshConfig config;
  config.rank = static_cast<Rank>(std::atoi(argv[2]));
  config.replicas = static_cast<uint32_t>(std::atoi(argv[3]));
  config.replica = config.rank;
  config.url = std::string("tcp://127.0.0.1:") + argv[4];
  config.peer_timeout = std::atoll(argv[5]) * 1'000'000;
  config.secret = argv[6];
  const SteadyClock clock;
  auto mesh = Mesh::join(config, clock, Logger(), deadline_after(clock, 30'000'000'000));
  if (!mesh.ok()) {
    say("refused " + mesh.status().text());
    return 2;
  }
  return drive(std::move(mesh.value()));
}

RankProcess::RankProcess(const RankOptions& options) {
  int in[2] = {-1, -1};
  int out[2] = {-1, -1};
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipes";
    return;
  }
  const std::string words[] = {"/proc/self/exe",
                               kMarker,
                               std::to_string(options.rank),
                               std::to_string(options.world),
                               std::to_string(options.port),
                               std::to_string(options.peer_timeout_ms),
                               options.secret};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
  fcntl(out_, F_SETFL, O_NONBLOCK);
}

RankProcess::~RankProcess() {
  kill_and_reap();
  close(in_);
  close(out_);
}

void RankProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

void RankProcess::kill_and_reap() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  static_cast<void>(wait_for_exit());
}

int RankProcess::wait_for_exit() {
  int status = -1;
  if (pid_ > 0) waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

void RankProcess::command(char letter) const { EXPECT_EQ(write(in_, &letter, 1), 1); }

void RankProcess::read_for(int milliseconds) {
  pollfd entry{out_, POLLIN, 0};
  if (poll(&entry, 1, milliseconds) <= 0) return;
  char buffer[4096];
  for (ssize_t got; (got = read(out_, buffer, sizeof buffer)) > 0;) {
    partial_.append(buffer, static_cast<size_t>(got));
  }
  for (size_t end; (end = partial_.find('\n')) != std::string::npos;) {
    lines_.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
}

void RankProcess::read_available() { read_for(0); }

std::string RankProcess::expect(const std::string& start, Nanoseconds limit) {
  const SteadyClock clock;
  const Nanoseconds deadline = clock.now() + limit;
  for (;;) {
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      if (!line->starts_with(start)) continue;
      std::string found = *line;
      lines_.erase(line);
      return found;
    }
    const Nanoseconds left = deadline - clock.now();
    if (left <= 0) return {};
    read_for(static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + 1, 100)));
  }
}

std::vector<std::unique_ptr<RankProcess>> start_world(uint32_t world, uint16_t port,
                                                      int64_t peer_timeout_ms) {
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (uint32_t rank = 0; rank < world; ++rank) {
    ranks.push_back(
        std::make_unique<RankProcess>(RankOptions{rank, world, port, peer_timeout_ms, "secret"}));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->expect("joined"), "joined");
  return ranks;
}

Nanoseconds time_of(const std::string& line) {
  std::istringstream words(line);
  std::string skipped;
  words >> skipped;
  if (skipped == "peer") words >> skipped >> skipped;
  Nanoseconds time = 0;
  words >> time;
  return time;
}

}  // namespace asyncmesh::mesh
