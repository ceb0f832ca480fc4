# Configures, builds and runs one consumer project in a fresh folder. What exactly: script.cmake of the project.
cmake_minimum_required(VERSION 3.22)
if(LACKS)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "skipped: ${LACKS} is not installed here")
  return()
endif()
string(REPLACE "|" ";" fetched "${FETCHED}")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# headred_consume(SOURCE BUILD [-DX=Y ...]): configures, builds, runs the program `consumer`.
function(headred_configure source build)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
            -DCMAKE_BUILD_TYPE=Debug -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "-DHEADRED_ROOT=${HEADRED_ROOT}" ${ARGN}
            COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(headred_build build)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(headred_consume source build)
  headred_configure("${source}" "${build}" ${ARGN})
  headred_build("${build}")
  execute_process(COMMAND "${build}/consumer" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

include("${SOURCE}/script.cmake")
