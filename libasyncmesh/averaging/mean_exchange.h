// The blocking mean: all members post a whole table in pieces and average each piece when all have
// it.
//
// Sans waiting: `step` moves what can move, the caller waits between steps. Pieces are pipelined as
// deep as the mailbox has slots. Every member averages the same values in member order, so results
// are bitwise equal; one contributor alone is copied. Means are numbered; every begin takes a
// number, so a mean that failed on one member does not shift the next one.
//
// Values travel and are averaged as fp32, whatever the tables are stored in.
//
// Owned by one averager; allocates only for a table with more tensors than any before it.
#pragma once

#include <cstdint>
#include <vector>

#include "averaging/delta_queues.h"
#include "base/large_vector.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "mailbox/mailbox.h"

namespace asyncmesh {

class MeanExchange {
 public:
  // Travels with every frame: members that are not in the same kind of mean refuse each other.
  enum class Purpose : uint64_t { kMean = 0, kFinish = 1 };

  struct Request {
    kernels::ParameterTable in;
    kernels::ParameterTable out;  // in itself, or no memory of it
    float weight = 1.0F;
    Purpose purpose = Purpose::kMean;
  };

  MeanExchange(Mailbox& mailbox, const kernels::Table& kernels, const kernels::Execution& on);

  bool active() const { return active_; }
  bool is(const Request& request) const;  // the mean in progress is this one
  void skip() { ++number_; }              // a mean that is over on this member before it began
  // Starts a mean over the members that are not lost now. Returns false when the input is not
  // finite: it then counts with weight 0. The tensors' memory stays put until the end.
  bool begin(const Request& request);
  // kOk: done. kAgain: wait, then step again. kPeerLost (`culprit`), kMismatch (`culprit`: it is in
  // another mean), kInvalidArgument (all weights are 0): over, unsuccessfully.
  Code step();
  uint32_t culprit() const { return culprit_; }
  bool lost(uint32_t member) const { return queues_.lost(member); }
  void poll() noexcept { queues_.poll(); }

  uint64_t bytes_posted() const { return bytes_posted_; }
  uint64_t discarded() const { return queues_.discarded(); }

 private:
  // A position in a table, moving forward.
  struct Cursor {
    size_t tensor = 0;
    uint64_t offset = 0;
  };

  // A table of the mean in progress.
  struct Table {
    std::vector<kernels::TensorView> tensors;
    kernels::Encoding storage = kernels::Encoding::kFloat32;

    void take(const kernels::ParameterTable& table);
    bool is(const kernels::ParameterTable& table) const;
    std::byte* at(const Cursor& cursor) const;
    void advance(Cursor& cursor, uint64_t count) const;
  };

  Code finish(Code code);
  void discard_old();
  void post_pieces();
  Code gather_piece();  // kOk: weights_ and values_ are those of piece done_
  Code check(uint32_t member, const DeltaMeta& meta, uint32_t bytes);
  Code average_piece();
  uint64_t piece_values(uint32_t piece) const;
  void read(Cursor& cursor, uint64_t count, float* out) const;
  void write(Cursor& cursor, uint64_t count, const float* values) const;

  Mailbox& mailbox_;
  const kernels::Table& kernels_;
  const kernels::Execution on_;
  DeltaQueues queues_;
  uint64_t per_piece_;

  std::vector<uint8_t> takes_part_;  // per member
  std::vector<float> weights_;
  std::vector<const std::byte*> values_;
  LargeVector<float> own_;
  LargeVector<float> mean_;

  Table in_;
  Table out_;
  Purpose purpose_ = Purpose::kMean;
  float weight_ = 0;
  uint64_t number_ = 0;  // of the mean in progress, from 1
  uint64_t total_ = 0;   // values
  uint32_t pieces_ = 0;
  uint32_t posted_ = 0;
  uint32_t done_ = 0;
  uint32_t others_ = 0;  // members beside this one that take part
  Cursor post_at_, own_at_, write_at_;
  uint32_t culprit_ = 0;
  bool active_ = false;
  uint64_t bytes_posted_ = 0;
};

}  // namespace asyncmesh
