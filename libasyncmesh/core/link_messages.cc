// What a link does when its peer says something.
#include <fmt/format.h>

#include "core/link.h"

namespace asyncmesh::core {
namespace {

constexpr size_t kMaxWants = 4096;  // of one peer: more than a context can have ports

}  // namespace

template <typename Message>
void Link::receive(std::span<const std::byte> body, void (Link::*handler)(const Message&)) {
  Message message;
  if (!decode(body, &message)) {
    ++counters_.malformed;
    return;
  }
  (this->*handler)(message);
}

void Link::on_message_st(MessageType type, std::span<const std::byte> body) {
  if (state_ == State::kEnded) return;
  switch (type) {
    case MessageType::kLinkHello:
      return receive(body, &Link::on_hello);
    case MessageType::kLaneWant:
      return receive(body, &Link::on_want);
    case MessageType::kLaneOffer:
      return receive(body, &Link::on_offer);
    case MessageType::kLaneRefused:
      return receive(body, &Link::on_refused);
    case MessageType::kLaneProbe:
      return receive(body, &Link::on_probe);
    case MessageType::kLaneState:
      return receive(body, &Link::on_state);
    case MessageType::kLaneClosed:
      return receive(body, &Link::on_closed);
    case MessageType::kAveragerHello:
      return;  // not the link's
  }
  ++counters_.malformed;
}

void Link::on_hello(const LinkHello& hello) {
  if (route_.transport != nullptr && hello.engine != route_.transport->name()) {
    end_st(Status(Code::kMismatch, fmt::format("rank {} opened its link with {}, this rank with {}",
                                               peer_, hello.engine, route_.transport->name())));
    return;
  }
  if (hello.epoch < epoch_ || (hello.epoch == epoch_ && state_ != State::kBackoff)) return;
  if (state_ == State::kSuspended) {
    epoch_ = hello.epoch;
    return;
  }
  if (hello.epoch > epoch_ && epoch_ != 0 && environment_.logger.enabled(LogLevel::kInfo)) {
    environment_.logger.write(LogLevel::kInfo,
                              fmt::format("rank {} moves its link from epoch {} to {}: {}", peer_,
                                          epoch_, hello.epoch, hello.reason));
  }
  close();
  epoch_ = hello.epoch;
  open("following the peer");
}

void Link::bind(ReaderEnd& end, const LaneWant& want) {
  const PortConfig& config = end.port->config();
  end.instance = want.instance;
  if (want.payload_bytes != config.payload_bytes || want.slots > config.slots) {
    const std::string text = fmt::format(
        "{}: rank {} writes with {} slots of {} bytes, rank {} reads with {} slots of {} bytes",
        describe(end.key), peer_, want.slots, want.payload_bytes, environment_.self, config.slots,
        config.payload_bytes);
    send(MessageType::kLaneRefused, encode(LaneRefused{want.instance, text}));
    fail(end, Status(Code::kMismatch, text));
    return;
  }
  if (state_ == State::kOpen) offer(end);
}

// Opens the reading end in this epoch. False: the link is gone, and with it every reference.
bool Link::offer(ReaderEnd& end) {
  LaneReader& reader = end.reader();
  const transport::Sequence resume = reader.resume_st();
  auto inbound = link_->open_inbound(end.id, reader.geometry(), resume, reader);
  if (!inbound.ok()) {
    reset(fmt::format("{}: {}", describe(end.key), inbound.status().text()));
    return false;
  }
  const std::span<const std::byte> bytes = inbound.value()->offer();
  const LaneOffer message{end.instance, epoch_,
                          end.id,       reader.geometry().slots,
                          resume,       Body(bytes.begin(), bytes.end())};
  reader.open_st(std::move(inbound.value()));
  send(MessageType::kLaneOffer, encode(message));
  return true;
}

bool Link::declined(const LaneWant& want) const {
  const auto known = declined_.find(want.key);
  return known != declined_.end() && want.instance < known->second;
}

void Link::decline(const LaneWant& want) {
  send(MessageType::kLaneClosed, encode(LaneClosed{want.instance, false}));
}

void Link::decline_st(const PortKey& key, uint32_t before) {
  declined_[key] = before;
  for (const Want& kept : wants_) {
    if (declined(kept.want)) decline(kept.want);
  }
  std::erase_if(wants_, [this](const Want& kept) { return declined(kept.want); });
}

void Link::decline_all_st() {
  declines_all_ = true;
  for (const Want& kept : wants_) decline(kept.want);
  wants_.clear();
}

void Link::on_want(const LaneWant& want) {
  if (declined(want)) return decline(want);
  for (ReaderEnd& end : readers_) {
    if (end.key == want.key && !end.dead && end.instance == 0) {
      bind(end, want);
      return;
    }
  }
  if (declines_all_) return decline(want);
  if (wants_.size() < kMaxWants) wants_.push_back({want});
}

void Link::on_offer(const LaneOffer& offer) {
  WriterEnd* end = writer_of(offer.instance);
  if (end == nullptr || end->dead || offer.epoch != epoch_ || state_ != State::kOpen) return;
  LaneWriter& writer = end->writer();
  writer.close_st();
  const auto staging = staging_.staging_id_st(*end->port, *route_.transport);
  if (!staging.ok()) {
    fail(*end, staging.status());
    return;
  }
  const transport::LaneGeometry geometry{offer.slots, end->port->geometry().slot_bytes};
  auto outbound = link_->open_outbound(offer.lane, geometry, offer.offer, writer);
  if (!outbound.ok()) {
    reset(fmt::format("{}: {}", describe(end->key), outbound.status().text()));
    return;
  }
  if (writer.open_st(std::move(outbound.value()), offer.resume, staging.value()) != Code::kOk) {
    fail(*end, Status(Code::kMismatch,
                      fmt::format("{}: rank {} asks for frame {}, which this port cannot send",
                                  describe(end->key), peer_, offer.resume)));
  }
}

void Link::on_refused(const LaneRefused& refused) {
  WriterEnd* end = writer_of(refused.instance);
  if (end != nullptr) fail(*end, Status(Code::kMismatch, refused.text));
}

void Link::on_probe(const LaneProbe& probe) {
  const ReaderEnd* end = reader_of(probe.instance);
  if (end == nullptr || end->dead || probe.epoch != epoch_) return;
  send(MessageType::kLaneState,
       encode(LaneStateReply{probe.instance, epoch_, end->reader().credit_st()}));
}

void Link::on_state(const LaneStateReply& reply) {
  const WriterEnd* end = writer_of(reply.instance);
  if (end == nullptr || end->dead || reply.epoch != epoch_) return;
  end->writer().on_credit(reply.credit);
}

Status Link::closed_by_peer() const {
  return Status(Code::kCanceled, fmt::format("rank {} closed its end of the port", peer_));
}

void Link::on_closed(const LaneClosed& closed) {
  if (!closed.by_writer) {
    if (WriterEnd* end = writer_of(closed.instance)) fail(*end, closed_by_peer());
    return;
  }
  for (Want& kept : wants_) kept.closed = kept.closed || kept.want.instance == closed.instance;
  // A channel's or mailbox's next port is another one; an averager's is the one that was agreed on.
  std::erase_if(wants_, [](const Want& kept) {
    return kept.closed && kept.want.key.kind != PortKind::kRounds &&
           kept.want.key.kind != PortKind::kMeans;
  });
  if (ReaderEnd* end = reader_of(closed.instance)) fail(*end, closed_by_peer());
}

Link::WriterEnd* Link::writer_of(uint32_t instance) {
  for (WriterEnd& end : writers_) {
    if (end.instance == instance) return &end;
  }
  return nullptr;
}

Link::ReaderEnd* Link::reader_of(uint32_t instance) {
  if (instance == 0) return nullptr;
  for (ReaderEnd& end : readers_) {
    if (end.instance == instance) return &end;
  }
  return nullptr;
}

}  // namespace asyncmesh::core
