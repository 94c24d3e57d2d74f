// The C++ wrapper, alone, and every class of it instantiated.
#include <asyncmesh/asyncmesh.hpp>

namespace {

using namespace asyncmesh::cpp;

[[maybe_unused]] void use(Context& context, Mesh& mesh, Region& region, Averager& averager) {
  context.poll(kNow);
  context.counters();
  context.describe();
  mesh.info();
  mesh.peer(0);
  region.rebind({});
  averager.call(0.5);
  averager.mean(region, region);
  averager.load(averager.save());
  Optimiser optimiser(region, region);
  optimiser.step(ASYNCMESH_OPTIMISER_STEP_INIT);
  Stage stage(ASYNCMESH_STAGE_CONFIG_INIT);
  stage.next(ASYNCMESH_READY_FORWARD);
  Port port(mesh, ASYNCMESH_PORT_CONFIG_INIT);
  port.send(std::span<const std::byte>());
  port.recv();
}

}  // namespace
