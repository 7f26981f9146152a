# cmake --install: the library, its headers, the command, a CMake package (find_package(tenon), target tenon::tenon) and tenon.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_include_directories(tenon INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(tenon INTERFACE cxx_std_20)
install(TARGETS tenon EXPORT tenonTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tenon_binary RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION ${package_dir})
file(WRITE ${CMAKE_BINARY_DIR}/package/tenonConfig.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/tenonTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/tenonConfig.cmake ${CMAKE_BINARY_DIR}/package/tenonConfigVersion.cmake
        DESTINATION ${package_dir})

configure_file(${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in ${CMAKE_BINARY_DIR}/package/tenon.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
