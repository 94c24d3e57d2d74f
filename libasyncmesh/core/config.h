// What a context is told at creation: asyncmesh_config_t in C++ words.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace asyncmesh::core {

enum class ProgressMode : uint32_t { kThread = 0, kManual = 1 };
enum class EngineChoice : uint32_t { kAuto = 0, kTag = 1, kRma = 2, kLoopback = 3 };

inline constexpr uint32_t kMaxKernelThreads = 256;

struct ContextConfig {
  ProgressMode progress = ProgressMode::kThread;
  EngineChoice engine = EngineChoice::kAuto;
  bool checksum = false;  // over payloads; forced by faults
  int log_fd = -1;        // -1: silent; stays the caller's
  LogLevel log_level = LogLevel::kWarning;
  int progress_cpu = -1;        // -1: not pinned
  uint32_t kernel_threads = 1;  // of averager and optimiser, the caller's included
  std::string tls;              // "", "auto", "tcp", "shm", or a list in UCX_TLS syntax
  std::string net_devices;      // "": the interface that routes to the rendezvous
  std::string link;             // "", "none" or "RATE,DELAY"
  std::string faults;           // "" or "seed=1,drop=0.01,..."
};

}  // namespace asyncmesh::core
