# cmake -P cmake/valgrind.cmake
# Builds the examples without AVX-512, which valgrind does not know, and runs each with the arguments that its test has under
# memcheck: a read of what was never written, a read or write beyond memory, a leak fails. Takes an hour on two cores.
# A machine without valgrind is told so, and nothing fails. Options, before -P:
#   "-DEXAMPLES=own_rule;own_backend"   these alone
#   -DBUILD_DIR=DIR                     default: build/valgrind
#   -DJOBS=N                            compile jobs at a time
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(NOT DEFINED BUILD_DIR)
  set(BUILD_DIR "${HEADRED_ROOT}/build/valgrind")
endif()
cmake_path(ABSOLUTE_PATH BUILD_DIR)
find_program(_valgrind valgrind NO_CACHE)
if(NOT _valgrind)
  headred_say("skipped: no valgrind here (apt-get install --no-install-recommends valgrind)")
  return()
endif()

# The examples that run by themselves, and how: a line `// run: ARGS`, or none for no arguments.
set(_names "")
file(GLOB _sources "${HEADRED_ROOT}/examples/*.cpp")
foreach(_source IN LISTS _sources)
  cmake_path(GET _source STEM _name)
  file(STRINGS "${_source}" _run REGEX "^// run: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// run: *" "" _run "${_run}")
  if(NOT _run STREQUAL "none" AND (NOT EXAMPLES OR _name IN_LIST EXAMPLES))
    list(APPEND _names ${_name})
    separate_arguments(_arguments_${_name} UNIX_COMMAND "${_run}")
  endif()
endforeach()
if(NOT _names)
  message(FATAL_ERROR "headred: none of the examples '${EXAMPLES}' runs by itself")
endif()

headred_run("configuring" "${CMAKE_COMMAND}" --preset release -S "${HEADRED_ROOT}" -B "${BUILD_DIR}"
            -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DCMAKE_CXX_FLAGS=-march=x86-64-v3
            -DHEADRED_NATIVE=OFF -DHEADRED_TESTS=OFF -DHEADRED_BENCHMARKS=OFF -DHEADRED_EXAMPLES=ON)
headred_run("building" "${CMAKE_COMMAND}" --build "${BUILD_DIR}" --parallel ${JOBS} --target ${_names})

set(_failed "")
foreach(_name IN LISTS _names)
  set(_work "${BUILD_DIR}/work/${_name}")
  file(REMOVE_RECURSE "${_work}")
  file(MAKE_DIRECTORY "${_work}")
  string(TIMESTAMP _begin "%s" UTC)
  execute_process(
    COMMAND "${_valgrind}" --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
            "--log-file=${_work}/valgrind.txt" "${BUILD_DIR}/examples/${_name}" ${_arguments_${_name}}
    WORKING_DIRECTORY "${_work}" RESULT_VARIABLE _result OUTPUT_FILE "${_work}/output.txt" ERROR_FILE "${_work}/errors.txt")
  string(TIMESTAMP _end "%s" UTC)
  math(EXPR _seconds "${_end} - ${_begin}")
  headred_say("${_name}: ended with ${_result} after ${_seconds} s")
  if(NOT _result EQUAL 0)
    list(APPEND _failed ${_name})
    file(STRINGS "${_work}/valgrind.txt" _lines LIMIT_COUNT 40)
    list(JOIN _lines "\n" _lines)
    message("${_lines}")
  endif()
endforeach()
if(_failed)
  message(FATAL_ERROR "headred: valgrind found errors in, or could not run: ${_failed}; see ${BUILD_DIR}/work")
endif()
