add_executable(lane_benchmark lane_bench_lanes.cc lane_bench_pair.cc lane_bench_put.cc lane_bench_tag.cc lane_bench_ucp.cc
               lane_benchmark.cc)
target_link_libraries(lane_benchmark PRIVATE asyncmesh_flags asyncmesh_lane asyncmesh_transport_ucx asyncmesh_base ucx::ucp ucx::ucs
                      fmt::fmt)
target_compile_options(lane_benchmark PRIVATE ${ASYNCMESH_LTO_COMPILE})
target_link_options(lane_benchmark PRIVATE ${ASYNCMESH_LTO_LINK})
if(ASYNCMESH_BUILD_TESTS)
  asyncmesh_add_command_test(lane_benchmark_smoke LABELS perf COMMAND lane_benchmark --smoke)
endif()
