// From a launcher's environment variables to a MeshConfig. A pure function: tests pass their own
// environment.
//
//      who starts the ranks   rank, world                        rendezvous, unless
//      ASYNCMESH_RENDEZVOUS anybody                ASYNCMESH_RANK, _WORLD_SIZE        - torchrun
//      RANK, WORLD_SIZE                   MASTER_ADDR, MASTER_PORT + 1 (torchrun
//                                                                keeps MASTER_PORT bound)
//      Open MPI               OMPI_COMM_WORLD_RANK, _SIZE        none: ASYNCMESH_RENDEZVOUS is
//      required Slurm (srun)           SLURM_PROCID, SLURM_NTASKS         first host of the node
//      list, a port made
//                                                                from the job and step id
//
// The first that is there counts, in this order (torchrun and mpirun run inside Slurm jobs). With
// none of them: a world of one, without sockets. rank = replica * P + stage.
//
//      ASYNCMESH_STAGES            P, default 1; must divide the world
//      ASYNCMESH_SECRET            the secret, or
//      ASYNCMESH_SECRET_FILE       a file with it (a newline at its end does not count)
//      ASYNCMESH_RUN_ID            default: the launcher's id of this run, where it has one
//      ASYNCMESH_EXTERNAL_RENDEZVOUS  1: a process of its own serves the rendezvous, not rank 0
//      ASYNCMESH_BIND_ADDRESS, ASYNCMESH_ANNOUNCE_ADDRESS   see MeshConfig
//      ASYNCMESH_PEER_TIMEOUT_MS
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "mesh/mesh.h"

namespace asyncmesh::mesh {

struct Environment {
  std::function<std::optional<std::string>(const char* name)> variable;
  std::function<Result<std::string>(const std::string& path)> read_file;
};

// Of this process. Any thread that does not race with setenv.
Environment process_environment();

// Fills url, secret, run id, rank, geometry, addresses and timeout; versions and the transport
// address stay empty. kInvalidArgument names the variable and its value (never a secret).
Result<MeshConfig> config_from_environment(const Environment& environment);

// "node[01-03,07],gpu5" -> "node01". "" for a malformed list.
std::string first_host(const std::string& slurm_node_list);

}  // namespace asyncmesh::mesh
