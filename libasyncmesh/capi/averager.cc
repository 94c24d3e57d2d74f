#include <fmt/format.h>

#include <cmath>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_RULE_AVERAGE == static_cast<int>(kernels::Rule::kAverage));
static_assert(ASYNCMESH_RULE_DELTA == static_cast<int>(kernels::Rule::kDelta));
static_assert(ASYNCMESH_RULE_EMA == static_cast<int>(kernels::Rule::kEma));
static_assert(ASYNCMESH_INIT_FIRST_VISIT == static_cast<int>(EmaInit::kFirstVisit));
static_assert(ASYNCMESH_INIT_ZERO == static_cast<int>(EmaInit::kZero));
static_assert(ASYNCMESH_INIT_PARITY == static_cast<int>(EmaInit::kParity));
static_assert(ASYNCMESH_MODE_OPPORTUNISTIC == static_cast<int>(AveragingMode::kOpportunistic));
static_assert(ASYNCMESH_MODE_DETERMINISTIC == static_cast<int>(AveragingMode::kDeterministic));
static_assert(ASYNCMESH_REDRAW_EVERY_CYCLE == static_cast<int>(Redraw::kEveryCycle));
static_assert(ASYNCMESH_REDRAW_NEVER == static_cast<int>(Redraw::kFixed));
static_assert(ASYNCMESH_SELECTION_ROTATION == static_cast<int>(Selection::kRotation));
static_assert(ASYNCMESH_SELECTION_RANDOM == static_cast<int>(Selection::kRandom));
static_assert(ASYNCMESH_WIRE_FLOAT32 == static_cast<int>(ASYNCMESH_FLOAT32));
static_assert(ASYNCMESH_WIRE_BFLOAT16 == static_cast<int>(ASYNCMESH_BFLOAT16));
static_assert(ASYNCMESH_WIRE_FLOAT16 == static_cast<int>(ASYNCMESH_FLOAT16));
static_assert(ASYNCMESH_ROUNDING_NEAREST == static_cast<int>(kernels::Rounding::kNearest));
static_assert(ASYNCMESH_ROUNDING_STOCHASTIC == static_cast<int>(kernels::Rounding::kStochastic));

constexpr asyncmesh_averager_config_t kDefaults = ASYNCMESH_AVERAGER_CONFIG_INIT;
constexpr asyncmesh_averager_call_t kCallDefaults = ASYNCMESH_AVERAGER_CALL_INIT;
constexpr asyncmesh_mean_t kMeanDefaults = ASYNCMESH_MEAN_INIT;

Status in_range(const char* name, uint32_t value, uint32_t last) {
  if (value <= last) return {};
  return Status(Code::kInvalidArgument, fmt::format("{} {} is not in 0..{}", name, value, last));
}

// Apart from the dtypes that do not travel: an integer table is not a table in 4 bits.
Status read_wire(asyncmesh_wire_t wire, kernels::Encoding* out) {
  switch (wire) {
    case ASYNCMESH_WIRE_FLOAT32:
      *out = kernels::Encoding::kFloat32;
      return {};
    case ASYNCMESH_WIRE_BFLOAT16:
      *out = kernels::Encoding::kBfloat16;
      return {};
    case ASYNCMESH_WIRE_FLOAT16:
      *out = kernels::Encoding::kFloat16;
      return {};
    case ASYNCMESH_WIRE_INT8:
      *out = kernels::Encoding::kInt8;
      return {};
    case ASYNCMESH_WIRE_INT4:
      *out = kernels::Encoding::kInt4;
      return {};
    default:
      return Status(Code::kInvalidArgument,
                    fmt::format("wire {} is none of ASYNCMESH_WIRE_*", wire));
  }
}

