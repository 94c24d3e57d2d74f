/* The public header, alone, as C++: first include, nothing before it, every initialiser used. */
#include <asyncmesh/asyncmesh.h>

asyncmesh_status_t header_alone_cxx(asyncmesh_context_t** context_out);

asyncmesh_status_t header_alone_cxx(asyncmesh_context_t** context_out) {
  const asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  const asyncmesh_mesh_config_t mesh = ASYNCMESH_MESH_CONFIG_INIT;
  const asyncmesh_averager_config_t averager = ASYNCMESH_AVERAGER_CONFIG_INIT;
  const asyncmesh_averager_call_t call = ASYNCMESH_AVERAGER_CALL_INIT;
  const asyncmesh_mean_t mean = ASYNCMESH_MEAN_INIT;
  const asyncmesh_optimiser_config_t optimiser = ASYNCMESH_OPTIMISER_CONFIG_INIT;
  const asyncmesh_optimiser_step_t step = ASYNCMESH_OPTIMISER_STEP_INIT;
  const asyncmesh_stage_config_t stage = ASYNCMESH_STAGE_CONFIG_INIT;
  const asyncmesh_port_config_t port = ASYNCMESH_PORT_CONFIG_INIT;
  const asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
  const uint32_t sizes[] = {mesh.struct_size,  averager.struct_size,  call.struct_size,
                            mean.struct_size,  optimiser.struct_size, step.struct_size,
                            stage.struct_size, port.struct_size,      send.struct_size};
  return sizes[0] == 0 ? ASYNCMESH_INTERNAL : asyncmesh_context_create(&config, context_out);
}
