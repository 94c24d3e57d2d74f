# Installs the library, the public headers, asyncmesh.pc and the CMake package: find_package(asyncmesh) gives
# asyncmesh::asyncmesh (shared, needs nothing else), find_package(asyncmesh COMPONENTS static) also asyncmesh::asyncmesh_static,
# whose users need the development packages of UCX, hwloc, fmt, OpenSSL and Highway.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/asyncmesh")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/libasyncmesh/include/asyncmesh" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
foreach(pair "asyncmesh|asyncmeshTargets" "asyncmesh_static|asyncmeshStaticTargets")
  string(REPLACE "|" ";" pair "${pair}")
  list(GET pair 0 target)
  list(GET pair 1 export)
  install(TARGETS ${target} EXPORT ${export}
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ${export} NAMESPACE asyncmesh:: DESTINATION "${package_dir}")
endforeach()
if(TARGET asyncmesh_info)
  install(TARGETS asyncmesh_info RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/asyncmeshConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/asyncmeshConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/asyncmeshConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/asyncmeshConfig.cmake" "${PROJECT_BINARY_DIR}/asyncmeshConfigVersion.cmake"
        DESTINATION "${package_dir}")

# Relative to where the file lies, so that the installed tree can be moved (cmake --install --prefix, package builds).
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" up "${up}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/asyncmesh.pc.in" "${PROJECT_BINARY_DIR}/asyncmesh.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/asyncmesh.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
