// top_change: what is launched, and where its workspace is.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/top_change.h"
#include "kernels/cuda/top_change_steps.h"

namespace asyncmesh::kernels {
namespace selection {
namespace {

uint64_t elements_of(const ParameterTable& table) {
  uint64_t elements = 0;
  for (uint32_t i = 0; i < table.size; ++i) elements += table.tensors[i].count;
  return elements;
}

class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  template <typename T>
  T* take(uint64_t count) {
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  size_t bytes_ = 0;
};

// step(launch) for each launch that the table takes.
template <typename Step>
void for_launches(const ParameterTable& table, const Step& step) {
  TableLaunches launches(table, nullptr);
  while (launches.next()) step(launches.launch());
}

}  // namespace

size_t lay_out(uint64_t elements, void* workspace, Room& room) {
  Workspace memory(workspace);
  const uint64_t tiles = tiles_in(elements), rows = (elements + kScaled - 1) / kScaled;
  const uint64_t room_for = elements / 16 + kOpenBelow;
  room.capacity = static_cast<uint32_t>(room_for < elements ? room_for : elements);
  room.elements = elements;
  room.state = memory.take<State>(1);
  room.sample = memory.take<uint32_t>(kSample);
  room.tiles = memory.take<Tile>(tiles);
  room.before = memory.take<Pair>(tiles);
  room.pieces = memory.take<Pair>(tiles / kThreads + 1);
  room.upper = memory.take<Word>(rows);
  room.edge = memory.take<Word>(rows);
  room.survivors = memory.take<Survivor>(room.capacity);
  return memory.bytes();
}

namespace {

__global__ void forget_kernel(Threshold* threshold) {
  threshold->score = 0;
  threshold->passes = 0;
}

void find_score(const ParameterTable& table, const Scores& from, const Room& room, void* stream) {
  for (uint32_t round = 0; round < kRounds; ++round) {
    histogram_survivors(room, stream);
    for_launches(table,
                 [&](const TableLaunch& launch) { histogram_data(launch, from, room, stream); });
    pick(round, room, stream);
  }
  settle(room, stream);
  for_launches(table,
               [&](const TableLaunch& launch) { count(launch, from, Pass::kExact, room, stream); });
}

}  // namespace
}  // namespace selection

size_t cuda_top_change_workspace(uint64_t elements, uint64_t /*k*/) {
  selection::Room room;
  return selection::lay_out(elements, nullptr, room);
}

// The threshold of the call before is not used: see the README.
void cuda_top_change(const Change& change, uint64_t k, Threshold* threshold, uint32_t* indices,
                     void* workspace, const Execution& on) {
  using namespace selection;
  if (k == 0) return launch_kernel(forget_kernel, 1, 1, 0, on.stream, threshold);
  const uint64_t elements = elements_of(change.table);
  const Scores from = {change.reference, change.weight};
  Room room;
  lay_out(elements, workspace, room);
  if (elements <= kOpenBelow) {
    open_bracket(room, on.stream);
  } else {
    for_launches(change.table,
                 [&](const TableLaunch& launch) { sample(launch, from, room, on.stream); });
    bracket(k, room, on.stream);
  }
  for_launches(change.table, [&](const TableLaunch& launch) {
    count(launch, from, Pass::kFirst, room, on.stream);
  });
  judge(k, room, on.stream);
  find_score(change.table, from, room, on.stream);
  scan_tiles(room, threshold, on.stream);
  emit(k, room, indices, on.stream);
}

}  // namespace asyncmesh::kernels
