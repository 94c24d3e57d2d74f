#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_STAGE_OPPORTUNISTIC == static_cast<int>(StageMode::kOpportunistic));
static_assert(ASYNCMESH_STAGE_DETERMINISTIC == static_cast<int>(StageMode::kDeterministic));
static_assert(ASYNCMESH_STAGE_SYNCHRONOUS == static_cast<int>(StageMode::kSynchronous));
static_assert(ASYNCMESH_ACTION_WAIT == static_cast<int>(StageStep::kWait));
static_assert(ASYNCMESH_ACTION_FORWARD == static_cast<int>(StageStep::kForward));
static_assert(ASYNCMESH_ACTION_BACKWARD == static_cast<int>(StageStep::kBackward));
static_assert(ASYNCMESH_ACTION_UPDATE == static_cast<int>(StageStep::kUpdate));
static_assert(ASYNCMESH_ACTION_DONE == static_cast<int>(StageStep::kDone));

constexpr asyncmesh_stage_config_t kDefaults = ASYNCMESH_STAGE_CONFIG_INIT;

}  // namespace

asyncmesh_status_t asyncmesh_stage_create(const asyncmesh_stage_config_t* config,
                                          asyncmesh_stage_t** stage_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    if (stage_out == nullptr) return invalid("stage_out is null");
    asyncmesh_stage_config_t theirs = kDefaults;
    ASYNCMESH_RETURN_IF_ERROR(copy_in(config, &theirs));
    if (theirs.mode > ASYNCMESH_STAGE_SYNCHRONOUS) return invalid("mode is unknown");
    StageConfig mine;
    mine.stages = theirs.stages;
    mine.stage = theirs.stage;
    mine.in_flight = theirs.in_flight;
    mine.micro_batches_per_update = theirs.micro_batches;
    mine.mode = static_cast<StageMode>(theirs.mode);
    mine.total = theirs.total;
    auto schedule = StageSchedule::create(mine);
    if (!schedule.ok()) return schedule.status();
    *stage_out = new asyncmesh_stage{std::move(schedule.value()), {}};
    return {};
  });
}

asyncmesh_status_t asyncmesh_stage_next(asyncmesh_stage_t* stage, uint32_t ready,
                                        asyncmesh_action_t* action_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(stage, "stage"));
    if (action_out == nullptr) return invalid("action_out is null");
    ASYNCMESH_RETURN_IF_ERROR(check_size(action_out));
    if ((ready & ~uint32_t{ASYNCMESH_READY_FORWARD | ASYNCMESH_READY_BACKWARD}) != 0)
      return invalid("ready has unknown bits");
    const StageAction action = stage->schedule.next(
        {(ready & ASYNCMESH_READY_FORWARD) != 0, (ready & ASYNCMESH_READY_BACKWARD) != 0});
    asyncmesh_action_t mine{};
    mine.kind = static_cast<uint32_t>(action.step);
    mine.micro_batch = action.micro_batch;
    mine.version = action.version;
    mine.slot = action.slot;
    mine.ring = stage->schedule.ring();
    mine.delay = action.delay;
    copy_out(mine, action_out);
    return {};
  });
}

void asyncmesh_stage_destroy(asyncmesh_stage_t* stage) ASYNCMESH_NOEXCEPT { destroy(stage); }
