# asyncmesh_add_room(NAME SOURCES ... [ROOMS ...] [LINK ...])
#   One room: object library asyncmesh_NAME_objects (goes into the shared library) and static library asyncmesh_NAME
#   (what unit tests link). ROOMS are the rooms it may use, LINK foreign targets.
# asyncmesh_add_library(): libasyncmesh.so and libasyncmesh.a out of every room.
# asyncmesh_add_test(NAME SOURCES ... LABELS ... [ROOMS ...] [LINK ...] [ARGS ...] [TIMEOUT s] [OWN_MAIN] [ALONE]): a
#   GoogleTest program, run by ctest as one test. OWN_MAIN: its sources hold main(). ALONE: it judges time, so no other test runs
#   beside it.
# asyncmesh_add_command_test(NAME LABELS ... COMMAND ... [TIMEOUT s]): any other command, run by ctest.
#
# Programs labelled unit, conformance or protocol also hang on the target `tests_sanitized`: what the sanitizer builds need.
set_property(GLOBAL PROPERTY ASYNCMESH_ROOMS "")

function(asyncmesh_add_room name)
  cmake_parse_arguments(arg "" "" "SOURCES;ROOMS;LINK" ${ARGN})
  add_library(asyncmesh_${name}_objects OBJECT ${arg_SOURCES})
  add_library(asyncmesh_${name} STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:asyncmesh_${name}_objects>)
  set_target_properties(asyncmesh_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(asyncmesh_${name}_objects PRIVATE asyncmesh_flags ${arg_LINK})
  target_compile_options(asyncmesh_${name}_objects PRIVATE ${ASYNCMESH_LTO_COMPILE})
  target_link_libraries(asyncmesh_${name} PUBLIC asyncmesh_flags ${arg_LINK} Threads::Threads)
  foreach(room IN LISTS arg_ROOMS)
    target_link_libraries(asyncmesh_${name} PUBLIC asyncmesh_${room})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ASYNCMESH_ROOMS ${name})
  set_property(GLOBAL APPEND PROPERTY ASYNCMESH_ROOM_LINK ${arg_LINK})
endfunction()

function(asyncmesh_add_library)
  get_property(rooms GLOBAL PROPERTY ASYNCMESH_ROOMS)
  get_property(foreign GLOBAL PROPERTY ASYNCMESH_ROOM_LINK)
  list(REMOVE_DUPLICATES foreign)
  set(objects "")
  foreach(room IN LISTS rooms)
    list(APPEND objects $<TARGET_OBJECTS:asyncmesh_${room}_objects>)
  endforeach()
  add_library(asyncmesh SHARED ${objects})
  add_library(asyncmesh_static STATIC ${objects})
  set(map "${PROJECT_SOURCE_DIR}/libasyncmesh/asyncmesh.map")
  set_target_properties(asyncmesh PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                        LINKER_LANGUAGE CXX LINK_DEPENDS "${map}")
  target_link_options(asyncmesh PRIVATE "LINKER:--version-script=${map}" ${ASYNCMESH_LTO_LINK})
  if(NOT ASYNCMESH_SANITIZE)
    target_link_options(asyncmesh PRIVATE LINKER:--no-undefined)
  endif()
  set_target_properties(asyncmesh_static PROPERTIES OUTPUT_NAME asyncmesh LINKER_LANGUAGE CXX)
  foreach(target asyncmesh asyncmesh_static)
    target_include_directories(${target} PUBLIC
      "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libasyncmesh/include>"
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:asyncmesh_flags>)
    add_library(asyncmesh::${target} ALIAS ${target})
  endforeach()
  # Users of the shared library need none of what it is built on; users of the static one link all of it.
  foreach(library IN LISTS foreign ITEMS Threads::Threads)
    target_link_libraries(asyncmesh PRIVATE $<BUILD_INTERFACE:${library}>)
    target_link_libraries(asyncmesh_static PRIVATE ${library})
  endforeach()
endfunction()

# Sanitized programs run several times slower, and say everything about the first finding. What measures time or starts processes
# has the machine to itself.
function(asyncmesh_set_test_properties name timeout labels)
  if(ASYNCMESH_SANITIZE)
    math(EXPR timeout "${timeout} * 4")
    set_property(TEST ${name} PROPERTY ENVIRONMENT
      "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
      "UBSAN_OPTIONS=print_stacktrace=1"
      # UCX is not instrumented, so its own synchronisation is invisible: what it copies must be, too.
      "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=1"
      # UCX's hooks in malloc and munmap run into TSan's own at thread exit.
      "UCX_MEM_MMAP_HOOK_MODE=none")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout})
  if(labels MATCHES "multiproc|stress|perf|install")
    set_property(TEST ${name} PROPERTY RUN_SERIAL TRUE)
  endif()
endfunction()

function(asyncmesh_add_test name)
  cmake_parse_arguments(arg "OWN_MAIN;ALONE" "TIMEOUT" "SOURCES;LABELS;ROOMS;LINK;ARGS" ${ARGN})
  if(NOT arg_LABELS)
    message(FATAL_ERROR "${name}: a test needs LABELS (tests/CMakeLists.txt lists them)")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE asyncmesh_flags ${arg_LINK} GTest::gmock GTest::gtest)
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  foreach(room IN LISTS arg_ROOMS)
    target_link_libraries(${name} PRIVATE asyncmesh_${room})
  endforeach()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  asyncmesh_set_test_properties(${name} ${arg_TIMEOUT} "${arg_LABELS}")
  if(arg_ALONE)
    set_property(TEST ${name} PROPERTY RUN_SERIAL TRUE)
  endif()
  foreach(label IN LISTS arg_LABELS)
    if(label MATCHES "^(unit|conformance|protocol)$")
      add_dependencies(tests_sanitized ${name})
    endif()
  endforeach()
endfunction()

function(asyncmesh_add_command_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  asyncmesh_set_test_properties(${name} ${arg_TIMEOUT} "${arg_LABELS}")
endfunction()
