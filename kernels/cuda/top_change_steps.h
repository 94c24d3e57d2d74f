// The steps of top_change, in the order of their launches; see top_change.h.
#pragma once

#include "kernels/cuda/top_change.h"

namespace asyncmesh::kernels::selection {

// Each starts `state` afresh.
void open_bracket(const Room& room, void* stream);
void bracket(uint64_t k, const Room& room, void* stream);  // after the samples
void sample(const TableLaunch& table, const Scores& from, const Room& room, void* stream);

enum class Pass : uint8_t { kFirst, kExact };  // kExact returns at once unless it is needed

void count(const TableLaunch& table, const Scores& from, Pass pass, const Room& room, void* stream);
void judge(uint64_t k, const Room& room, void* stream);
void histogram_data(const TableLaunch& table, const Scores& from, const Room& room, void* stream);
void histogram_survivors(const Room& room, void* stream);
void pick(uint32_t round, const Room& room, void* stream);
void settle(const Room& room, void* stream);

// `threshold` is device memory.
void scan_tiles(const Room& room, Threshold* threshold, void* stream);
void emit(uint64_t k, const Room& room, uint32_t* indices, void* stream);

}  // namespace asyncmesh::kernels::selection
