// Runs of values from and to wire bytes on the calling thread, for the best instruction set of this
// machine. Sources that are compiled once per target take quantise-inl.h instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/wire.h"

namespace asyncmesh::kernels {

// values[0, count) as `wire` says. `first` is the number of values[0] in the whole run: a multiple
// of kGroup for scaled encodings (`out` then starts a group), of kScaled for stochastic rounding.
// `stream`: past the caches (streaming.h); `out` is then aligned to 64.
void quantise_values(const float* values, uint64_t count, const Wire& wire, uint64_t first,
                     std::byte* out, bool stream = false);

// Values [first, first + count) of the run encoded at `encoded`. For scaled encodings `first` is a
// multiple of kScaled. `stream` as above.
void dequantise_values(const std::byte* encoded, Encoding encoding, uint64_t first, uint64_t count,
                       float* out, bool stream = false);

}  // namespace asyncmesh::kernels
