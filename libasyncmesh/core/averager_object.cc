#include "core/averager_object.h"

#include <fmt/format.h>

namespace asyncmesh::core {
namespace {

constexpr size_t kNamedTensors = 200;  // in a hello; the fingerprint covers all

MailboxConfig mailbox_config(const MeshSession& session, const std::vector<Rank>& members,
                             const MailboxGeometry& geometry) {
  MailboxConfig config;
  config.members = members;
  config.self = session.config().rank;
  config.slots = geometry.slots;
  config.payload_bytes = geometry.payload_bytes;
  config.checksum = session.checksum();
  return config;
}

const char* name_of(kernels::Encoding encoding) {
  switch (encoding) {
    case kernels::Encoding::kFloat32:
      return "FLOAT32";
    case kernels::Encoding::kBfloat16:
      return "BFLOAT16";
    case kernels::Encoding::kFloat16:
      return "FLOAT16";
    case kernels::Encoding::kInt8:
      return "INT8";
    case kernels::Encoding::kInt4:
      return "INT4";
  }
  return "unknown";
}

// "granularity is 64 here and 32 there".
std::string difference(const AveragerHello& mine, const AveragerHello& theirs) {
  const size_t count = std::min(mine.facts.size(), theirs.facts.size());
  for (size_t i = 0; i < count; ++i) {
    if (mine.facts[i] == theirs.facts[i]) continue;
    const auto value = [](const std::string& fact) { return fact.substr(fact.find('=') + 1); };
    return fmt::format("{} is {} here and {} there",
                       mine.facts[i].substr(0, mine.facts[i].find('=')), value(mine.facts[i]),
                       value(theirs.facts[i]));
  }
  return "the parameter tables differ";
}

}  // namespace

AveragerObject::Box::Box(const MailboxConfig& config, Context& context)
    : queue(context.operations()), mailbox(config, context.clock(), queue) {
  queue.reserve(mailbox.port().max_submissions());
}

AveragerObject::AveragerObject(std::shared_ptr<MeshSession> session, std::shared_ptr<Region> region)
    : session_(std::move(session)),
      region_(std::move(region)),
      members_(session_->stage_members()),
      lanes_from_(members_.size(), 0),
      waiter_(session_->context()) {}

Result<std::unique_ptr<AveragerObject>> AveragerObject::create(
    const std::shared_ptr<MeshSession>& session, const std::shared_ptr<Region>& region,
    const AveragerRequest& request) {
  ASYNCMESH_RETURN_IF_ERROR(region->need_table("region"));
  std::unique_ptr<AveragerObject> object(new AveragerObject(session, region));
  ASYNCMESH_RETURN_IF_ERROR(object->build(request.config));
  const AveragerHello mine = object->hello(request.config);
  session->say_hello(object->members_, mine);
  ASYNCMESH_RETURN_IF_ERROR(object->agree(mine, request.timeout));
  ASYNCMESH_RETURN_IF_ERROR(object->attach());
  object->publish();
  object->context().add_counters(object.get());
  object->counted_ = true;
  return object;
}

AveragerObject::~AveragerObject() {
  if (counted_) context().remove_counters(this);
  averager_.reset();
  const bool attached = rounds_ != nullptr && rounds_->attached;
  for (std::unique_ptr<Box>* box : {&rounds_, &means_}) {
    if (*box == nullptr || !(*box)->attached) continue;
    const Port& port = (*box)->mailbox.port();
    session_->detach(port, std::move(*box));
  }
  if (!attached) return;
  lanes_from_.assign(members_.size(), UINT32_MAX);
  session_->decline(members_, group_, lanes_from_);
}

Status AveragerObject::build(const AveragerConfig& config) {
  const auto geometry = averager_geometry(config, region_->table());
  if (!geometry.ok()) return geometry.status();
  rounds_ = std::make_unique<Box>(mailbox_config(*session_, members_, geometry.value().rounds),
                                  context());
  means_ =
      std::make_unique<Box>(mailbox_config(*session_, members_, geometry.value().means), context());
  const AveragerParts parts{rounds_->mailbox,  means_->mailbox, kernels::cpu(),
                            context().clock(), waiter_,         context().execution()};
  auto averager = Averager::create(config, region_->table(), parts);
  if (!averager.ok()) return averager.status();
  averager_ = std::move(averager.value());
  generation_ = region_->generation();
  group_ = config.group_key;
  name_ = config.group_key == 0 ? "averager" : fmt::format("averager.{}", config.group_key);
  return {};
}

AveragerHello AveragerObject::hello(const AveragerConfig& config) const {
  AveragerHello hello;
  hello.group = config.group_key;
  hello.fingerprint =
      group_fingerprint(region_->identities(), static_cast<uint32_t>(members_.size()), config);
  hello.facts = {
      fmt::format("rule={}", static_cast<int>(config.rule)),
      fmt::format("mode={}", static_cast<int>(config.mode)),
      fmt::format("window={}", config.window),
      fmt::format("selection={}", static_cast<int>(config.selection)),
      fmt::format("fraction={}", config.fraction),
      fmt::format("granularity={}", config.granularity),
      fmt::format("redraw={}", static_cast<int>(config.redraw)),
      fmt::format("wire={}", name_of(config.encoding)),
      fmt::format("rounding={}", static_cast<int>(config.rounding)),
      fmt::format("seed={}", config.seed),
      fmt::format("dtype={}", name_of(region_->table().storage)),
      fmt::format("number of tensors={}", region_->tensors()),
      fmt::format("number of elements={}", region_->elements()),
  };
  for (size_t i = 0; i < std::min(region_->identities().size(), kNamedTensors); ++i) {
    const TensorIdentity& tensor = region_->identities()[i];
    hello.facts.push_back(
        fmt::format("tensor {}=id {} with {} elements", i, tensor.id, tensor.count));
  }
  return hello;
}

// Hears every member out, also after a difference was found: so that all members judge the same
// creations and stay in step for a next try.
Status AveragerObject::agree(const AveragerHello& mine, Nanoseconds timeout) {
  const Nanoseconds deadline = deadline_after(context().clock(), timeout);
  std::vector<Rank> missing;
  for (const Rank member : members_) {
    if (member != session_->config().rank) missing.push_back(member);
  }
  Status verdict;
  for (;;) {
    std::erase_if(missing, [&](Rank member) {
      AveragerHello theirs;
      if (!session_->hellos().take(member, mine.group, &theirs)) return false;
      lanes_from_[index_of(member)] = theirs.lanes_from;
      if (verdict.ok() && theirs.fingerprint != mine.fingerprint)
        verdict = Status(Code::kMismatch,
                         fmt::format("averager of rank {}: {}", member, difference(mine, theirs)));
      return true;
    });
    if (missing.empty()) return verdict;
    Status ended;
    for (const Rank member : missing) {
      if (ended.ok()) ended = session_->peer_status(member);
    }
    if (const Code code = waiter_.wait(deadline); ended.ok() && code != Code::kOk)
      ended = Status(code,
                     fmt::format("waiting for the averager of rank {}", fmt::join(missing, ", ")));
    if (ended.ok()) continue;
    AveragerHello withdrawal;
    withdrawal.group = mine.group;
    withdrawal.withdrawn = true;
    session_->say_hello(missing, withdrawal);
    return verdict.ok() ? ended : verdict;
  }
}

Status AveragerObject::attach() {
  session_->decline(members_, group_, lanes_from_);
  ASYNCMESH_RETURN_IF_ERROR(
      session_->attach({PortKind::kRounds, group_}, rounds_->mailbox.port(), failure_));
  rounds_->attached = true;
  ASYNCMESH_RETURN_IF_ERROR(
      session_->attach({PortKind::kMeans, group_}, means_->mailbox.port(), failure_));
  means_->attached = true;
  return {};
}

Status AveragerObject::follow() {
  if (region_->generation() == generation_) return {};
  ASYNCMESH_RETURN_IF_ERROR(averager_->rebind(region_->table()));
  generation_ = region_->generation();
  return {};
}

// The averager knows that a member is gone; the links know why.
Status AveragerObject::explain(Status status) const {
  if (status.code() != Code::kPeerLost) return status;
  Status why;
  for (const Code code : {Code::kPeerLost, Code::kMismatch, Code::kLinkError, Code::kCanceled}) {
    if (failure_.find(code, &why)) return why;
  }
  return status;
}

Status AveragerObject::call(CallArgs args, const Region* mirror, CallResult* result_out) {
  ASYNCMESH_RETURN_IF_ERROR(follow());
  kernels::ParameterTable copy;
  if (mirror != nullptr) {
    ASYNCMESH_RETURN_IF_ERROR(region_->need_mirror(*mirror, "mirror"));
    copy = mirror->table();
    args.mirror = &copy;
  }
  Status status = averager_->call(args, result_out);
  publish();
  return status.ok() ? status : explain(std::move(status));
}

Status AveragerObject::mean(const Region& in, const Region& out, const MeanArgs& args) {
  ASYNCMESH_RETURN_IF_ERROR(in.need_table("in"));
  ASYNCMESH_RETURN_IF_ERROR(in.need_mirror(out, "out"));
  Status status = averager_->mean(in.table(), out.table(), args);
  publish();
  return explain(std::move(status));
}

Status AveragerObject::finish(const MeanArgs& args) {
  ASYNCMESH_RETURN_IF_ERROR(follow());
  Status status = averager_->finish(args);
  publish();
  return explain(std::move(status));
}

Status AveragerObject::load(std::span<const std::byte> bytes) {
  ASYNCMESH_RETURN_IF_ERROR(follow());
  return averager_->load(bytes);
}

void AveragerObject::publish() noexcept {
  const AveragerStats& stats = averager_->stats();
  const std::array<uint64_t, kCounters> values{stats.calls,
                                               stats.rounds_started,
                                               stats.rounds_applied,
                                               stats.rounds_skipped,
                                               stats.rounds_discarded,
                                               stats.frames_discarded,
                                               stats.not_finite,
                                               stats.too_few,
                                               stats.bytes_posted,
                                               static_cast<uint64_t>(stats.time_ns),
                                               static_cast<uint64_t>(stats.wait_ns),
                                               stats.q};
  for (size_t i = 0; i < kCounters; ++i) totals_[i].store(values[i], std::memory_order_relaxed);
}

void AveragerObject::read_counters(std::vector<Counter>& out) const {
  static constexpr std::array<const char*, kCounters> kNames{
      "calls",          "rounds_started",   "rounds_applied",
      "rounds_skipped", "rounds_discarded", "frames_discarded",
      "not_finite",     "too_few",          "bytes_posted",
      "time_ns",        "wait_ns",          "q"};
  for (size_t i = 0; i < kCounters; ++i)
    out.push_back(
        {fmt::format("{}.{}", name_, kNames[i]), totals_[i].load(std::memory_order_relaxed)});
}

}  // namespace asyncmesh::core
