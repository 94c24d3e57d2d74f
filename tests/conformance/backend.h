// What the conformance suite knows about a transport.
//
// The suite is written once. A program that runs it consists of the suite and one small file which
// defines `backends()`:
//
//     std::vector<Backend> asyncmesh::conformance::backends() {
//       Backend tag{.name = "tag_tcp", .make = [](const Clock& clock, uint32_t) { return
//       make_ucx_tag({.tls = "tcp"}, clock); },
//                   .real_time = true};
//       return {tag, paced(tag, {.bytes_per_second = 50'000'000}), faulty(tag, everything())};
//     }
//
// and one line of CMake: asyncmesh_add_conformance(NAME SOURCES backends_NAME.cc ROOMS ...).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/faulty/faulty.h"
#include "transport/paced/paced.h"
#include "transport/transport.h"

namespace asyncmesh::conformance {

struct Backend {
  std::string name;  // letters, digits and _: part of the tests' names
  // One end; `side` is 0 or 1. The clock outlives it.
  std::function<Result<std::unique_ptr<transport::Transport>>(const Clock& clock, uint32_t side)>
      make;
  bool lossy = false;  // loses or damages frames on purpose: only the lane protocol makes it whole
  bool real_time = false;  // moves by the wall clock, not by the clock it is given
  bool reports_loss =
      false;  // on_link_down follows when the peer closed its end, even if nothing is sent
};

std::vector<Backend> backends();           // defined once per program, by the backend's file
std::vector<Backend> lossless_backends();  // those of them that are not lossy

// The same backend under a decorator on both sides; "paced_NAME", "faulty_NAME".
Backend paced(const Backend& inner, const transport::PacedConfig& config);
Backend faulty(const Backend& inner, const transport::FaultyConfig& config);
// The decorator without a fault: it must not be noticed. "quiet_NAME".
Backend quiet(const Backend& inner);
// Every fault at once, ending after some hundred of them.
transport::FaultyConfig everything(uint64_t seed = 1);

void PrintTo(const Backend& backend, std::ostream* out);

}  // namespace asyncmesh::conformance
