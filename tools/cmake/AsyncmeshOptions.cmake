# Options of the build, the language level and the flags that every target of ours takes.
set(ASYNCMESH_WITH_CUDA "AUTO" CACHE STRING "CUDA kernels: AUTO (where nvcc is found), ON (fail without nvcc), OFF")
set_property(CACHE ASYNCMESH_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
option(ASYNCMESH_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ASYNCMESH_BUILD_PERF "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(ASYNCMESH_BUILD_TOOLS "Build the tools and examples" ${PROJECT_IS_TOP_LEVEL})
option(ASYNCMESH_WERROR "Warnings are errors" OFF)
set(ASYNCMESH_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Paths below the source tree and the build directory's name are left out of the cache key: a second clone hits what the first built.
find_program(ASYNCMESH_CCACHE ccache)
mark_as_advanced(ASYNCMESH_CCACHE)
if(ASYNCMESH_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ASYNCMESH_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

# The path of a small frame runs through five rooms: in release builds the link of the library, and of what measures it, inlines
# across them. The objects also hold plain code, which everything else links.
option(ASYNCMESH_LTO "Link-time optimisation of release builds (GCC)" ON)
if(ASYNCMESH_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ASYNCMESH_SANITIZE)
  set(ASYNCMESH_LTO_COMPILE "$<$<COMPILE_LANGUAGE:CXX>:-flto=auto;-ffat-lto-objects>")
  set(ASYNCMESH_LTO_LINK -O3 -flto=auto -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
endif()

find_package(Threads REQUIRED)
find_package(ucx CONFIG REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)

# asyncmesh_warnings: what every target of ours takes. asyncmesh_flags: also the include roots of the sources, for code that may see
# the library's inside.
add_library(asyncmesh_warnings INTERFACE)
target_compile_options(asyncmesh_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${ASYNCMESH_WERROR}>>:-Werror>)
# Inlined at -O3, g++ 12 finds impossible sizes inside the growth of vectors and strings (GCC bugs 105329, 105651, 107852).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(asyncmesh_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict>)
endif()
if(ASYNCMESH_SANITIZE) # with frame pointers for whole stacks, and an exit status for every finding
  target_compile_options(asyncmesh_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${ASYNCMESH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(asyncmesh_warnings INTERFACE -fsanitize=${ASYNCMESH_SANITIZE})
  if(ASYNCMESH_SANITIZE MATCHES "thread") # tests/support/ucx_sanitized.cc stands in for them, in UCX too
    target_link_options(asyncmesh_warnings INTERFACE LINKER:--export-dynamic-symbol=shmat LINKER:--export-dynamic-symbol=shmdt)
  endif()
endif()

add_library(asyncmesh_flags INTERFACE)
target_link_libraries(asyncmesh_flags INTERFACE asyncmesh_warnings)
target_include_directories(asyncmesh_flags INTERFACE
  "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/libasyncmesh" "${PROJECT_SOURCE_DIR}/libasyncmesh/include")
# Every frame is checksummed twice, by an instruction that machines have since 2009: inlined instead of chosen at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(asyncmesh_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-march=x86-64-v2>)
endif()
