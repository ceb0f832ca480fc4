# cmake -P cmake/check.cmake
# On a machine with a compiler and CMake: installs what is missing, builds everything and runs the whole test suite.
# Fails if a test fails. Options, before -P:
#   -DINSTALL=OFF     install nothing; the build fetches the libraries that it lacks, tests that lack a tool are skipped
#   -DBUILD_DIR=DIR   default: build/check
#   -DJOBS=N          compile jobs and tests at a time
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(NOT DEFINED BUILD_DIR)
  set(BUILD_DIR "${HEADRED_ROOT}/build/check")
endif()
cmake_path(ABSOLUTE_PATH BUILD_DIR)

headred_provide(${HEADRED_BUILD_PACKAGES} ${HEADRED_LIBRARY_PACKAGES} ${HEADRED_TEST_PACKAGES})
headred_configure_and_build("${BUILD_DIR}" -DHEADRED_TESTS=ON -DHEADRED_BENCHMARKS=ON -DHEADRED_EXAMPLES=ON)
headred_run("the test suite" "${CMAKE_CTEST_COMMAND}" --test-dir "${BUILD_DIR}" --build-config Release
            --output-on-failure --no-tests=error --parallel ${JOBS})
