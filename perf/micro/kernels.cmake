find_package(benchmark REQUIRED)
add_executable(kernel_benchmark kernel_benchmark.cc kernel_bench_limit.cc kernel_bench_dense.cc kernel_bench_selection.cc
               kernel_bench_subset.cc)
target_link_libraries(kernel_benchmark PRIVATE asyncmesh_flags asyncmesh_kernels benchmark::benchmark)
if(ASYNCMESH_BUILD_TESTS)
  # One of each kernel; the figures of so short a run mean nothing.
  set(smoke "Partition.*/64/0/1/|(Average|Apply).*/2/0/1/|Nadamw.*/0/1/1/|(LookAhead|Nesterov|SumOfSquares)/threads/1/")
  string(APPEND smoke "|(TableEma|Compare).*/0/1/|Quantise.*/3/1/1/|Dequantise.*/3/1/|TopChange/.*/1/50/0/1/")
  string(APPEND smoke "|TopChangeAgain/.*/1/50/1/|IndexPack.*/1/3/1/1/|Index(Unpack|Accumulate).*/1/3/1/|codeIndices.*/1/1/")
  asyncmesh_add_command_test(kernel_benchmark_smoke LABELS perf
                             COMMAND kernel_benchmark --benchmark_min_time=0.01 "--benchmark_filter=${smoke}")
endif()
