// Two ranks send a frame to and fro over a pair of channels and print how long one way takes.
//
//     for r in 0 1; do
//       export ASYNCMESH_RENDEZVOUS=tcp://127.0.0.1:29600 ASYNCMESH_WORLD_SIZE=2 ASYNCMESH_STAGES=2
//       ASYNCMESH_RANK=$r ./ping_channel &
//     done; wait
#include <algorithm>
#include <asyncmesh/asyncmesh.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

using namespace asyncmesh::cpp;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 1000;
constexpr uint32_t kBytes = 4096;

Port open(const Mesh& mesh, uint32_t kind, uint32_t peer) {
  asyncmesh_port_config_t config = ASYNCMESH_PORT_CONFIG_INIT;
  config.kind = kind;
  config.peer = peer;
  config.payload_bytes = kBytes;
  return Port(mesh, config);
}

void send(Port& port, std::span<const std::byte> frame, uint64_t round) {
  if (!port.send(frame, round, std::chrono::seconds(30)))
    throw std::runtime_error("the other rank takes nothing");
}

Message receive(Port& port) {
  auto message = port.recv(0, std::chrono::seconds(30));
  if (!message) throw std::runtime_error("the other rank says nothing");
  return std::move(*message);
}

void ping(const Mesh& mesh, Port& out, Port& in, uint32_t rank) {
  const std::vector<std::byte> frame(kBytes, std::byte{1});
  std::vector<double> half_trips;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    if (rank == 0) send(out, frame, round);
    const Message message = receive(in);
    if (message->micro_batch != round) throw std::runtime_error("frames out of order");
    if (rank == 1) send(out, frame, round);
    const std::chrono::duration<double, std::micro> trip = Clock::now() - start;
    half_trips.push_back(trip.count() / 2);
  }
  if (rank == 0) {
    std::nth_element(half_trips.begin(), half_trips.begin() + kRounds / 2, half_trips.end());
    std::printf("%u bytes one way over %s: p50 %.1f us\n", kBytes, mesh.info().transports,
                half_trips[kRounds / 2]);
  }
}

}  // namespace

int main() try {
  const auto [config, mesh_config] = config_from_env();
  Context context(config);
  Mesh mesh(context, mesh_config, std::chrono::minutes(1));
  if (mesh.info().world != 2) {
    std::fprintf(stderr, "this example needs exactly two ranks\n");
    return 1;
  }
  Port out = open(mesh, ASYNCMESH_PORT_CHANNEL_OUT, 1 - mesh_config.rank);
  Port in = open(mesh, ASYNCMESH_PORT_CHANNEL_IN, 1 - mesh_config.rank);
  ping(mesh, out, in, mesh_config.rank);
  mesh.leave(std::chrono::minutes(1));  // before the ports close: lets the last frame arrive
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
