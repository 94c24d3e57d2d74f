// An optimiser on tables of a test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "pipeline/nadamw.h"
#include "support/tensors.h"

namespace asyncmesh::test {

struct Bench {
  explicit Bench(std::vector<uint64_t> counts, const NadamwConfig& config = {},
                 kernels::Workers* workers = nullptr) {
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    w.resize(total);
    g.resize(total);
    weights = tensors_in(w.data(), counts);
    gradients = tensors_in(g.data(), counts);
    Result<std::unique_ptr<Nadamw>> made =
        Nadamw::create(config, weights, gradients, kernels::cpu(), {.workers = workers});
    EXPECT_TRUE(made.ok()) << made.status().text();
    optimiser = std::move(made.value());
  }
  Status step(const NadamwStep& arguments) { return optimiser->step(arguments, nullptr); }

  std::vector<float> w, g;
  Tensors weights, gradients;
  std::unique_ptr<Nadamw> optimiser;
};

inline void randomise(std::vector<float>& values, CounterRandom& random) {
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
}

}  // namespace asyncmesh::test
