// CPU kernels against the memory of the machine.
//
// Why: an averager call and the optimiser step stand on the training thread. The kernels do a few
// operations per byte, so that the limit is the memory bandwidth of the threads they have, and the
// only figure that survives a change of machine is the share of it that they reach.
//
// Run:  kernel_benchmark [--benchmark_filter=Pack]   (release build; close other programs)
//       ASYNCMESH_BENCH_SMALL_PAGES=1 kernel_benchmark ...   tables on 4 KiB pages
// Look: `of_limit`, bytes that the kernel has to read and write per second over those of a
// streaming
//       copy of 128 MiB by the same number of threads, measured in between. Above 1 is possible
//       where a kernel reads more than it writes. `vs_peer`: times as fast as what else does it.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
