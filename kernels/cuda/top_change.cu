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

// Every launch starts a tile.
uint64_t most_tiles(uint64_t elements) {
  return elements / kTile + elements / TableLaunch::kMaxTensors + 2;
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

// step(launch, number of its first tile) for each launch; returns the number of tiles.
template <typename Step>
uint64_t for_launches(const ParameterTable& table, const Step& step) {
  uint64_t tiles = 0;
  TableLaunches launches(table, nullptr);
  while (launches.next()) {
    const TableLaunch& launch = launches.launch();
    step(launch, tiles);
    tiles += (launch.end_element - launch.begin_element + kTile - 1) / kTile;
  }
  return tiles;
}

}  // namespace

size_t lay_out(uint64_t elements, void* workspace, Room& room) {
  Workspace memory(workspace);
  const uint64_t tiles = most_tiles(elements);
  const uint64_t room_for = elements / 16 + kOpenBelow;
  room.capacity = static_cast<uint32_t>(room_for < elements ? room_for : elements);
  room.state = memory.take<State>(1);
  room.sample = memory.take<uint32_t>(kSample);
  room.tiles = memory.take<Tile>(tiles);
  room.before = memory.take<Pair>(tiles);
  room.pieces = memory.take<Pair>(tiles / kThreads + 1);
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
    histogram_survivors(round, room, stream);
    for_launches(table, [&](const TableLaunch& launch, uint64_t) {
      histogram_data(launch, from, round, room, stream);
    });
    pick(round, room, stream);
  }
  settle(room, stream);
  for_launches(table, [&](const TableLaunch& launch, uint64_t first_tile) {
    count(launch, from, Pass::kExact, first_tile, room, stream);
  });
}

}  // namespace
}  // namespace selection

size_t cuda_top_change_workspace(uint64_t elements, uint64_t /*k*/) {
  selection::Room room;
  return selection::lay_out(elements, nullptr, room);
}

// The threshold of the call before is not used: the sample costs less than one thousandth of a
// pass.
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
    for_launches(change.table, [&](const TableLaunch& launch, uint64_t) {
      sample(launch, from, elements, room, on.stream);
    });
    bracket(elements, k, room, on.stream);
  }
  const uint64_t tiles =
      for_launches(change.table, [&](const TableLaunch& launch, uint64_t first_tile) {
        count(launch, from, Pass::kFirst, first_tile, room, on.stream);
      });
  judge(k, room, on.stream);
  find_score(change.table, from, room, on.stream);
  scan_tiles(tiles, room, threshold, on.stream);
  for_launches(change.table, [&](const TableLaunch& launch, uint64_t first_tile) {
    emit(launch, from, k, first_tile, room, indices, on.stream);
  });
}

}  // namespace asyncmesh::kernels
