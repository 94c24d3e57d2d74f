find_package(benchmark REQUIRED)
add_executable(kernel_benchmark kernel_benchmark.cc)
target_link_libraries(kernel_benchmark PRIVATE asyncmesh_flags asyncmesh_kernels benchmark::benchmark)
if(ASYNCMESH_BUILD_TESTS)
  # One of each kernel; the figures of so short a run mean nothing.
  add_test(NAME kernel_benchmark_smoke COMMAND kernel_benchmark --benchmark_min_time=0.01
           "--benchmark_filter=/(64|2)/0$|Nadamw/mirror/1|Sum")
  set_tests_properties(kernel_benchmark_smoke PROPERTIES LABELS perf TIMEOUT 120)
endif()
