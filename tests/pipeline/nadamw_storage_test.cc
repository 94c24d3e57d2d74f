// NAdamW with threads, on tables without fp32 masters, and with mirrors of another storage.
#include <cmath>
#include <limits>

#include "kernels/encoding.h"
#include "kernels/workers.h"
#include "pipeline/nadamw_bench.h"
#include "support/alloc_guard.h"

namespace asyncmesh::test {
namespace {

// Large enough that the kernels do cut it.
void run_with_threads(kernels::Workers* workers, std::vector<float>* weights_out) {
  Bench bench({300'000, 7, 100'001}, {}, workers);
  CounterRandom random(6);
  randomise(bench.w, random);
  std::vector<float> copy(bench.w.size());
  const Tensors views = tensors_in(copy.data(), {300'000, 7, 100'001});
  const kernels::ParameterTable mirror = views;
  for (int step = 0; step < 5; ++step) {
    randomise(bench.g, random);
    ASSERT_TRUE(bench.step({.lr = 0.1, .clip_norm = 1.0, .mirror = &mirror}).ok());
    EXPECT_EQ(copy, bench.w);
  }
  const AllocGuard guard;
  const Status status = bench.step({.lr = 0.1, .clip_norm = 1.0});
  EXPECT_EQ(guard.in_process(), 0U);
  EXPECT_TRUE(status.ok());
  *weights_out = bench.w;
}

TEST(Nadamw, ThreadsChangeNoResultAndAllocateNothing) {
  std::vector<float> alone, with;
  run_with_threads(nullptr, &alone);
  for (const uint32_t threads : {1U, 2U, 3U}) {
    const std::unique_ptr<kernels::Workers> workers = kernels::make_thread_team(threads);
    run_with_threads(workers.get(), &with);
    EXPECT_EQ(with, alone) << threads;
  }
}

// ---- Storages ---------------------------------------------------------------------------------

uint16_t word_of(float value, kernels::Encoding storage) {
  return storage == kernels::Encoding::kBfloat16 ? kernels::to_bfloat16(value)
                                                 : kernels::to_float16(value);
}
float float_of(uint16_t word, kernels::Encoding storage) {
  return storage == kernels::Encoding::kBfloat16 ? kernels::from_bfloat16(word)
                                                 : kernels::from_float16(word);
}
constexpr kernels::Encoding kWords[] = {kernels::Encoding::kBfloat16, kernels::Encoding::kFloat16};

TEST(Nadamw, AMirrorOfAnotherStorageReceivesTheNearest) {
  for (const kernels::Encoding storage : kWords) {
    Bench bench({3000, 0, 5});
    CounterRandom random(1);
    randomise(bench.w, random);
    randomise(bench.g, random);
    std::vector<uint16_t> copy(3005);
    const Tensors views = tensors_in(copy.data(), {3000, 0, 5}, storage);
    const kernels::ParameterTable mirror = views;
    for (const bool skip : {true, false}) {
      ASSERT_TRUE(bench.step({.lr = 0.1, .skip = skip, .mirror = &mirror}).ok());
      for (size_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i], word_of(bench.w[i], storage));
    }
  }
}

// One step from masters that hold what the words hold, rounded; moments go on in fp32.
TEST(Nadamw, TablesWithoutMastersAreSteppedAsMastersAndRounded) {
  for (const kernels::Encoding storage : kWords) {
    const std::vector<uint64_t> counts{700, 0, 31};
    Bench masters(counts);
    std::vector<uint16_t> w(731), g(731);
    const Tensors weights = tensors_in(w.data(), counts, storage);
    const Tensors gradients = tensors_in(g.data(), counts, storage);
    auto words = std::move(Nadamw::create({}, weights, gradients, kernels::cpu()).value());
    CounterRandom random(2);
    randomise(masters.w, random);
    for (size_t i = 0; i < w.size(); ++i) w[i] = word_of(masters.w[i], storage);
    std::vector<float> exact(w.size());
    const Tensors views = tensors_in(exact.data(), counts);
    const kernels::ParameterTable mirror = views;
    for (int step = 0; step < 5; ++step) {
      randomise(masters.g, random);
      for (size_t i = 0; i < w.size(); ++i) {
        g[i] = word_of(masters.g[i], storage);
        masters.g[i] = float_of(g[i], storage);
        masters.w[i] = float_of(w[i], storage);
      }
      const NadamwStep args{.lr = 0.05, .clip_norm = 3.0, .mirror = &mirror};
      double norm = 0, expected = 0;
      ASSERT_TRUE(words->step(args, &norm).ok());
      ASSERT_TRUE(masters.optimiser->step({.lr = 0.05, .clip_norm = 3.0}, &expected).ok());
      EXPECT_NEAR(norm, expected, 1e-12 * expected);
      for (size_t i = 0; i < w.size(); ++i) {
        ASSERT_NEAR(exact[i], masters.w[i],
                    1e-6F);  // unrounded; clipped by a norm summed otherwise
        ASSERT_EQ(w[i], word_of(exact[i], storage)) << i;
      }
    }
    ASSERT_TRUE(words->step({.skip = true, .mirror = &mirror}, nullptr).ok());
    for (size_t i = 0; i < w.size(); ++i) ASSERT_EQ(exact[i], float_of(w[i], storage));
    g[730] = word_of(std::numeric_limits<float>::infinity(), storage);
    EXPECT_EQ(words->step({.lr = 0.1, .clip_norm = 1.0}, nullptr).code(), Code::kInvalidArgument);
    std::vector<float> floats(731);
    const Tensors wide = tensors_in(floats.data(), counts);
    EXPECT_EQ(words->rebind(wide, wide).code(), Code::kInvalidArgument);
    EXPECT_EQ(words->rebind(weights, wide).code(), Code::kInvalidArgument);
    EXPECT_TRUE(words->rebind(gradients, weights).ok());
  }
}

}  // namespace
}  // namespace asyncmesh::test
