/* A world of one on the installed library: it links, loads and works. */
#include <asyncmesh/asyncmesh.h>
#include <stdio.h>
#include <string.h>

static int check(asyncmesh_status_t status, const char* what) {
  if (status == ASYNCMESH_OK) return 1;
  fprintf(stderr, "%s: %s: %s\n", what, asyncmesh_status_name(status), asyncmesh_last_error());
  return 0;
}

int main(void) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  asyncmesh_mesh_config_t mesh_config = ASYNCMESH_MESH_CONFIG_INIT;
  asyncmesh_mesh_info_t info;
  asyncmesh_context_t* context = NULL;
  asyncmesh_mesh_t* mesh = NULL;
  int good;

  if (asyncmesh_abi_revision() != ASYNCMESH_ABI_REVISION) {
    fprintf(stderr, "header and library differ\n");
    return 1;
  }
  config.engine = ASYNCMESH_ENGINE_LOOPBACK;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  good = check(asyncmesh_context_create(&config, &context), "context") &&
         check(asyncmesh_mesh_join(context, &mesh_config, 5000000000ll, &mesh), "join") &&
         check(asyncmesh_mesh_query(mesh, &info), "query") &&
         check(asyncmesh_mesh_leave(mesh, 5000000000ll), "leave");
  if (good)
    printf("asyncmesh %s: rank %u of %u\n", asyncmesh_version_string(), info.rank, info.world);
  asyncmesh_mesh_destroy(mesh);
  asyncmesh_context_destroy(context);
  return good && info.world == 1 ? 0 : 1;
}
