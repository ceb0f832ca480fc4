# cmake -DROOT=... -DWORK=... -DGENERATOR=... -DPREFIX_PATH=... -P libfuzzer.cmake
# Builds tests/fuzz with clang and lets each target search for a short while.
cmake_minimum_required(VERSION 3.22)
string(REPLACE "|" ";" fetched "${FETCHED}")
find_program(clang clang++ NO_CACHE)
set(works FALSE)
if(clang)
  # The run-time library is a package of its own: only a link tells whether it is here.
  file(WRITE "${WORK}/probe.cpp" "extern \"C\" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }\n")
  execute_process(COMMAND "${clang}" -fsanitize=fuzzer,address,undefined "${WORK}/probe.cpp" -o "${WORK}/probe"
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0)
    set(works TRUE)
  endif()
endif()
if(NOT works)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "skipped: no clang++ with libFuzzer here")
  return()
endif()
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${ROOT}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${clang}"
          -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}" ${fetched} -DHEADRED_FUZZ=ON -DHEADRED_TESTS=OFF
          -DHEADRED_EXAMPLES=OFF -DHEADRED_BENCHMARKS=OFF -DHEADRED_INSTALL=OFF COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/build" --output-on-failure --no-tests=error --parallel 2
                COMMAND_ERROR_IS_FATAL ANY)
