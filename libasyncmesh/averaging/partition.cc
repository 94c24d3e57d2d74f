#include "averaging/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace asyncmesh {

uint32_t parts_of(double fraction, uint64_t blocks) {
  const double wanted = std::ceil(1.0 / fraction * (1.0 - 1e-6));
  const uint64_t limit = std::clamp<uint64_t>(blocks, 1, UINT32_MAX);
  if (wanted >= static_cast<double>(limit)) return static_cast<uint32_t>(limit);
  return std::max(1U, static_cast<uint32_t>(wanted));
}

Result<Partition> Partition::create(const AveragerConfig& config,
                                    const kernels::ParameterTable& table) {
  if (!(config.fraction > 0.0 && config.fraction <= 1.0)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("fraction {} is not in (0, 1]", config.fraction));
  }
  if (config.granularity == 0) return Status(Code::kInvalidArgument, "granularity is 0");
  if (!kernels::storable(table.storage)) {
    return Status(Code::kInvalidArgument, "no table is stored in a scaled encoding");
  }

  Partition partition;
  partition.granularity_ = config.granularity;
  partition.random_ = config.selection == Selection::kRandom;
  partition.redraw_ = partition.random_ ? Redraw::kEveryCycle : config.redraw;
  partition.seed_ = config.seed;
  partition.group_key_ = config.group_key;
  partition.tensors_.assign(table.tensors, table.tensors + table.size);
  partition.storage_ = table.storage;
  const uint64_t granularity = config.granularity;
  for (kernels::TensorView& tensor : partition.tensors_) {
    if (tensor.data == nullptr && tensor.count > 0) {
      return Status(Code::kInvalidArgument, "a tensor of the table is null");
    }
    if (tensor.count >= kernels::kMaxBlocks ||
        partition.elements_ + tensor.count >= kernels::kMaxBlocks) {
      return Status(Code::kInvalidArgument, "the table has 2^40 elements or more");
    }
    tensor.first_block = partition.blocks_;
    const uint64_t blocks = (tensor.count + granularity - 1) / granularity;
    partition.blocks_ += blocks;
    partition.elements_ += tensor.count;
    if (const uint64_t missing = blocks * granularity - tensor.count; missing > 0) {
      partition.tails_.push_back({.block = partition.blocks_ - 1, .missing = missing});
    }
  }
  if (partition.elements_ == 0) return Status(Code::kInvalidArgument, "the table has no element");
  uint64_t most_blocks = 0;
  if (partition.random_) {
    partition.size_ = Binomial(partition.blocks_, config.fraction);
    most_blocks = partition.size_.most();
  } else {
    partition.parts_ = parts_of(config.fraction, partition.blocks_);
    most_blocks = (partition.blocks_ + partition.parts_ - 1) / partition.parts_;
  }
  partition.max_elements_ = std::min(most_blocks * granularity, partition.elements_);
  return partition;
}

uint64_t Partition::key_of(uint64_t cycle) const {
  // Key 0 is the identity of the permutation: reachable on purpose only.
  if (redraw_ == Redraw::kFixed && seed_ == 0) return 0;
  const uint64_t drawn = redraw_ == Redraw::kFixed ? 0 : cycle;
  const uint64_t key = mix(mix(seed_, group_key_), drawn);
  return key == 0 ? 1 : key;
}

kernels::Subset Partition::subset(uint64_t round) const {
  const uint64_t key = key_of(round / parts_);
  return {.key = key,
          .blocks = blocks_,
          .parts = parts_,
          .part = static_cast<uint32_t>(round % parts_),
          .granularity = granularity_,
          .limit = random_ ? size_.draw(mix(key, round)) : UINT64_MAX};
}

uint64_t Partition::elements_of(const kernels::Subset& subset) const {
  uint64_t elements = kernels::subset_blocks(subset) * granularity_;
  for (const Tail& tail : tails_) {
    const uint64_t position = kernels::permute(subset.key, blocks_, tail.block);
    if (kernels::in_subset(subset, position)) elements -= tail.missing;
  }
  return elements;
}

void Partition::part_of_elements(uint64_t cycle, uint32_t* parts_out) const {
  const kernels::Subset first = subset(cycle * parts_);
  for (const kernels::TensorView& tensor : tensors_) {
    uint64_t block = tensor.first_block;
    for (uint64_t done = 0; done < tensor.count; ++block) {
      const uint64_t count = std::min<uint64_t>(granularity_, tensor.count - done);
      const uint64_t position = kernels::permute(first.key, blocks_, block);
      const bool taken = position / parts_ < first.limit;
      parts_out =
          std::fill_n(parts_out, count, taken ? static_cast<uint32_t>(position % parts_) : kNoPart);
      done += count;
    }
  }
}

Status Partition::rebind(const kernels::ParameterTable& table) {
  const std::span tensors(table.tensors, table.size);
  if (table.storage != storage_) {
    return Status(Code::kInvalidArgument, "the tensors are stored otherwise than the table's");
  }
  if (tensors.size() != tensors_.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} tensors, the table has {}", tensors.size(), tensors_.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].count != tensors_[i].count) {
      return Status(Code::kInvalidArgument,
                    fmt::format("tensor {} has {} elements, the table says {}", i, tensors[i].count,
                                tensors_[i].count));
    }
    if (tensors[i].data == nullptr && tensors[i].count > 0) {
      return Status(Code::kInvalidArgument, fmt::format("tensor {} is null", i));
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors_[i].data = tensors[i].data;
  return {};
}

}  // namespace asyncmesh
