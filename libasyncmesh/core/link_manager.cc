#include "core/link_manager.h"

#include <fmt/format.h>

#include <algorithm>

namespace asyncmesh::core {

LinkManager::LinkManager(const LinkEnvironment& environment, std::vector<Route> routes,
                         std::function<uint32_t()> drain)
    : environment_(environment), drain_(std::move(drain)) {
  links_.reserve(routes.size());
  StagingRegistry& registry = *this;
  for (Rank rank = 0; rank < routes.size(); ++rank)
    links_.push_back(std::make_unique<Link>(environment_, registry, rank, std::move(routes[rank])));
}

LinkManager::~LinkManager() = default;

Status LinkManager::attach_st(const PortKey& key, Port& port, LaneObserver& observer) {
  for (const Rank peer : port.config().outbound) {
    if (peer >= links_.size() || peer == environment_.self)
      return Status(Code::kInvalidArgument, fmt::format("no peer of rank {}", peer));
  }
  for (const Rank peer : port.config().inbound) {
    if (peer >= links_.size() || peer == environment_.self)
      return Status(Code::kInvalidArgument, fmt::format("no peer of rank {}", peer));
  }
  Status status = attach_lanes(key, port, observer);
  if (!status.ok()) detach_st(port, nullptr);  // it has sent nothing yet
  return status;
}

// Readers first: a peer's answer to the writer's announcement then finds everything in place.
Status LinkManager::attach_lanes(const PortKey& key, Port& port, LaneObserver& observer) {
  const PortConfig& config = port.config();
  for (uint32_t lane = 0; lane < config.inbound.size(); ++lane) {
    ASYNCMESH_RETURN_IF_ERROR(
        links_[config.inbound[lane]]->add_reader_st(key, port, lane, observer));
  }
  for (uint32_t lane = 0; lane < config.outbound.size(); ++lane) {
    ASYNCMESH_RETURN_IF_ERROR(
        links_[config.outbound[lane]]->add_writer_st(key, port, lane, observer));
  }
  return {};
}

void LinkManager::detach_st(const Port& port, const std::shared_ptr<const void>& owner) {
  for (const auto& link : links_) link->remove_port_st(port, owner);
}

Result<uint32_t> LinkManager::staging_id_st(Port& port, transport::Transport& transport) {
  // Pools stay for as long as the manager does, so no two have the same address.
  const std::pair<const StagingPool*, const transport::Transport*> key{&port.staging_st(),
                                                                       &transport};
  if (const auto known = staging_ids_.find(key); known != staging_ids_.end()) return known->second;
  auto id = transport.register_staging(port.staging_st().memory());
  if (!id.ok()) return id.status();
  staging_.push_back(port.share_staging());
  staging_ids_[key] = id.value();
  return id.value();
}

void LinkManager::decline_st(Rank peer, const PortKey& key, uint32_t before) {
  links_[peer]->decline_st(key, before);
}

void LinkManager::decline_all_st() {
  for (const auto& link : links_) link->decline_all_st();
}

void LinkManager::on_message_st(Rank from, MessageType type, std::span<const std::byte> body) {
  if (from < links_.size() && from != environment_.self) links_[from]->on_message_st(type, body);
}

void LinkManager::suspend_st(Rank peer) { links_[peer]->suspend_st(); }

void LinkManager::resume_st(Rank peer) { links_[peer]->resume_st(); }

void LinkManager::end_st(Rank peer, const Status& why) {
  drain_();  // what the peer sent before it went
  links_[peer]->end_st(why);
}

void LinkManager::end_all_st(const Status& why) {
  drain_();
  for (const auto& link : links_) link->end_st(why);
}

uint32_t LinkManager::progress_st(Nanoseconds now) {
  uint32_t events = 0;
  for (const auto& link : links_) events += link->progress_st(now);
  return events;
}

void LinkManager::flush_st(Nanoseconds now) {
  for (const auto& link : links_) link->flush_st(now);
}

Nanoseconds LinkManager::next_deadline_st() const {
  Nanoseconds next = kNever;
  for (const auto& link : links_) next = std::min(next, link->next_deadline_st());
  return next;
}

bool LinkManager::delivered_st() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->delivered_st(); });
}

}  // namespace asyncmesh::core
