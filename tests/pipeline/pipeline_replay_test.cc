// O-15, numerically: a pipeline of scalar stages driven by the schedules and the stash slots takes
// the same gradients as one serial program that evaluates every stage on its own delayed version.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "pipeline/stage_schedule.h"

namespace asyncmesh {
namespace {

constexpr double kRate = 0.02;
double input_of(uint64_t k) { return 1.0 + 0.5 * std::sin(static_cast<double>(k)); }
double target_of(uint64_t k) { return std::cos(static_cast<double>(k)); }

// Stage s computes y = w x + w^2 / 4; the loss is (y - target)^2 / 2 at the last one.
double forward(double w, double x) { return w * x + w * w / 4; }

struct Stage {
  StageSchedule schedule;
  std::vector<double> stash;     // by slot
  double w;                      // newest
  std::deque<double> inputs;     // activations that arrived
  std::deque<double> gradients;  // that arrived, of the output
  std::deque<double> kept;       // inputs of the micro-batches in flight
  std::deque<double> errors;     // last stage: output - target
  double accumulated = 0;
};

std::vector<Stage> make_pipeline(uint32_t stages) {
  std::vector<Stage> pipeline;
  for (uint32_t s = 0; s < stages; ++s) {
    StageSchedule schedule =
        StageSchedule::create({.stages = stages, .stage = s, .mode = StageMode::kDeterministic})
            .value();
    const double w = 0.5 + 0.1 * s;
    pipeline.push_back({schedule, std::vector<double>(schedule.ring(), w), w, {}, {}, {}, {}});
  }
  return pipeline;
}

void run(std::vector<Stage>& pipeline, uint32_t s, const StageAction& action) {
  Stage& stage = pipeline[s];
  const bool last = s + 1 == pipeline.size();
  if (action.step == StageStep::kForward) {
    const double x = s == 0 ? input_of(action.micro_batch) : stage.inputs.front();
    if (s > 0) stage.inputs.pop_front();
    stage.kept.push_back(x);
    const double y = forward(stage.stash[action.slot], x);
    if (last) {
      stage.errors.push_back(y - target_of(action.micro_batch));
    } else {
      pipeline[s + 1].inputs.push_back(y);
    }
  } else if (action.step == StageStep::kBackward) {
    std::deque<double>& source = last ? stage.errors : stage.gradients;
    const double gradient = source.front();
    source.pop_front();
    const double w = stage.stash[action.slot];
    stage.accumulated = gradient * (stage.kept.front() + w / 2);
    stage.kept.pop_front();
    if (s > 0) pipeline[s - 1].gradients.push_back(gradient * w);
  } else if (action.step == StageStep::kUpdate) {
    stage.w -= kRate * stage.accumulated;
    stage.stash[action.slot] = stage.w;
  }
}

// history[s][v]: weights of stage s after v updates.
std::vector<std::vector<double>> serial(uint32_t stages, uint64_t updates) {
  std::vector<std::vector<double>> history(stages);
  for (uint32_t s = 0; s < stages; ++s) history[s] = {0.5 + 0.1 * s};
  for (uint64_t k = 0; k < updates; ++k) {
    std::vector<double> w(stages);
    std::vector<double> x(stages + 1);
    x[0] = input_of(k);
    for (uint32_t s = 0; s < stages; ++s) {
      const uint64_t delay = stages - 1 - s;
      w[s] = history[s][k > delay ? k - delay : 0];
      x[s + 1] = forward(w[s], x[s]);
    }
    double gradient = x[stages] - target_of(k);
    for (uint32_t s = stages; s-- > 0;) {
      history[s].push_back(history[s].back() - kRate * (gradient * (x[s] + w[s] / 2)));
      gradient *= w[s];
    }
  }
  return history;
}

TEST(PipelineReplay, TakesTheGradientsOfMixedVersions) {
  for (const uint32_t stages : {1U, 2U, 4U}) {
    constexpr uint64_t kUpdates = 200;
    std::vector<Stage> pipeline = make_pipeline(stages);
    const std::vector<std::vector<double>> expected = serial(stages, kUpdates);
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t s = 0; s < stages; ++s) {
        Stage& stage = pipeline[s];
        if (stage.schedule.version() == kUpdates) continue;
        const bool last = s + 1 == stages;
        const StageAction action =
            stage.schedule.next({.forward = s == 0 || !stage.inputs.empty(),
                                 .backward = last || !stage.gradients.empty()});
        if (action.step == StageStep::kWait) continue;
        run(pipeline, s, action);
        moved = true;
        if (action.step == StageStep::kUpdate) {
          ASSERT_EQ(stage.w, expected[s][action.version]) << stages << " " << s;
        }
      }
    }
    for (const Stage& stage : pipeline) EXPECT_EQ(stage.schedule.version(), kUpdates);
  }
}

}  // namespace
}  // namespace asyncmesh
