/* Joins a mesh from the environment and averages a vector over the replicas, two ways: a blocking
 * mean, and the asynchronous averager that training uses. Start it once per rank:
 *
 *     for r in 0 1 2; do
 *       ASYNCMESH_RENDEZVOUS=tcp://127.0.0.1:29600 ASYNCMESH_RANK=$r ASYNCMESH_WORLD_SIZE=3
 * ./average_vector & done; wait
 *
 * or under torchrun, srun or mpirun. Alone it is a world of one. */
#include <asyncmesh/asyncmesh.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10000, STEPS = 200 };
static const int64_t kMinute = 60000000000ll;

static void check(asyncmesh_status_t status, const char* what) {
  if (status == ASYNCMESH_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, asyncmesh_status_name(status), asyncmesh_last_error());
  exit(1);
}

/* One "training step": every rank moves its copy its own way. */
static void train(float* weights, uint32_t rank) {
  for (size_t i = 0; i < COUNT; ++i) weights[i] += 0.01f * (float)(rank + 1);
}

static void run(asyncmesh_context_t* context, asyncmesh_mesh_t* mesh, float* weights) {
  asyncmesh_tensor_t tensor = {0};
  asyncmesh_region_t* region = NULL;
  asyncmesh_averager_t* averager = NULL;
  asyncmesh_averager_config_t config = ASYNCMESH_AVERAGER_CONFIG_INIT;
  asyncmesh_mesh_info_t info = {0};
  asyncmesh_averager_info_t totals = {0};

  info.struct_size = sizeof info;
  check(asyncmesh_mesh_query(mesh, &info), "mesh_query");

  tensor.struct_size = sizeof tensor;
  tensor.dtype = ASYNCMESH_FLOAT32;
  tensor.data = weights;
  tensor.count = COUNT;
  tensor.id = 1;
  tensor.device = -1; /* host memory */
  check(asyncmesh_region_create(context, &tensor, 1, &region), "region_create");
  check(asyncmesh_averager_create(mesh, region, &config, &averager), "averager_create");

  for (size_t i = 0; i < COUNT; ++i) weights[i] = (float)info.rank;
  check(asyncmesh_averager_mean(averager, region, region, NULL), "averager_mean");
  printf("rank %u of %u: the mean of the ranks is %g\n", info.rank, info.world, weights[0]);

  for (int step = 0; step < STEPS; ++step) {
    asyncmesh_averager_call_t call = ASYNCMESH_AVERAGER_CALL_INIT;
    train(weights, info.rank);
    call.progress = (double)step / STEPS;
    check(asyncmesh_averager_call(averager, &call, NULL), "averager_call");
  }
  /* From here on all replicas hold the same bits. */
  check(asyncmesh_averager_finish(averager, kMinute), "averager_finish");
  totals.struct_size = sizeof totals;
  check(asyncmesh_averager_query(averager, &totals), "averager_query");
  check(asyncmesh_mesh_query(mesh, &info), "mesh_query");
  printf("rank %u: after %d steps weight[0] is %.9g; %llu rounds, %llu bytes, over %s\n", info.rank,
         STEPS, weights[0], (unsigned long long)totals.rounds_applied,
         (unsigned long long)totals.bytes_posted,
         info.transports[0] != '\0' ? info.transports : "nothing");

  check(asyncmesh_mesh_leave(mesh, kMinute), "mesh_leave");
  asyncmesh_averager_destroy(averager);
  asyncmesh_region_destroy(region);
}

int main(void) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  asyncmesh_mesh_config_t mesh_config = ASYNCMESH_MESH_CONFIG_INIT;
  asyncmesh_context_t* context = NULL;
  asyncmesh_mesh_t* mesh = NULL;
  float* weights = malloc(COUNT * sizeof *weights);
  if (weights == NULL) return 1;

  check(asyncmesh_config_from_env(&config, &mesh_config), "config_from_env");
  check(asyncmesh_context_create(&config, &context), "context_create");
  check(asyncmesh_mesh_join(context, &mesh_config, kMinute, &mesh), "mesh_join");
  run(context, mesh, weights);
  asyncmesh_mesh_destroy(mesh);
  asyncmesh_context_destroy(context);
  free(weights);
  return 0;
}
