// Memory for kernels and tests, aligned to 256; and memory that the host cannot touch for a while,
// as it could not touch that of a device.
#pragma once

#include <cstddef>

namespace simt {

void* allocate(size_t bytes);
void release(void* memory);

// What is allocated while one lives can be sealed: any access is then a segmentation fault. One at
// a time.
class Sealable {
 public:
  Sealable();
  ~Sealable();
  Sealable(const Sealable&) = delete;
  Sealable& operator=(const Sealable&) = delete;

  void seal(bool sealed);
};

}  // namespace simt
