#include "core/mesh_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/version.h"
#include "core/waiter.h"

namespace asyncmesh::core {
namespace {

constexpr Nanoseconds kSpin = 50'000;            // an idle owner that has a core for itself
constexpr Nanoseconds kGoodbye = 1'000'000'000;  // to be heard, beyond a deadline that has passed

}  // namespace

MeshSession::MeshSession(std::shared_ptr<Context> context, mesh::MeshConfig config)
    : context_(std::move(context)), config_(std::move(config)) {}

Result<std::shared_ptr<MeshSession>> MeshSession::join(const std::shared_ptr<Context>& context,
                                                       mesh::MeshConfig config,
                                                       Nanoseconds deadline) {
  if (!context->claim_mesh()) return Status(Code::kInvalidState, "this context has a mesh already");
  std::shared_ptr<MeshSession> session(new MeshSession(context, std::move(config)));
  ASYNCMESH_RETURN_IF_ERROR(session->open(deadline));
  return session;
}

Status MeshSession::open(Nanoseconds deadline) {
  context_->log_target().set_rank(config_.rank);
  if (world() > 1 || !config_.url.empty()) {
    network_ = choose_network(context_->config(), config_.url);
    auto engines = Engines::open(context_->config(), network_.net_devices, context_->clock());
    if (!engines.ok()) return engines.status();
    engines_ = std::move(engines.value());
    config_.address = encode(engines_->offer());
    config_.transport_version = engines_->version();
  }
  config_.library_version = version_text();
  auto joined = mesh::Mesh::join(config_, context_->clock(), context_->logger(), deadline);
  if (!joined.ok()) return joined.status();
  mesh_ = std::move(joined.value());

  uint32_t on_this_host = 0;
  for (Rank rank = 0; rank < world(); ++rank)
    on_this_host += rank == config_.rank || mesh_->peer(rank).same_host ? 1 : 0;
  // An owner and an application thread each: no spinning when threads outnumber cores.
  spin_ = 2 * on_this_host <= std::thread::hardware_concurrency() ? kSpin : 0;

  const LinkEnvironment environment{context_->clock(), context_->logger(), *this,
                                    LinkTimers::from(config_.peer_timeout), config_.rank};
  context_->logger().write(LogLevel::kDebug, describe(environment.timers));
  links_ = std::make_unique<LinkManager>(
      environment, routes(), [this] { return engines_ == nullptr ? 0 : engines_->progress_st(); });
  mesh_->set_listener_st(this);
  context_->run([this] { context_->progress_st().attach_st(this); });
  attached_ = true;
  context_->add_counters(this);
  context_->show_mesh(this);
  return {};
}

std::vector<Route> MeshSession::routes() const {
  std::vector<Route> routes(world());
  for (Rank rank = 0; rank < world(); ++rank) {
    if (rank == config_.rank) continue;
    const mesh::PeerInfo& peer = mesh_->peer(rank);
    const auto offer = decode_engine_offer(peer.address);
    if (!offer.ok()) {
      routes[rank].text = offer.status().text();
      continue;
    }
    const auto engine = choose_engine(engines_->offer(), offer.value(), peer.same_host);
    if (!engine.ok()) {
      routes[rank].text = engine.status().text();
      continue;
    }
    routes[rank].transport = engines_->find(engine.value());
    routes[rank].address = offer.value().find(engine.value())->bytes;
  }
  return routes;
}

MeshSession::~MeshSession() {
  if (attached_) {
    context_->show_mesh(nullptr);
    context_->remove_counters(this);
    context_->run([this] { context_->progress_st().detach_st(); });
  }
  // The transports may read what ports staged until they are gone.
  const StagingMemory staging = links_ == nullptr ? StagingMemory() : links_->staging_st();
  mesh_.reset();
  links_.reset();
  engines_.reset();
  context_->release_mesh();
}

std::vector<std::string> MeshSession::engine_names() const {
  return engines_ == nullptr ? std::vector<std::string>() : engines_->names();
}

std::vector<Rank> MeshSession::stage_members() const {
  std::vector<Rank> members;
  for (uint32_t replica = 0; replica < config_.replicas; ++replica)
    members.push_back(replica * config_.stages + config_.stage);
  return members;
}

bool MeshSession::checksum() const {
  return context_->config().checksum || !context_->config().faults.empty();
}

Status MeshSession::attach(const PortKey& key, Port& port, LaneObserver& observer) {
  Status status;
  context_->run([&] { status = links_->attach_st(key, port, observer); });
  return status;
}

void MeshSession::detach(const Port& port, std::shared_ptr<const void> owner) {
  context_->run([&] {
    links_->detach_st(port, owner);
    owner.reset();
  });
}

void MeshSession::say_hello(const std::vector<Rank>& members, AveragerHello hello) {
  context_->run([&] {
    hello.lanes_from = links_->next_instance_st();
    for (const Rank member : members) {
      if (member == config_.rank) continue;
      if (!hello.withdrawn) decline_st(member, hello.group, 0);
      send_st(member, MessageType::kAveragerHello, encode(hello));
    }
  });
}

void MeshSession::decline(const std::vector<Rank>& members, uint64_t group,
                          const std::vector<uint32_t>& before) {
  context_->run([&] {
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] != config_.rank) decline_st(members[i], group, before[i]);
    }
  });
}

void MeshSession::decline_st(Rank member, uint64_t group, uint32_t before) {
  for (const PortKind kind : {PortKind::kRounds, PortKind::kMeans})
    links_->decline_st(member, {kind, group}, before);
}

Status MeshSession::peer_status(Rank rank) {
  Status status;
  context_->run([&] {
    const mesh::PeerInfo& peer = mesh_->peer(rank);
    if (!lost_.ok()) {
      status = lost_;
    } else if (left_) {
      status = Status(Code::kCanceled, "this rank left the mesh");
    } else if (peer.state == mesh::PeerState::kLost) {
      status = Status(Code::kPeerLost, fmt::format("rank {} is lost: {}", rank, peer.reason));
    } else if (peer.state == mesh::PeerState::kLeft) {
      status = Status(Code::kCanceled, fmt::format("rank {} left the mesh", rank));
    }
  });
  return status;
}

Status MeshSession::leave(Nanoseconds deadline) {
  if (left_) return Status(Code::kInvalidState, "this rank left the mesh already");
  CoreWaiter waiter(*context_);
  context_->run([this] { links_->decline_all_st(); });
  bool delivered = false;
  for (;;) {
    context_->run([&] { delivered = links_->delivered_st(); });
    if (delivered || waiter.wait(deadline) != Code::kOk) break;
  }
  context_->run([this] { mesh_->leave_st(); });
  const Nanoseconds heard_by = std::max(deadline, context_->clock().now() + kGoodbye);
  for (bool heard = false;;) {
    context_->run([&] { heard = mesh_->left_st(); });
    if (heard || waiter.wait(heard_by) != Code::kOk) break;
  }
  context_->run([this] {
    left_ = true;
    links_->end_all_st(Status(Code::kCanceled, "this rank left the mesh"));
  });
  context_->activity().announce();
  if (!delivered)
    return Status(Code::kTimeout, "left, but not everything that was sent has been received");
  return {};
}

}  // namespace asyncmesh::core
