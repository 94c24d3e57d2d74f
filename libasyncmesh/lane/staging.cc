#include "lane/staging.h"

#include <cassert>

namespace asyncmesh {

StagingPool::StagingPool(uint32_t buffers, uint32_t slot_bytes)
    : buffers_(buffers),
      stride_(transport::LaneGeometry{buffers, slot_bytes}.stride()),
      memory_(buffers * stride_),  // zeroed: padding and meta never leak old memory
      references_(buffers, 0),
      free_(buffers) {
  assert(stride_ % 64 == 0);
  unclaimed_.reserve(buffers);
  for (uint32_t buffer = 0; buffer < buffers; ++buffer) free_.push(buffer);
}

bool StagingPool::claim(uint32_t* buffer_out) noexcept {
  if (unclaimed_.empty()) return free_.pop(buffer_out);
  *buffer_out = unclaimed_.back();
  unclaimed_.pop_back();
  return true;
}

void StagingPool::unclaim(uint32_t buffer) noexcept {
  assert(unclaimed_.size() < buffers_);
  unclaimed_.push_back(buffer);
}

bool StagingPool::available() const noexcept { return !unclaimed_.empty() || !free_.empty(); }

void StagingPool::retain_st(uint32_t buffer, uint32_t lanes) noexcept {
  assert(references_[buffer] == 0);
  references_[buffer] = lanes;
  if (lanes == 0) free_.push(buffer);
}

void StagingPool::drop_st(uint32_t buffer) noexcept {
  assert(references_[buffer] > 0);
  if (--references_[buffer] == 0) free_.push(buffer);
}

}  // namespace asyncmesh
