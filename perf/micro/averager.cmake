add_executable(averager_benchmark averager_bench_replica.cc averager_benchmark.cc kernel_bench_limit.cc)
target_link_libraries(averager_benchmark PRIVATE asyncmesh_flags asyncmesh::asyncmesh asyncmesh_kernels benchmark::benchmark)
if(ASYNCMESH_BUILD_TESTS)
  asyncmesh_add_command_test(averager_benchmark_smoke LABELS perf
                             COMMAND averager_benchmark --benchmark_min_time=0.01 "--benchmark_filter=/0/1/")
endif()
