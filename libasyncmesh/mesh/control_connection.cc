#include "mesh/control_connection.h"

#include <sys/socket.h>

#include <cerrno>

#include "mesh/url.h"

namespace asyncmesh::mesh {

namespace {

constexpr size_t kReadChunk = 64 * 1024;
constexpr size_t kReadBudget = 1024 * 1024;  // per event: one connection must not starve the others

}  // namespace

ControlConnection::ControlConnection(ForkSafeFd fd, bool connected, Handshake handshake)
    : fd_(std::move(fd)), connected_(connected), handshake_(std::move(handshake)) {
  if (!connected_) return;
  remote_ = remote_address(fd_.get());
  local_ = local_address(fd_.get());
}

ControlConnection::~ControlConnection() {
  if (poller_ != nullptr) poller_->forget(fd_.get());
}

Status ControlConnection::attach(Poller& poller, uint64_t token) {
  if (!poller.watch(fd_.get(), token, true, !connected_)) {
    return end(Status(Code::kSystem, "epoll: " + errno_text(errno)));
  }
  poller_ = &poller;
  token_ = token;
  watching_write_ = !connected_;
  return connected_ ? on_connected() : Status();
}

Status ControlConnection::move_to(Poller& poller, uint64_t token) {
  if (poller_ != nullptr) poller_->forget(fd_.get());
  poller_ = nullptr;
  const bool write = has_queued() || !connected_;
  if (!poller.watch(fd_.get(), token, true, write)) {
    return end(Status(Code::kSystem, "epoll: " + errno_text(errno)));
  }
  poller_ = &poller;
  token_ = token;
  watching_write_ = write;
  return {};
}

Status ControlConnection::end(Status why) {
  if (over_.ok()) over_ = std::move(why);
  return over_;
}

Status ControlConnection::on_connected() {
  connected_ = true;
  remote_ = remote_address(fd_.get());
  local_ = local_address(fd_.get());
  HandshakeReplies replies;
  const Status started = handshake_.start(replies);
  if (!started.ok()) return end(started);
  ASYNCMESH_RETURN_IF_ERROR(queue_replies(replies));
  return flush();
}

Status ControlConnection::on_event(FrameSink& sink) {
  received_ = false;
  if (!over_.ok()) return over_;
  if (!connected_) {
    const Status result = connect_result(fd_.get());
    if (result.code() == Code::kAgain) return {};
    if (!result.ok()) return end(result);
    ASYNCMESH_RETURN_IF_ERROR(on_connected());
  }
  // Reading comes first: a connection that failed may still hold what the other side had to say.
  for (size_t budget = kReadBudget; budget >= kReadChunk; budget -= kReadChunk) {
    const std::span<std::byte> room = reader_.space_for(kReadChunk);
    const ssize_t received = recv(fd_.get(), room.data(), kReadChunk, 0);
    if (received > 0) {
      received_ = true;
      reader_.commit(static_cast<size_t>(received));
      ASYNCMESH_RETURN_IF_ERROR(read_frames(sink));
      continue;
    }
    if (received == 0) return end(Status(Code::kPeerLost, "the connection was closed"));
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return flush();
    return end(Status(Code::kSystem, errno_text(errno)));
  }
  return flush();
}

Status ControlConnection::read_frames(FrameSink& sink) {
  for (;;) {
    ControlFrame frame;
    switch (reader_.next(&frame)) {
      case FrameReader::Next::kNeedMore:
        return {};
      case FrameReader::Next::kBroken:
        return end(Status(Code::kRefused, reader_.why()));
      case FrameReader::Next::kFrame:
        ASYNCMESH_RETURN_IF_ERROR(handle(sink, frame));
    }
  }
}

Status ControlConnection::handle(FrameSink& sink, const ControlFrame& frame) {
  if (handshake_.done()) {
    if (frame.space == Space::kHandshake) return end(Status(Code::kRefused, "late handshake"));
    sink.on_frame(*this, frame);
    return over_;
  }
  HandshakeReplies replies;
  const Status result = handshake_.on_message(frame.type, frame.body, replies);
  Status queued = queue_replies(replies);
  if (!result.ok()) {
    static_cast<void>(flush());
    return end(result);
  }
  if (!queued.ok()) return queued;
  if (handshake_.done() && (!writer_.seal_with(handshake_.send_key()) ||
                            !reader_.unseal_with(handshake_.receive_key()))) {
    return end(Status(Code::kInternal, "OpenSSL failed"));
  }
  return flush();
}

Status ControlConnection::queue_replies(const HandshakeReplies& replies) {
  for (const HandshakeReply& reply : replies) {
    if (!writer_.append({Space::kHandshake, static_cast<uint16_t>(reply.type), reply.body},
                        queue_)) {
      return end(Status(Code::kInternal, "OpenSSL failed"));
    }
  }
  return {};
}

Code ControlConnection::send(Space space, uint16_t type, ByteSpan body) {
  if (!established()) return Code::kPeerLost;
  if (body.size() > kMaxBody) return Code::kTooLarge;
  if (queue_.size() - sent_ + body.size() > kMaxQueued) return Code::kAgain;
  if (!writer_.append({space, type, body}, queue_)) return Code::kInternal;
  // A failure is reported by the next on_event, after what is still to be read.
  static_cast<void>(flush());
  return Code::kOk;
}

Status ControlConnection::flush() {
  if (!connected_) return {};
  while (has_queued()) {
    const ssize_t sent =
        ::send(fd_.get(), queue_.data() + sent_, queue_.size() - sent_, MSG_NOSIGNAL);
    if (sent >= 0) {
      sent_ += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    // The reading side tells the end and its reason; nothing can be written any more.
    queue_.clear();
    sent_ = 0;
    break;
  }
  if (!has_queued()) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > kReadBudget) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  update_interest();
  return {};
}

void ControlConnection::update_interest() {
  if (poller_ == nullptr || watching_write_ == has_queued()) return;
  watching_write_ = has_queued();
  poller_->change(fd_.get(), token_, true, watching_write_);
}

bool ControlConnection::same_host() const {
  return self().boot_id == peer().boot_id && !self().boot_id.empty() && local_.same_host(remote_);
}

std::string ControlConnection::describe() const {
  return handshake_.done() ? mesh::describe(peer()) : host_and_port(remote_.host(), remote_.port());
}

}  // namespace asyncmesh::mesh
