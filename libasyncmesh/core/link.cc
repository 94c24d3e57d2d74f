#include "core/link.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh::core {
namespace {

constexpr uint32_t kMaxClosing = 64;  // ends that wait for a peer; beyond, the oldest go

}  // namespace

bool LinkEnvironment::take_lane_id(LaneId* id_out) {
  for (size_t tries = 0; tries < lane_ids.size(); ++tries) {
    const LaneId id = next_lane_id++;  // the longest unused one first
    if (lane_ids[id]) continue;
    lane_ids[id] = true;
    *id_out = id;
    return true;
  }
  return false;
}

std::string describe(const LinkTimers& timers) {
  const auto ms = [](Nanoseconds duration) { return static_cast<double>(duration) / 1e6; };
  return fmt::format("probe {} ms, gap {} ms, stall {} ms, backoff {} to {} ms, give up {} ms",
                     ms(timers.probe), ms(timers.gap), ms(timers.stall), ms(timers.backoff_first),
                     ms(timers.backoff_last), ms(timers.give_up));
}

Link::Link(LinkEnvironment& environment, StagingRegistry& staging, Rank peer, Route route)
    : environment_(environment), staging_(staging), peer_(peer), route_(std::move(route)) {}

Link::~Link() { close(); }

Status Link::add_writer_st(const PortKey& key, Port& port, uint32_t lane, LaneObserver& observer) {
  for (const WriterEnd& end : writers_) {
    if (end.key == key && !end.closing)
      return Status(Code::kInvalidState,
                    fmt::format("{} to rank {} is open already", describe(key), peer_));
  }
  writers_.push_back({.key = key,
                      .port = &port,
                      .lane = lane,
                      .instance = environment_.next_instance++,
                      .observer = &observer});
  if (state_ == State::kEnded) {
    fail(writers_.back(), ended_);
    return {};
  }
  ensure_open();
  const WriterEnd& end = writers_.back();
  send(MessageType::kLaneWant,
       encode(LaneWant{key, end.instance, port.config().slots, port.config().payload_bytes}));
  return {};
}

Status Link::add_reader_st(const PortKey& key, Port& port, uint32_t lane, LaneObserver& observer) {
  for (const ReaderEnd& end : readers_) {
    if (end.key == key)
      return Status(Code::kInvalidState,
                    fmt::format("{} from rank {} is open already", describe(key), peer_));
  }
  LaneId id = 0;
  if (!environment_.take_lane_id(&id))
    return Status(Code::kNoMemory, "all 65536 lane numbers of this context are in use");
  readers_.push_back({key, &port, lane, 0, id, &observer, false});
  if (state_ == State::kEnded) {
    fail(readers_.back(), ended_);
    return {};
  }
  ensure_open();
  const auto want = std::find_if(wants_.begin(), wants_.end(),
                                 [&key](const Want& kept) { return kept.want.key == key; });
  if (want == wants_.end()) return {};
  const Want kept = *want;
  wants_.erase(want);
  if (kept.closed) {
    fail(readers_.back(), closed_by_peer());
  } else {
    bind(readers_.back(), kept.want);
  }
  return {};
}

void Link::remove_port_st(const Port& port, const std::shared_ptr<const void>& owner) {
  for (const ReaderEnd& end : readers_) {
    if (end.port != &port) continue;
    if (!end.dead) end.reader().fail_st();
    environment_.return_lane_id(end.id);
    if (end.instance != 0) send(MessageType::kLaneClosed, encode(LaneClosed{end.instance, false}));
  }
  std::erase_if(readers_, [&port](const ReaderEnd& end) { return end.port == &port; });
  for (WriterEnd& end : writers_) {
    if (end.port != &port) continue;
    end.observer = nullptr;
    end.closing = true;
    end.owner = owner;
    ++closing_;
  }
  remove_closed();
  if (closing_ <= kMaxClosing) return;
  if (environment_.logger.enabled(LogLevel::kWarning)) {
    environment_.logger.write(
        LogLevel::kWarning, fmt::format("rank {} has not received what {} closed ports sent: what "
                                        "the oldest sent is dropped",
                                        peer_, closing_));
  }
  fail(*std::find_if(writers_.begin(), writers_.end(), [](auto& end) { return end.closing; }),
       Status(Code::kCanceled));
  remove_closed();
}

