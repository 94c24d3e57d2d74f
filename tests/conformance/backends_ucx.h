// What the programs over UCX run the suite with: the engine itself, unnoticed, slowed down and
// damaged.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/backend.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::conformance {

using UcxFactory = Result<std::unique_ptr<transport::Transport>> (*)(const transport::UcxConfig&,
                                                                     const Clock&);

inline std::vector<Backend> ucx_backends(const std::string& name, UcxFactory factory,
                                         const transport::UcxConfig& config) {
  const Backend engine{
      .name = name,
      .make = [factory, config](const Clock& clock, uint32_t) { return factory(config, clock); },
      .real_time = true};
  transport::PacedConfig slow;
  slow.bytes_per_second = 200'000'000;
  slow.latency = 50'000;
  return {engine, quiet(engine), paced(engine, slow), faulty(engine, everything(1)),
          faulty(paced(engine, slow), everything(2))};
}

}  // namespace asyncmesh::conformance
