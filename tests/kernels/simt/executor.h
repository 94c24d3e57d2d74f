// Executes CUDA kernels, compiled as C++, on the CPU: one fiber per thread of a block that waits,
// the blocks one after the other, all on the calling thread.
//
// A thread runs until it ends or meets others (barrier, shuffle, vote). Those who met go on when
// all are there. A warp is 32 threads in x, y, z order. Which order threads take between two
// meetings is unspecified on a device; here every second block, and every second launch of one
// block, runs from the last thread to the first, so that a forgotten barrier shows in the results.
//
// Misuse ends the launch: no thread of it runs on, and take_failure() names block and threads. It
// is
//   - an empty grid, a grid, block or shared memory larger than every architecture takes,
//   - a meeting that can never be complete: a thread has left the kernel, does not exist, or waits
//     at another place, with another mask, or for another operation,
//   - a warp operation by a lane that its own mask does not name, a shuffle from a lane that takes
//   no
//     part in it, a width that is no power of two up to 32.
// A loop that waits for another thread through memory alone never ends, as blocks do not overlap.
//
// Shared memory: one array per `__shared__` variable, for the block that runs. Dynamic shared
// memory has exactly the bytes of the launch (AddressSanitizer sees an overrun) and starts as NaNs;
// static shared memory starts with what the block before left.
//
// Not thread-safe. A kernel's frames are unwound by an exception after misuse, so a function that
// waits must not be noexcept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace simt {

struct Dim3 {
  constexpr Dim3(unsigned in_x = 1, unsigned in_y = 1, unsigned in_z = 1)
      : x(in_x), y(in_y), z(in_z) {}
  bool operator==(const Dim3&) const = default;
  unsigned x, y, z;
};

struct Index {
  unsigned x, y, z;
};

// Calls `thread` once per thread of the grid, with the coordinates below set.
void run(const Dim3& grid, const Dim3& block, size_t shared_bytes,
         const std::function<void()>& thread);

// What the first failed launch since the last call did wrong; empty: nothing.
std::string take_failure();

// A launch as the host asked for it. Of the parameters that are classes with padding or floats,
// only the sizes.
struct Launch {
  const void* kernel;
  Dim3 grid, block;
  size_t shared_bytes;
  const void* stream;
  std::vector<std::byte> parameters;
  bool operator==(const Launch&) const = default;
};

// run(), and a line in the Recording that lives, if any.
void launch(Launch launch, const std::function<void()>& thread);

// The launches while it lives; not executed if so asked. One at a time.
class Recording {
 public:
  enum class Kernels : uint8_t { kRun, kDoNotRun };
  explicit Recording(Kernels kernels);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const std::vector<Launch>& launches() const { return launches_; }

 private:
  friend void launch(Launch, const std::function<void()>&);
  bool run_;
  std::vector<Launch> launches_;
};

// For device_functions.h; only inside a kernel.
enum class Operation : uint8_t { kBarrier, kSyncWarp, kVote, kSum, kShuffle };

struct Meeting {
  Operation operation;
  uint32_t mask;    // lanes that take part; of no meaning at a barrier
  uint64_t value;   // what the thread brings: predicate, addend, or the bits to shuffle
  uint32_t source;  // of a shuffle: the lane to read
  const char* file;
  int line;
};

// Waits for the others. Barrier: the number of true predicates. Vote: the lanes with a true
// predicate. Sum: of all values. Shuffle: the source's value.
uint64_t meet(const Meeting& meeting);
uint32_t current_lane();
[[noreturn]] void misuse(const std::string& what);
void* dynamic_shared_memory();

}  // namespace simt

// CUDA's names.
extern simt::Index threadIdx, blockIdx;
extern simt::Dim3 blockDim, gridDim;
