// A random sample of a change's scores.
#pragma once

#include <cstdint>

#include "kernels/cpu/top_change.h"

namespace asyncmesh::kernels {

// How far the rank of the k-th score in a sample may lie from its expectation.
double sample_margin(uint64_t sampled, double share) noexcept;

// sample[begin, end) of a sample of `sampled` of `elements`: one random element of each of so many
// equal strata. Random positions make the bound hold for any data; strata make them ascending, and
// the bound no weaker (Hoeffding, 1956).
void sample_scores(const Change& change, uint64_t elements, uint64_t sampled, uint64_t begin,
                   uint64_t end, int32_t* sample) noexcept;

// The scores at two descending ranks, counted from 1. Rank 0 or less, and any above `sampled`, are
// open. Reorders the sample; `histogram` has kBuckets.
Bracket bracket_of_sample(int32_t* sample, uint64_t sampled, double high_rank, double low_rank,
                          uint32_t* histogram) noexcept;

}  // namespace asyncmesh::kernels
