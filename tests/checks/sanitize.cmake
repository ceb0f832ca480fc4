# cmake -DROOT=... -DWORK=... -DSANITIZE=... -DFOLDERS=... ... -P sanitize.cmake
# tests_cpu once more in a folder of its own, under sanitizers: -O1, assertions on, no -march=native.
cmake_minimum_required(VERSION 3.22)
string(REPLACE "|" ";" fetched "${FETCHED}")
string(TIMESTAMP start "%s")
execute_process(
  COMMAND
    "${CMAKE_COMMAND}" -S "${ROOT}" -B "${WORK}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" "-DHEADRED_SANITIZE=${SANITIZE}"
    -DHEADRED_SANITIZE_PART=ON
    "-DHEADRED_TEST_FOLDERS=${FOLDERS}" "-DHEADRED_SHARED_DIR=${SHARED_DIR}" "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}" ${fetched}
    -DHEADRED_EXAMPLES=OFF -DHEADRED_BENCHMARKS=OFF -DHEADRED_INSTALL=OFF COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}" --parallel 2 COMMAND_ERROR_IS_FATAL ANY)
string(TIMESTAMP built "%s")
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}" --output-on-failure --no-tests=error --parallel 2
                COMMAND_ERROR_IS_FATAL ANY)
string(TIMESTAMP done "%s")
math(EXPR build_time "${built} - ${start}")
math(EXPR run_time "${done} - ${built}")
message("${SANITIZE}: built in ${build_time} s, ran in ${run_time} s")
