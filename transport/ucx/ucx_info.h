// What a bug report about UCX needs to say.
#pragma once

#include <string>
#include <vector>

namespace asyncmesh::transport {

struct UcxInfo {
  std::string version;        // of the library that is loaded
  std::string built_against;  // of the headers
  std::string path;           // of the libucp that is loaded
  std::vector<std::string>
      resources;      // "tcp/eth0", "posix/memory", ...: what the current environment allows
  std::string error;  // why `resources` is empty, if it is
};

// Opens and closes a UCX context. Never fails; `error` says what went wrong.
UcxInfo ucx_info();

}  // namespace asyncmesh::transport