Status read_config(const asyncmesh_averager_config_t* theirs, core::AveragerRequest* out) {
  asyncmesh_averager_config_t mine = kDefaults;
  ASYNCMESH_RETURN_IF_ERROR(copy_in(theirs, &mine));
  ASYNCMESH_RETURN_IF_ERROR(in_range("rule", mine.rule, ASYNCMESH_RULE_EMA));
  ASYNCMESH_RETURN_IF_ERROR(in_range("init", mine.init, ASYNCMESH_INIT_PARITY));
  ASYNCMESH_RETURN_IF_ERROR(in_range("mode", mine.mode, ASYNCMESH_MODE_DETERMINISTIC));
  ASYNCMESH_RETURN_IF_ERROR(in_range("redraw", mine.redraw, ASYNCMESH_REDRAW_NEVER));
  ASYNCMESH_RETURN_IF_ERROR(in_range("selection", mine.selection, ASYNCMESH_SELECTION_RANDOM));
  ASYNCMESH_RETURN_IF_ERROR(in_range("rounding", mine.rounding, ASYNCMESH_ROUNDING_STOCHASTIC));
  AveragerConfig& config = out->config;
  ASYNCMESH_RETURN_IF_ERROR(read_wire(mine.wire, &config.encoding));
  config.rounding = static_cast<kernels::Rounding>(mine.rounding);
  config.selection = static_cast<Selection>(mine.selection);
  config.fraction = mine.fraction;
  config.granularity = mine.granularity;
  config.rule = static_cast<kernels::Rule>(mine.rule);
  config.init = static_cast<EmaInit>(mine.init);
  config.mode = static_cast<AveragingMode>(mine.mode);
  config.window = mine.window;
  config.redraw = static_cast<Redraw>(mine.redraw);
  config.seed = mine.seed;
  config.group_key = mine.group;
  config.scale = mine.scale;
  config.momentum_first = mine.momentum_first;
  config.momentum_last = mine.momentum_last;
  config.warm_up = mine.warm_up;
  out->timeout = mine.create_timeout_ns;
  return {};
}

Status read_mean(const core::Context& context, const asyncmesh_mean_t* theirs, MeanArgs* out) {
  asyncmesh_mean_t mine = kMeanDefaults;
  ASYNCMESH_RETURN_IF_ERROR(copy_in(theirs, &mine));
  if (!std::isfinite(mine.weight) || mine.weight < 0)
    return invalid("weight is not finite, or < 0");
  out->weight = mine.weight;
  out->deadline = deadline_after(context.clock(), mine.timeout_ns);
  return {};
}

void write_result(const CallResult& result, Nanoseconds time, asyncmesh_averager_result_t* theirs) {
  asyncmesh_averager_result_t mine{};
  mine.started = result.started;
  mine.applied = result.applied;
  mine.skipped = result.skipped;
  mine.open = result.open;
  mine.age_rounds = result.age_rounds;
  mine.age_calls = result.age_calls;
  mine.age_ns = static_cast<uint64_t>(result.age_ns);
  mine.wait_ns = static_cast<uint64_t>(result.wait_ns);
  mine.time_ns = static_cast<uint64_t>(time);
  mine.bytes_posted = result.bytes_posted;
  copy_out(mine, theirs);
}

asyncmesh_averager_info_t info_of(const Averager& averager) {
  const AveragerStats& stats = averager.stats();
  asyncmesh_averager_info_t info{};
  info.parts = averager.partition().parts();
  info.blocks = averager.partition().blocks();
  info.elements = averager.partition().elements();
  info.members = averager.members();
  info.calls = stats.calls;
  info.rounds_started = stats.rounds_started;
  info.rounds_applied = stats.rounds_applied;
  info.rounds_skipped = stats.rounds_skipped;
  info.rounds_discarded = stats.rounds_discarded;
  info.frames_discarded = stats.frames_discarded;
  info.not_finite = stats.not_finite;
  info.too_few = stats.too_few;
  info.bytes_posted = stats.bytes_posted;
  info.time_ns = static_cast<uint64_t>(stats.time_ns);
  info.wait_ns = static_cast<uint64_t>(stats.wait_ns);
  info.q = stats.q;
  info.margin = stats.margin;
  return info;
}

}  // namespace

asyncmesh_status_t asyncmesh_averager_create(
    asyncmesh_mesh_t* mesh, asyncmesh_region_t* region, const asyncmesh_averager_config_t* config,
    asyncmesh_averager_t** averager_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(mesh, "mesh"));
    ASYNCMESH_RETURN_IF_ERROR(usable(region, "region"));
    if (averager_out == nullptr) return invalid("averager_out is null");
    core::AveragerRequest request;
    ASYNCMESH_RETURN_IF_ERROR(::read_config(config, &request));
    auto averager = core::AveragerObject::create(mesh->object, region->object, request);
    if (!averager.ok()) return averager.status();
    *averager_out = new asyncmesh_averager{std::move(averager.value())};
    return {};
  });
}

