#include "tests/conformance/backend.h"

namespace asyncmesh::conformance {

using transport::Transport;

Backend paced(const Backend& inner, const transport::PacedConfig& config) {
  Backend backend = inner;
  backend.name = "paced_" + inner.name;
  backend.make = [make = inner.make, config](const Clock& clock,
                                             uint32_t side) -> Result<std::unique_ptr<Transport>> {
    auto end = make(clock, side);
    if (!end.ok()) return end.status();
    return std::unique_ptr<Transport>(make_paced(std::move(end.value()), config, clock));
  };
  return backend;
}

Backend faulty(const Backend& inner, const transport::FaultyConfig& config) {
  Backend backend = inner;
  backend.name = "faulty_" + inner.name;
  backend.lossy = true;
  backend.make = [make = inner.make, config](const Clock& clock,
                                             uint32_t side) -> Result<std::unique_ptr<Transport>> {
    auto end = make(clock, side);
    if (!end.ok()) return end.status();
    transport::FaultyConfig own = config;
    own.seed = config.seed * 2 + side;
    return std::unique_ptr<Transport>(make_faulty(std::move(end.value()), own, clock));
  };
  return backend;
}

Backend quiet(const Backend& inner) {
  Backend backend = faulty(inner, {});
  backend.name = "quiet_" + inner.name;
  backend.lossy = inner.lossy;
  return backend;
}

std::vector<Backend> lossless_backends() {
  std::vector<Backend> kept = backends();
  std::erase_if(kept, [](const Backend& backend) { return backend.lossy; });
  return kept;
}

transport::FaultyConfig everything(uint64_t seed) {
  transport::FaultyConfig config;
  config.seed = seed;
  config.drop = 0.02;
  config.duplicate = 0.05;
  config.delay = 0.05;
  config.corrupt = 0.02;
  config.drop_credit = 0.1;
  config.cut = 0.01;
  config.max_faults = 200;
  return config;
}

void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

}  // namespace asyncmesh::conformance
