// The default floating-point environment for a scope. Libraries linked with -ffast-math, or the
// trainer itself, may have set this thread to flush subnormals to zero; replicas that differ in it
// would compute different results.
#pragma once

#include <cfenv>

namespace asyncmesh::kernels {

class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace asyncmesh::kernels