asyncmesh_status_t asyncmesh_averager_call(
    asyncmesh_averager_t* averager, const asyncmesh_averager_call_t* call,
    asyncmesh_averager_result_t* result_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    asyncmesh_averager_call_t mine = kCallDefaults;
    ASYNCMESH_RETURN_IF_ERROR(copy_in(call, &mine));
    if (result_out != nullptr) ASYNCMESH_RETURN_IF_ERROR(check_size(result_out));
    if (mine.mirror != nullptr) ASYNCMESH_RETURN_IF_ERROR(usable(mine.mirror, "mirror"));
    const Clock& clock = averager->object->context().clock();
    const Nanoseconds since = clock.now();
    CallArgs args;
    args.weight = mine.weight;
    args.progress = mine.progress;
    args.deadline = deadline_after(clock, mine.timeout_ns);
    CallResult result;
    const core::Region* mirror = mine.mirror == nullptr ? nullptr : mine.mirror->object.get();
    ASYNCMESH_RETURN_IF_ERROR(averager->object->call(args, mirror, &result));
    if (result_out != nullptr) write_result(result, clock.now() - since, result_out);
    return {};
  });
}

asyncmesh_status_t asyncmesh_averager_mean(asyncmesh_averager_t* averager, asyncmesh_region_t* in,
                                           asyncmesh_region_t* out,
                                           const asyncmesh_mean_t* mean) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    ASYNCMESH_RETURN_IF_ERROR(usable(in, "in"));
    ASYNCMESH_RETURN_IF_ERROR(usable(out, "out"));
    MeanArgs args;
    ASYNCMESH_RETURN_IF_ERROR(read_mean(averager->object->context(), mean, &args));
    return averager->object->mean(*in->object, *out->object, args);
  });
}

asyncmesh_status_t asyncmesh_averager_finish(asyncmesh_averager_t* averager,
                                             int64_t timeout_ns) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    MeanArgs args;
    args.deadline = deadline_after(averager->object->context().clock(), timeout_ns);
    return averager->object->finish(args);
  });
}

asyncmesh_status_t asyncmesh_averager_query(
    asyncmesh_averager_t* averager, asyncmesh_averager_info_t* info_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    if (info_out == nullptr) return invalid("info_out is null");
    ASYNCMESH_RETURN_IF_ERROR(check_size(info_out));
    copy_out(info_of(averager->object->averager()), info_out);
    return {};
  });
}

asyncmesh_status_t asyncmesh_averager_partition(asyncmesh_averager_t* averager, uint64_t cycle,
                                                uint32_t* parts_out,
                                                uint64_t capacity) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    if (parts_out == nullptr) return invalid("parts_out is null");
    const Partition& partition = averager->object->averager().partition();
    if (capacity < partition.elements())
      return Status(Code::kTooLarge,
                    fmt::format("{} elements, capacity {}", partition.elements(), capacity));
    partition.part_of_elements(cycle, parts_out);
    return {};
  });
}

asyncmesh_status_t asyncmesh_averager_save(asyncmesh_averager_t* averager, void* buffer,
                                           uint64_t capacity,
                                           uint64_t* need_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    if (need_out == nullptr) return invalid("need_out is null");
    if (buffer == nullptr && capacity != 0) return invalid("buffer is null");
    *need_out = averager->object->averager().state_bytes();
    return averager->object->save({static_cast<std::byte*>(buffer), capacity});
  });
}

asyncmesh_status_t asyncmesh_averager_load(asyncmesh_averager_t* averager, const void* buffer,
                                           uint64_t size) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(averager, "averager"));
    if (buffer == nullptr) return invalid("buffer is null");
    return averager->object->load({static_cast<const std::byte*>(buffer), size});
  });
}

void asyncmesh_averager_destroy(asyncmesh_averager_t* averager) ASYNCMESH_NOEXCEPT {
  destroy(averager);
}
