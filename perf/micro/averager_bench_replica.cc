#include "averager_bench_replica.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace asyncmesh::kernels::bench {
namespace {

constexpr int64_t kTimeout = 60'000'000'000;

void check(asyncmesh_status_t status, const char* what) {
  if (status == ASYNCMESH_OK) return;
  throw std::runtime_error(std::string(what) + ": " + asyncmesh_last_error());
}

}  // namespace

std::string free_url() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (fd >= 0) close(fd);
  if (!found) throw std::runtime_error("no free port");
  return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Replica::Replica(uint32_t rank, const std::string& url, uint64_t parameters, asyncmesh_wire_t wire,
                 uint32_t threads)
    : weights_(parameters, 1.0F) {
  for (uint64_t offset = 0; offset < parameters;) {
    const uint64_t wanted = tensors_.size() % 3 == 2 ? uint64_t{1} << 20 : 1000;
    asyncmesh_tensor_t tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.dtype = ASYNCMESH_FLOAT32;
    tensor.data = weights_.data() + offset;
    tensor.count = std::min(wanted, parameters - offset);
    tensor.id = tensors_.size() + 1;
    tensor.device = -1;
    tensors_.push_back(tensor);
    offset += tensor.count;
  }
  try {
    create(rank, url, wire, threads);
  } catch (...) {
    destroy();
    throw;
  }
}

void Replica::create(uint32_t rank, const std::string& url, asyncmesh_wire_t wire,
                     uint32_t threads) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  config.engine = ASYNCMESH_ENGINE_LOOPBACK;
  config.kernel_threads = threads;
  check(asyncmesh_context_create(&config, &context_), "context");
  asyncmesh_mesh_config_t mesh = ASYNCMESH_MESH_CONFIG_INIT;
  mesh.rank = mesh.replica = rank;
  mesh.replicas = 2;
  url.copy(mesh.url, sizeof mesh.url - 1);
  check(asyncmesh_mesh_join(context_, &mesh, kTimeout, &mesh_), "join");
  check(asyncmesh_region_create(context_, tensors_.data(), static_cast<uint32_t>(tensors_.size()),
                                &region_),
        "region");
  asyncmesh_averager_config_t averager = ASYNCMESH_AVERAGER_CONFIG_INIT;
  averager.window = 2;
  averager.wire = wire;
  check(asyncmesh_averager_create(mesh_, region_, &averager, &averager_), "averager");
}

void Replica::destroy() {
  asyncmesh_averager_destroy(averager_);
  asyncmesh_region_destroy(region_);
  asyncmesh_mesh_destroy(mesh_);
  asyncmesh_context_destroy(context_);
}

Replica::~Replica() { destroy(); }

asyncmesh_averager_result_t Replica::call() {
  asyncmesh_averager_result_t result{};
  result.struct_size = sizeof result;
  check(asyncmesh_averager_call(averager_, nullptr, &result), "call");
  return result;
}

}  // namespace asyncmesh::kernels::bench
