// Ranks as threads of one process, through the public C API alone.
//
//      run_ranks({.replicas = 2, .stages = 1}, [](Rank& rank) { ... rank.mesh ... });
//
// Every rank has its own context. An exception (of CHECK_OK) or a failed assertion of one rank ends
// the test; the others end by their deadlines.
#pragma once

#include <asyncmesh/asyncmesh.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace asyncmesh_test {

inline constexpr int64_t kSecond = 1'000'000'000;

inline void check(asyncmesh_status_t status, const char* what, int line) {
  if (status == ASYNCMESH_OK) return;
  throw std::runtime_error(std::string(what) + " at line " + std::to_string(line) + ": " +
                           asyncmesh_status_name(status) + ": " + asyncmesh_last_error());
}
#define CHECK_OK(call) ::asyncmesh_test::check((call), #call, __LINE__)

// A port of the loopback interface that was free a moment ago.
inline uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("no free port");
  close(fd);
  return ntohs(address.sin_port);
}

inline void set_text(char* field, size_t capacity, const std::string& text) {
  if (text.size() >= capacity) throw std::runtime_error("text too long");
  std::memcpy(field, text.c_str(), text.size() + 1);
}

struct RankSetup {
  uint32_t replicas = 2;
  uint32_t stages = 1;
  uint32_t engine = ASYNCMESH_ENGINE_LOOPBACK;
  uint32_t progress = ASYNCMESH_PROGRESS_THREAD;
  uint32_t kernel_threads = 0;
  std::string tls = {};
  std::string link = {};
  std::string faults = {};
  int64_t peer_timeout = 10 * kSecond;
  bool leave = true;  // at the end, in run_ranks
};

struct Rank {
  uint32_t rank = 0;
  uint32_t replica = 0;
  uint32_t stage = 0;
  asyncmesh_context_t* context = nullptr;
  asyncmesh_mesh_t* mesh = nullptr;
  bool left = false;

  void leave() {
    if (!left) CHECK_OK(asyncmesh_mesh_leave(mesh, 20 * kSecond));
    left = true;
  }
};

inline asyncmesh_config_t config_of(const RankSetup& setup) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  config.engine = setup.engine;
  config.progress = setup.progress;
  config.kernel_threads = setup.kernel_threads;
  set_text(config.tls, sizeof config.tls, setup.tls);
  set_text(config.link, sizeof config.link, setup.link);
  set_text(config.faults, sizeof config.faults, setup.faults);
  return config;
}

inline asyncmesh_mesh_config_t mesh_config_of(const RankSetup& setup, uint32_t rank,
                                              const std::string& url) {
  asyncmesh_mesh_config_t config = ASYNCMESH_MESH_CONFIG_INIT;
  config.rank = rank;
  config.replicas = setup.replicas;
  config.stages = setup.stages;
  config.replica = rank / setup.stages;
  config.stage = rank % setup.stages;
  config.peer_timeout_ns = setup.peer_timeout;
  set_text(config.url, sizeof config.url, url);
  return config;
}

inline void run_rank(const RankSetup& setup, uint32_t index, const std::string& url,
                     const std::function<void(Rank&)>& body) {
  Rank rank;
  rank.rank = index;
  rank.replica = index / setup.stages;
  rank.stage = index % setup.stages;
  const asyncmesh_config_t config = config_of(setup);
  const asyncmesh_mesh_config_t mesh_config = mesh_config_of(setup, index, url);
  try {
    CHECK_OK(asyncmesh_context_create(&config, &rank.context));
    CHECK_OK(asyncmesh_mesh_join(rank.context, &mesh_config, 30 * kSecond, &rank.mesh));
    body(rank);
    if (setup.leave) rank.leave();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << index << ": " << error.what();
  }
  asyncmesh_mesh_destroy(rank.mesh);
  asyncmesh_context_destroy(rank.context);
}

inline void run_ranks(const RankSetup& setup, const std::function<void(Rank&)>& body) {
  const uint32_t world = setup.replicas * setup.stages;
  const std::string url = world == 1 ? "" : "tcp://127.0.0.1:" + std::to_string(free_port());
  std::vector<std::thread> threads;
  for (uint32_t index = 1; index < world; ++index)
    threads.emplace_back([&, index] { run_rank(setup, index, url, body); });
  run_rank(setup, 0, url, body);
  for (std::thread& thread : threads) thread.join();
}

// One tensor, or several, in memory of the test.
template <typename Word>
asyncmesh_region_t* make_region_of(asyncmesh_context_t* context,
                                   const std::vector<std::vector<Word>*>& tensors,
                                   asyncmesh_dtype_t dtype) {
  std::vector<asyncmesh_tensor_t> table(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    table[i] = asyncmesh_tensor_t{};
    table[i].struct_size = sizeof table[i];
    table[i].dtype = dtype;
    table[i].data = tensors[i]->data();
    table[i].count = tensors[i]->size();
    table[i].id = i + 1;
    table[i].device = -1;
  }
  asyncmesh_region_t* region = nullptr;
  CHECK_OK(
      asyncmesh_region_create(context, table.data(), static_cast<uint32_t>(table.size()), &region));
  return region;
}
inline asyncmesh_region_t* make_region(asyncmesh_context_t* context,
                                       const std::vector<std::vector<float>*>& tensors) {
  return make_region_of(context, tensors, ASYNCMESH_FLOAT32);
}
inline asyncmesh_region_t* make_bfloat16_region(
    asyncmesh_context_t* context, const std::vector<std::vector<uint16_t>*>& tensors) {
  return make_region_of(context, tensors, ASYNCMESH_BFLOAT16);
}

// To nearest, ties to even; finite values.
inline uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline asyncmesh_averager_t* make_averager(const Rank& rank, asyncmesh_region_t* region,
                                           const asyncmesh_averager_config_t& config) {
  asyncmesh_averager_t* averager = nullptr;
  CHECK_OK(asyncmesh_averager_create(rank.mesh, region, &config, &averager));
  return averager;
}

// The media that a test is run over.
struct Medium {
  const char* name;
  uint32_t engine;
  const char* tls;
};
inline constexpr Medium kMedia[] = {{"loopback", ASYNCMESH_ENGINE_LOOPBACK, ""},
                                    {"tag_shm", ASYNCMESH_ENGINE_TAG, "shm"},
                                    {"tag_tcp", ASYNCMESH_ENGINE_TAG, "tcp"},
                                    {"rma_shm", ASYNCMESH_ENGINE_RMA, "shm"}};

inline RankSetup over(const Medium& medium, RankSetup setup) {
  setup.engine = medium.engine;
  setup.tls = medium.tls;
  return setup;
}

}  // namespace asyncmesh_test
