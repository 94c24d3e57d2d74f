find_package(benchmark REQUIRED)
add_executable(kernel_benchmark kernel_benchmark.cc kernel_bench_limit.cc kernel_bench_dense.cc kernel_bench_selection.cc
               kernel_bench_subset.cc)
target_link_libraries(kernel_benchmark PRIVATE asyncmesh_flags asyncmesh_kernels benchmark::benchmark)
if(ASYNCMESH_BUILD_TESTS)
  # One of each kernel; the figures of so short a run mean nothing.
  asyncmesh_add_command_test(kernel_benchmark_smoke LABELS perf COMMAND kernel_benchmark --benchmark_min_time=0.01
                             "--benchmark_filter=/(64|2)/0/1$|Nadamw/mirror/threads/1|Sum")
endif()
