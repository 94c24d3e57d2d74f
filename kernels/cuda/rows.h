// Rows of kScaled = 64 positions, four lanes to each: a lane has the quads lane, lane + 4, ... of
// its row, so that finding a row's place is shared by 16 values and the largest value of a row
// takes two shuffles.
//
// A row that lies in one piece is read and written by quads where the arrays are aligned; any
// other, value by value. Loops over rows keep a warp together, as shuffles need.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/geometry.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quads.h"
#include "kernels/cuda/sources.h"

namespace asyncmesh::kernels::device {

inline constexpr uint32_t kRowLanes = 4;
inline constexpr uint32_t kLaneValues = kScaled / kRowLanes;
inline constexpr uint32_t kRowsPerGroup = kThreads / kRowLanes;
inline constexpr uint32_t kAllPresent = (1U << kLaneValues) - 1;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// Where in its row a lane's value number `i` lies.
__device__ inline uint32_t lane_offset(uint32_t lane, uint32_t i) {
  return i / 4 * 16 + lane * 4 + i % 4;
}

// visit(row, lane) for rows [first, last), and for some rows beyond: whole warps take part.
template <typename Visit>
__device__ void for_rows(uint64_t first, uint64_t last, const Visit& visit) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * kRowsPerGroup;
  const uint32_t lane = threadIdx.x % kRowLanes;
  uint64_t row =
      first + static_cast<uint64_t>(blockIdx.x) * kRowsPerGroup + threadIdx.x / kRowLanes;
  const uint64_t in_warp = threadIdx.x % kWarp / kRowLanes;
  for (; row - in_warp < last; row += stride) visit(row, lane);
}

// Over the lanes of the caller's row; all lanes of the warp call it.
__device__ inline uint32_t largest_of_row(uint32_t value) {
  for (int step = 1; step < static_cast<int>(kRowLanes); step *= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, value, step);
    value = value < other ? other : value;
  }
  return value;
}

// Whether quads can be read from a tensor at a place.
__device__ inline bool aligned(const void* tensor, const LaunchPlace& place, Encoding storage) {
  return quads_aligned(at_value(tensor, place.offset, storage), storage);
}

// The place of a whole row; its run is below kScaled where the row does not lie in one piece, or
// not in [begin, end).
template <typename Source>
__device__ LaunchPlace find_row(const Source& source, uint64_t position) {
  LaunchPlace place = {};
  if (Source::kScattered || position < source.begin() || position + kScaled > source.end()) {
    return place;
  }
  return source.find(position);
}

// Finds the values of ascending positions, and looks only where the run of the last one ends.
template <typename Source>
class Walk {
 public:
  __device__ explicit Walk(const Source& source) : source_(source), place_(), position_(0) {}
  // Starts at a place that is known.
  __device__ Walk(const Source& source, uint64_t position, const LaunchPlace& place)
      : source_(source), place_(place), position_(position) {}

  // Its data is null where this launch does not have the value.
  __device__ const LaunchPlace& to(uint64_t position) {
    const uint64_t distance = position - position_;
    if (distance < place_.run) {
      place_.offset += distance;
      place_.element += distance;
      place_.run -= distance;
    } else if (position >= source_.begin() && position < source_.end()) {
      place_ = source_.find(position);
    } else {
      place_ = {};
    }
    position_ = position;
    return place_;
  }

 private:
  const Source& source_;
  LaunchPlace place_;
  uint64_t position_;
};

// The lane's values of the row that starts at `position`, 0 where there is none; returns which
// there are, one bit each.
template <typename Source>
__device__ uint32_t gather(const Source& source, uint64_t position, uint32_t lane,
                           float (&values)[kLaneValues]) {
  ASYNCMESH_UNROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) values[i] = 0;
  const Encoding storage = source.table().storage;
  const LaunchPlace whole = find_row(source, position);
  if (whole.run >= kScaled && whole.data == nullptr) return 0;
  if (whole.run >= kScaled && aligned(in_global(whole.data), whole, storage)) {
    Raw<4> raw[kLaneValues / 4];
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
      raw[k] = read_raw<4>(in_global(whole.data), whole.offset + lane_offset(lane, 4 * k), storage);
    }
    ASYNCMESH_UNROLLED
    for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
      const Values<4> quad = decode<4>(raw[k], storage);
      for (uint32_t j = 0; j < 4; ++j) values[4 * k + j] = quad.at[j];
    }
    return kAllPresent;
  }
  uint32_t present = 0;
  Walk<Source> walk(source, position, whole);
  ASYNCMESH_ROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    const LaunchPlace& place = walk.to(position + lane_offset(lane, i));
    if (place.data == nullptr) continue;
    const float value = read<1>(in_global(place.data), place.offset, storage).at[0];
    present |= 1U << i;
    ASYNCMESH_UNROLLED
    for (uint32_t j = 0; j < kLaneValues; ++j) values[j] = i == j ? value : values[j];
  }
  return present;
}

template <typename Body>
__device__ void visit_quads(const LaunchPlace& whole, uint64_t row, uint32_t lane, Body& body) {
  ASYNCMESH_UNROLLED
  for (uint32_t k = 0; k < kLaneValues / 4; ++k) {
    const uint32_t offset = lane_offset(lane, 4 * k);
    LaunchPlace place = whole;
    place.offset += offset;
    place.element += offset;
    body.template run<4>(place, row * kScaled + offset);
  }
}

template <typename Body, typename = void>
inline constexpr bool kTakesRows = false;
template <typename Body>
inline constexpr bool kTakesRows<Body, decltype(&Body::row, void())> = true;

// body.run<4>(place, position) or body.run<1>(place, position) for every value of the lane that is
// there; four, or body.row(place, lane) if it has that, where body.aligned(place) says so of the
// row's place.
template <typename Source, typename Body>
__device__ void visit_row(const Source& source, uint64_t row, uint32_t lane, Body& body) {
  const LaunchPlace whole = find_row(source, row * kScaled);
  if (whole.run >= kScaled && whole.data == nullptr) return;
  if (whole.run >= kScaled && body.aligned(whole)) {
    if constexpr (kTakesRows<Body>) {
      body.row(whole, lane);
    } else {
      visit_quads(whole, row, lane, body);
    }
    return;
  }
  Walk<Source> walk(source, row * kScaled, whole);
  ASYNCMESH_ROLLED
  for (uint32_t i = 0; i < kLaneValues; ++i) {
    const uint64_t position = row * kScaled + lane_offset(lane, i);
    const LaunchPlace& place = walk.to(position);
    if (place.data != nullptr) body.template run<1>(place, position);
  }
}

template <typename Source, typename Body>
__device__ void visit_rows(const Source& source, Body& body) {
  for_rows(source.begin() / kScaled, (source.end() + kScaled - 1) / kScaled,
           [&](uint64_t row, uint32_t lane) { visit_row(source, row, lane, body); });
}

}  // namespace asyncmesh::kernels::device