// Removes the ends that were closed and have nothing left to deliver; returns their number.
uint32_t Link::remove_closed() {
  if (closing_ == 0) return 0;
  const auto done = [](const WriterEnd& end) { return end.closing && end.delivered(); };
  for (WriterEnd& end : writers_) {
    if (!done(end)) continue;
    if (!end.dead) end.writer().fail_st();
    end.dead = true;
    send(MessageType::kLaneClosed, encode(LaneClosed{end.instance, true}));
  }
  const auto count = static_cast<uint32_t>(std::erase_if(writers_, done));
  closing_ -= count;
  return count;
}

void Link::on_link_down(Rank, Epoch epoch, const Status& why) {
  // Comes from inside the transport: the link is closed by the next progress.
  if (epoch == epoch_ && state_ == State::kOpen) down_ = why.text().empty() ? "?" : why.text();
}

void Link::ensure_open() {
  if (state_ != State::kIdle) return;
  epoch_ = std::max<Epoch>(epoch_, 1);
  open("first use");
}

void Link::open(const std::string& reason) {
  if (route_.transport == nullptr) {
    end_st(Status(Code::kLinkError, fmt::format("rank {}: {}", peer_, route_.text)));
    return;
  }
  down_.clear();
  auto link = route_.transport->open_link(peer_, epoch_, route_.address, *this);
  if (!link.ok()) {
    back_off(link.status().text());
    return;
  }
  link_ = std::move(link.value());
  state_ = State::kOpen;
  ++counters_.opens;
  send(MessageType::kLinkHello,
       encode(LinkHello{epoch_, std::string(route_.transport->name()), reason}));
  for (ReaderEnd& end : readers_) {
    if (end.dead || end.instance == 0) continue;
    if (!offer(end)) return;
  }
}

void Link::close() {
  if (link_ != nullptr) description_ = link_->describe();
  for (const WriterEnd& end : writers_) {
    if (!end.dead) end.writer().close_st();
  }
  for (const ReaderEnd& end : readers_) {
    if (!end.dead) end.reader().close_st();
  }
  link_.reset();
  down_.clear();
}

void Link::reset(const std::string& reason) {
  ++counters_.resets;
  if (environment_.logger.enabled(LogLevel::kWarning)) {
    environment_.logger.write(
        LogLevel::kWarning,
        fmt::format("the link to rank {} leaves epoch {}: {}", peer_, epoch_, reason));
  }
  close();
  back_off(reason);
}

// Whether nothing moved since the last reset; ends the link if that went on for too long.
bool Link::barren() {
  const uint64_t moved = movement();
  const Nanoseconds now = environment_.clock.now();
  if (moved != movement_at_reset_ || barren_resets_ == 0) {
    barren_since_ = now;
    barren_resets_ = 0;
  }
  movement_at_reset_ = moved;
  ++barren_resets_;
  return barren_resets_ >= environment_.timers.give_up_resets &&
         now - barren_since_ >= environment_.timers.give_up;
}

void Link::back_off(const std::string& reason) {
  if (barren() || epoch_ == UINT16_MAX) {
    end_st(Status(Code::kLinkError,
                  fmt::format("the link to rank {} failed {} times without moving anything: {}",
                              peer_, barren_resets_, reason)));
    return;
  }
  ++epoch_;
  state_ = State::kBackoff;
  reopen_reason_ = reason;
  const uint32_t doublings = std::min<uint32_t>(barren_resets_ - 1, 20);
  reopen_at_ = environment_.clock.now() + std::min(environment_.timers.backoff_first << doublings,
                                                   environment_.timers.backoff_last);
}

void Link::suspend_st() {
  if (state_ == State::kEnded || state_ == State::kSuspended) return;
  close();
  state_ = State::kSuspended;
}

