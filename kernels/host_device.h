// ASYNCMESH_INLINE marks a function that CPU and CUDA kernels share. It is always inlined, also
// without optimisation: files that are compiled for a newer instruction set must not leave a copy
// behind that the linker could pick for everybody.
#pragma once

#ifdef __CUDACC__
#define ASYNCMESH_INLINE __host__ __device__ __forceinline__
#else
#define ASYNCMESH_INLINE [[gnu::always_inline]] inline
#endif
