#include "mesh/rendezvous_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "mesh/rendezvous_loop.h"

namespace asyncmesh::mesh {

RendezvousServer::RendezvousServer(ForkSafeFd stop, std::unique_ptr<Loop> loop, uint16_t port)
    : pid_(getpid()), stop_(std::move(stop)), loop_(std::move(loop)), port_(port) {}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(const RendezvousConfig& config,
                                                                  const Logger& logger) {
  ForkSafeFd stop = ForkSafeFd::open([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!stop) return Status(Code::kSystem, "eventfd: " + errno_text(errno));
  auto loop = Loop::create(config, logger, stop.get());
  if (!loop.ok()) return loop.status();
  const uint16_t port = loop.value()->port();
  std::unique_ptr<RendezvousServer> server(
      new RendezvousServer(std::move(stop), std::move(loop.value()), port));

  // Not std::thread: its destructor ends a forked child, where the thread does not exist.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(
      &server->thread_, nullptr,
      [](void* argument) -> void* {
        static_cast<Loop*>(argument)->run();
        return nullptr;
      },
      server->loop_.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return Status(Code::kSystem, "cannot start a thread: " + errno_text(error));
  server->running_ = true;
  return server;
}

RendezvousServer::~RendezvousServer() {
  if (!running_) return;
  if (getpid() != pid_) {
    // The thread may have been inside the loop when the parent forked: nobody may touch it here.
    static_cast<void>(loop_.release());
    return;
  }
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  pthread_join(thread_, nullptr);
}

}  // namespace asyncmesh::mesh
