#include "lane/staging.h"

#include <cassert>
#include <cstring>
#include <new>

namespace asyncmesh {
namespace {

// Of a page: what memory registration of a transport works in.
constexpr std::align_val_t kAlignment{4096};

}  // namespace

void StagingPool::FreeMemory::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlignment);
}

StagingPool::StagingPool(uint32_t buffers, uint32_t slot_bytes)
    : buffers_(buffers),
      stride_(transport::LaneGeometry{buffers, slot_bytes}.stride()),
      memory_(static_cast<std::byte*>(::operator new(buffers* stride_, kAlignment))),
      references_(buffers, 0),
      free_(buffers) {
  assert(stride_ % 64 == 0);
  // Touches every page now instead of in the first laps; padding and meta never leak old memory.
  std::memset(memory_.get(), 0, memory().size());
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