void Link::resume_st() {
  if (state_ != State::kSuspended) return;
  if (epoch_ == 0) {
    state_ = State::kIdle;
    // Ports that were added meanwhile could not open it.
    if (!writers_.empty() || !readers_.empty()) ensure_open();
    return;
  }
  ++epoch_;
  open("the peer is alive again");
}

void Link::end_st(const Status& why) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  ended_ = why;
  // Fails the lanes before the link goes: what arrived is published, what is lent stays readable.
  for (WriterEnd& end : writers_) fail(end, why);
  for (ReaderEnd& end : readers_) fail(end, why);
  if (link_ != nullptr) description_ = link_->describe();
  link_.reset();
  down_.clear();
  wants_.clear();
}

void Link::fail(WriterEnd& end, const Status& why) {
  if (end.dead) return;
  end.dead = true;
  end.writer().fail_st();
  if (end.observer != nullptr) end.observer->on_lane_failed_st(peer_, why);
}

void Link::fail(ReaderEnd& end, const Status& why) {
  if (end.dead) return;
  end.dead = true;
  end.reader().fail_st();
  end.observer->on_lane_failed_st(peer_, why);
}

uint64_t Link::movement() const {
  uint64_t moved = 0;
  for (const WriterEnd& end : writers_)
    moved += end.writer().credit_st().received + end.writer().credit_st().released;
  for (const ReaderEnd& end : readers_) moved += end.reader().counters_st().frames;
  return moved;
}

// Why the link must be reset, or "".
std::string Link::watch(Nanoseconds now) {
  const LinkTimers& timers = environment_.timers;
  for (WriterEnd& end : writers_) {
    if (end.dead || end.writer().state() != LaneState::kOpen) continue;
    if (end.writer().fault_st() != Code::kOk)
      return fmt::format("{}: impossible credit, or a refused frame", describe(end.key));
    if (end.writer().stalled_st(now, timers.stall))
      return fmt::format("{}: frames stand still for {} ms", describe(end.key),
                         timers.stall / 1'000'000);
    if (end.writer().probe_due_st(now, timers.probe)) {
      ++counters_.probes;
      send(MessageType::kLaneProbe, encode(LaneProbe{end.instance, epoch_}));
    }
  }
  for (const ReaderEnd& end : readers_) {
    if (end.dead || end.reader().state() != LaneState::kOpen) continue;
    if (end.reader().fault_st(now, timers.gap) != Code::kOk)
      return fmt::format("{}: a damaged frame or a standing gap", describe(end.key));
  }
  return {};
}

uint32_t Link::progress_st(Nanoseconds now) {
  uint32_t events = remove_closed();
  if (state_ == State::kBackoff) {
    if (now < reopen_at_) return events;
    open(reopen_reason_);
    return events + 1;
  }
  if (state_ != State::kOpen) return events;
  if (!down_.empty()) {
    const std::string reason = std::move(down_);
    reset(reason);
    return events + 1;
  }
  for (const ReaderEnd& end : readers_) {
    if (!end.dead && end.reader().credit_pending_st())
      events += end.reader().flush_credit_st(now, environment_.timers.credit_quiet);
  }
  if (now < watch_at_) return events;
  watch_at_ = now + environment_.timers.watch;
  if (const std::string reason = watch(now); !reason.empty()) {
    reset(reason);
    return events + 1;
  }
  return events;
}

void Link::flush_st(Nanoseconds now) {
  for (const ReaderEnd& end : readers_) {
    if (!end.dead && end.reader().credit_pending_st()) end.reader().flush_credit_st(now, 0);
  }
}

Nanoseconds Link::next_deadline_st() const {
  // The watchdogs are coarser than the owner's longest sleep.
  return state_ == State::kBackoff ? reopen_at_ : kNever;
}

bool Link::delivered_st() const {
  return std::all_of(writers_.begin(), writers_.end(),
                     [](const WriterEnd& end) { return end.delivered(); });
}

std::string Link::describe_st() const {
  if (link_ != nullptr) return link_->describe();
  if (!description_.empty()) return description_;
  return route_.transport == nullptr ? std::string() : std::string(route_.transport->name());
}

}  // namespace asyncmesh::core
