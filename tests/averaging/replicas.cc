#include "averaging/replicas.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace asyncmesh::test {

Replicas::Replicas(uint32_t count, const AveragerConfig& config, std::vector<uint64_t> tensors,
                   const Options& options)
    : counts_(std::move(tensors)),
      elements_(std::accumulate(counts_.begin(), counts_.end(), uint64_t{0})),
      members_(count) {
  std::vector<float> sample(elements_);
  Result<AveragerGeometry> geometry = averager_geometry(config, table(sample));
  if (!geometry.ok()) {
    status_ = geometry.status();
    EXPECT_TRUE(options.quiet) << status_.text();
    return;
  }
  MailboxGeometry rounds = geometry.value().rounds;
  MailboxGeometry means = geometry.value().means;
  if (options.payload_bytes != 0) {
    rounds.slots *= (rounds.payload_bytes + options.payload_bytes - 1) / options.payload_bytes;
    rounds.payload_bytes = means.payload_bytes = options.payload_bytes;
  }
  std::vector<Rank> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0U);
  for (uint32_t i = 0; i < count; ++i) {
    Member& member = members_[i];
    member.weights.assign(elements_, 0.0F);
    MailboxConfig mailbox{
        .members = ranks, .self = i, .slots = rounds.slots, .payload_bytes = rounds.payload_bytes};
    member.rounds = std::make_unique<Mailbox>(mailbox, clock_, submitter_);
    mailbox.slots = means.slots;
    mailbox.payload_bytes = means.payload_bytes;
    member.means = std::make_unique<Mailbox>(mailbox, clock_, submitter_);
    member.waiter = std::make_unique<PumpWaiter>(rounds_mesh_, means_mesh_, clock_);
    rounds_mesh_.attach(i, member.rounds->port());
    means_mesh_.attach(i, member.means->port());
    member.words.assign(elements_, 0);
    const bool words = !kernels::lossless(options.storage);
    void* const memory = words ? static_cast<void*>(member.words.data()) : member.weights.data();
    const Tensors views = tensors_in(memory, counts_, options.storage);
    Result<std::unique_ptr<Averager>> averager = Averager::create(config, views,
                                                                  {.rounds = *member.rounds,
                                                                   .means = *member.means,
                                                                   .kernels = kernels::cpu(),
                                                                   .clock = clock_,
                                                                   .waiter = *member.waiter,
                                                                   .on = {options.workers}});
    status_ = averager.status();
    if (!averager.ok()) {
      EXPECT_TRUE(options.quiet) << status_.text();
      return;
    }
    member.averager = std::move(averager.value());
  }
  rounds_mesh_.connect();
  means_mesh_.connect();
}

Replicas::~Replicas() {
  EXPECT_EQ(rounds_mesh_.violations() + means_mesh_.violations(), 0U);
  rounds_mesh_.cut_all();
  means_mesh_.cut_all();
}

void Replicas::reset_links(uint32_t a, uint32_t b) {
  for (FakeMesh* mesh : {&rounds_mesh_, &means_mesh_}) {
    mesh->cut(a, b);
    mesh->connect();
  }
}

void Replicas::add(uint32_t replica, const std::function<float(uint64_t)>& change) {
  for (uint64_t i = 0; i < elements_; ++i) weights(replica)[i] += change(i);
}

CallResult Replicas::call(uint32_t replica, const CallArgs& args) {
  CallResult result;
  const Status status = averager(replica).call(args, &result);
  EXPECT_TRUE(status.ok()) << status.text();
  return result;
}

void Replicas::call_all(const CallArgs& args) {
  for (const Status& status :
       run_all([&](uint32_t replica) { return averager(replica).call(args, nullptr); })) {
    ASSERT_TRUE(status.ok()) << status.text();
  }
}

std::vector<Status> Replicas::run_all(std::span<const uint32_t> who,
                                      const std::function<Status(uint32_t)>& operation) {
  std::vector<Status> statuses(size(), Status(Code::kTimeout));
  for (int lap = 0; lap < 1000; ++lap) {
    bool again = false;
    for (const uint32_t replica : who) {
      if (statuses[replica].code() != Code::kTimeout) continue;
      statuses[replica] = operation(replica);
      pump();
      again = again || statuses[replica].code() == Code::kTimeout;
    }
    if (!again) break;
  }
  return statuses;
}

std::vector<Status> Replicas::run_all(const std::function<Status(uint32_t)>& operation) {
  std::vector<uint32_t> all(size());
  std::iota(all.begin(), all.end(), 0U);
  return run_all(all, operation);
}

std::vector<uint32_t> parts_of_elements(const Averager& averager, uint64_t cycle) {
  std::vector<uint32_t> parts(averager.partition().elements());
  averager.partition().part_of_elements(cycle, parts.data());
  return parts;
}

AveragerConfig oracle_config(kernels::Rule rule, double fraction, uint32_t tau) {
  AveragerConfig config;
  config.fraction = fraction;
  config.granularity = 1;
  config.rule = rule;
  config.mode = AveragingMode::kDeterministic;
  config.window = tau;
  config.redraw = Redraw::kFixed;
  config.momentum_first = 0.5;
  config.momentum_last = 0.5;
  return config;
}

AveragerConfig opportunistic(double fraction, uint32_t window) {
  AveragerConfig config = oracle_config(kernels::Rule::kEma, fraction, window);
  config.mode = AveragingMode::kOpportunistic;
  return config;
}

void randomise(Replicas& replicas, uint64_t seed) {
  CounterRandom random(seed);
  for (uint32_t r = 0; r < replicas.size(); ++r) {
    replicas.add(r, [&](uint64_t) { return static_cast<float>(random.uniform()); });
  }
}

void expect_all(const std::vector<Status>& statuses, Code code) {
  for (const Status& status : statuses) EXPECT_EQ(status.code(), code) << status.text();
}

}  // namespace asyncmesh::test
