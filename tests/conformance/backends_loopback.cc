#include <fmt/format.h>

#include "tests/conformance/backend.h"
#include "transport/loopback/loopback.h"

namespace asyncmesh::conformance {

std::vector<Backend> backends() {
  const Backend loopback{
      .name = "loopback",
      .make = [](const Clock&, uint32_t) -> Result<std::unique_ptr<transport::Transport>> {
        return transport::make_loopback();
      },
      .reports_loss = true};
  transport::PacedConfig slow;
  slow.bytes_per_second = 20'000'000;
  slow.latency = 200'000;
  slow.burst_bytes = 4096;
  const Backend paced_loopback = paced(loopback, slow);
  std::vector<Backend> all{loopback, quiet(loopback), paced_loopback,
                           faulty(paced_loopback, everything())};
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    all.push_back(faulty(loopback, everything(seed)));
    all.back().name += fmt::format("_{}", seed);
  }
  return all;
}

}  // namespace asyncmesh::conformance
