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
  return {loopback, quiet(loopback), paced_loopback, faulty(loopback, everything()),
          faulty(paced_loopback, everything())};
}

}  // namespace asyncmesh::conformance
