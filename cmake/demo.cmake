# cmake -P cmake/demo.cmake
# On a machine with a compiler and CMake: installs what is missing, builds the example head_redundancy optimised, runs it
# on its embedded attention maps and says where the report is. Options, before -P:
#   -DINSTALL=OFF     install nothing; the build fetches the libraries that it lacks
#   -DBUILD_DIR=DIR   default: build/demo
#   -DJOBS=N          compile jobs at a time
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(NOT DEFINED BUILD_DIR)
  set(BUILD_DIR "${HEADRED_ROOT}/build/demo")
endif()
cmake_path(ABSOLUTE_PATH BUILD_DIR)

headred_provide(${HEADRED_BUILD_PACKAGES} ${HEADRED_LIBRARY_PACKAGES})
headred_configure_and_build("${BUILD_DIR}" -DHEADRED_TESTS=OFF -DHEADRED_BENCHMARKS=OFF -DHEADRED_EXAMPLES=ON)
find_program(_tool head_redundancy PATHS "${BUILD_DIR}/examples" "${BUILD_DIR}/examples/Release"
             NO_DEFAULT_PATH NO_CACHE REQUIRED)
headred_run("head_redundancy" "${_tool}" --out "${BUILD_DIR}/report")
if(NOT EXISTS "${BUILD_DIR}/report/report.html")
  message(FATAL_ERROR "headred: head_redundancy left no report.html in ${BUILD_DIR}/report")
endif()
headred_say("the report: ${BUILD_DIR}/report/report.html")
