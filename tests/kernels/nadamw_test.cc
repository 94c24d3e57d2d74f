#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace asyncmesh::kernels {
namespace {

// The optimiser's part: per-step scalars, in double.
class Schedule {
 public:
  explicit Schedule(NadamwArgs args, double psi = 0.004) : args_(args), psi_(psi) {}

  NadamwArgs next() {
    ++step_;
    const double mu = momentum(step_), following = momentum(step_ + 1);
    product_ *= mu;
    args_.gradient_factor = args_.lr * (1 - mu) / (1 - product_);
    args_.momentum_factor = args_.lr * following / (1 - product_ * following);
    args_.variance_factor = 1 / (1 - std::pow(args_.beta2, step_));
    return args_;
  }

 private:
  double momentum(int step) const { return args_.beta1 * (1 - 0.5 * std::pow(0.96, step * psi_)); }
  NadamwArgs args_;
  double psi_;
  int step_ = 0;
  double product_ = 1;
};

// Double arithmetic; the scalars that multiply w, v and g^2 are fp32 as in torch.optim.NAdam on
// fp32 tensors, where they show after many steps: a decay of 1 - 1e-5 is off by 1.5e-8 per step.
struct Reference {
  double w, m = 0, v = 0;
  void step(double g, const NadamwArgs& a) {
    w *= static_cast<float>(1 - a.lr * a.weight_decay);
    g *= a.gradient_scale;
    m += (1 - a.beta1) * (g - m);
    v = static_cast<float>(a.beta2) * v + static_cast<float>(1 - a.beta2) * g * g;
    const double d = std::sqrt(v * a.variance_factor) + a.epsilon;
    w -= a.gradient_factor * g / d + a.momentum_factor * m / d;
  }
};

void expect_trajectory(double beta1, double decay, const std::vector<double>& expected) {
  NadamwArgs args;
  args.lr = 0.1;
  args.beta1 = beta1;
  args.weight_decay = decay;
  Schedule schedule(args);
  float w = 1, m = 0, v = 0;
  for (const double value : expected) {
    const float gradient = w;
    cpu().nadamw({&w, &gradient, Encoding::kFloat32, &m, &v}, 1, schedule.next(), {});
    EXPECT_NEAR(static_cast<double>(w), value, 3e-7);
  }
}

TEST(Nadamw, OracleO19WithDecay) {
  expect_trajectory(0.99, 0.01,
                    {0.898344031787, 0.833117215611, 0.778301095612, 0.728096182309, 0.680515285639,
                     0.634779223519});
}

TEST(Nadamw, OracleO19WithoutDecay) {
  expect_trajectory(0.9, 0.0,
                    {0.894354823221, 0.819973071532, 0.752729267616, 0.687716052741, 0.623662893783,
                     0.560437429154});
}

TEST(Nadamw, FollowsTheDoubleReferenceOverAThousandSteps) {
  constexpr uint64_t kCount = 203;
  std::mt19937_64 generator(3);
  std::normal_distribution<float> normal;
  NadamwArgs args;
  args.lr = 1e-3;
  args.beta1 = 0.99;
  args.weight_decay = 0.01;
  Schedule schedule(args);
  std::vector<float> w(kCount), m(kCount, 0), v(kCount, 0), g(kCount), mirror(kCount);
  std::vector<Reference> reference(kCount);
  for (uint64_t i = 0; i < kCount; ++i) reference[i].w = w[i] = normal(generator);
  for (int step = 0; step < 1000; ++step) {
    for (float& value : g) value = normal(generator);
    NadamwArgs now = schedule.next();
    now.gradient_scale = 0.5;
    const NadamwArrays arrays = {w.data(), g.data(), Encoding::kFloat32,
                                 m.data(), v.data(), mirror.data()};
    cpu().nadamw(arrays, kCount, now, {});
    for (uint64_t i = 0; i < kCount; ++i) reference[i].step(g[i], now);
  }
  double difference = 0, norm = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    difference += std::pow(static_cast<double>(w[i]) - reference[i].w, 2);
    norm += reference[i].w * reference[i].w;
  }
  // fp32 rounds w (1 - 1e-5) almost alike in neighbouring steps, so the errors add up: 6e-6 in a
  // serial emulation of the same operations.
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
  EXPECT_EQ(mirror, w);
}

TEST(Nadamw, ZeroGradientOnlyDecays) {
  NadamwArgs args;
  args.lr = 0.5;
  args.weight_decay = 0.5;
  Schedule schedule(args);
  float w = 2, m = 0, v = 0;
  const float gradient = 0;
  cpu().nadamw({&w, &gradient, Encoding::kFloat32, &m, &v}, 1, schedule.next(), {});
  EXPECT_EQ(w, 1.5F);
}

TEST(SumOfSquares, IsRepeatableAndWritesOneSlot) {
  std::vector<float> values(12345);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  std::vector<double> first(kSumSlots, -1), second(kSumSlots, -1);
  cpu().sum_of_squares(values.data(), values.size(), first.data(), {});
  cpu().sum_of_squares(values.data(), values.size(), second.data(), {});
  EXPECT_EQ(first, second);
  EXPECT_NEAR(first[0], 12345 / 2.0, 1.0);
}

}  // namespace
}  // namespace asyncmesh::kernels
