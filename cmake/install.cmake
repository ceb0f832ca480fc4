# Install rules. Two export sets, so that find_package(headred) does not look for what only headred::io needs.
include_guard()
include(CMakePackageConfigHelpers)

set(_headred_cmake_dir "${CMAKE_INSTALL_DATADIR}/cmake/headred")  # nothing here depends on the architecture
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/headred" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/headred")

install(TARGETS headred EXPORT headredTargets)
install(EXPORT headredTargets NAMESPACE headred:: DESTINATION "${_headred_cmake_dir}")
if(TARGET headred_io)
  install(TARGETS headred_io EXPORT headred_ioTargets)
  install(EXPORT headred_ioTargets NAMESPACE headred:: DESTINATION "${_headred_cmake_dir}")
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/headredConfig.cmake.in" headredConfig.cmake
                              INSTALL_DESTINATION "${_headred_cmake_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(headredConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/headredConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/headredConfigVersion.cmake"
        DESTINATION "${_headred_cmake_dir}")

# `cpack -G TGZ` and `cpack --config CPackSourceConfig.cmake`: what is installed, and the sources, as archives.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_SOURCE_GENERATOR TGZ)
  set(CPACK_PACKAGE_VENDOR headred)
  set(CPACK_PACKAGE_FILE_NAME "headred-${PROJECT_VERSION}")  # nothing in it depends on the machine
  set(CPACK_SOURCE_PACKAGE_FILE_NAME "headred-${PROJECT_VERSION}-source")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_SOURCE_IGNORE_FILES "/[.]git/" "/build/" "/out/" "/[.]cache/" "/_CPack_Packages/")
  set(CPACK_VERBATIM_VARIABLES ON)
  include(CPack)
endif()
