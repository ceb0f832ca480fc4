# cmake -P cmake/reference.cmake
# Builds the reference of all public names as HTML, with Doxygen. Any warning is an error, but for one: fields and accessors of
# a class need no sentence where their name says it all (some hundreds of `rows()` and `options()`), so those are counted only.
# A machine without doxygen (Debian: apt-get install --no-install-recommends doxygen) is told so, and nothing fails.
# Options, before -P:
#   -DBUILD_DIR=DIR   default: build/reference
cmake_minimum_required(VERSION 3.22)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH HEADRED_ROOT)
if(NOT DEFINED BUILD_DIR)
  set(BUILD_DIR "${HEADRED_ROOT}/build/reference")
endif()
cmake_path(ABSOLUTE_PATH BUILD_DIR)

find_program(_doxygen doxygen NO_CACHE)
if(NOT _doxygen)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "skipped: no doxygen here (apt-get install --no-install-recommends doxygen)")
  return()
endif()
set(HEADRED_VERSION "")
file(STRINGS "${HEADRED_ROOT}/include/headred/core/version.hpp" _lines REGEX "^#define HEADRED_VERSION_[A-Z]+ [0-9]+")
foreach(_line IN LISTS _lines)
  string(REGEX REPLACE ".* " "" _number "${_line}")
  list(APPEND HEADRED_VERSION ${_number})
endforeach()
list(JOIN HEADRED_VERSION "." HEADRED_VERSION)

set(HEADRED_REFERENCE "${BUILD_DIR}")
file(REMOVE_RECURSE "${BUILD_DIR}/html" "${BUILD_DIR}/warnings.txt")
file(MAKE_DIRECTORY "${BUILD_DIR}")
configure_file("${HEADRED_ROOT}/docs/Doxyfile.in" "${BUILD_DIR}/Doxyfile" @ONLY)
execute_process(COMMAND "${_doxygen}" "${BUILD_DIR}/Doxyfile" WORKING_DIRECTORY "${HEADRED_ROOT}" RESULT_VARIABLE _failed
                OUTPUT_QUIET)
if(NOT _failed EQUAL 0 OR NOT EXISTS "${BUILD_DIR}/html/index.html" OR NOT EXISTS "${BUILD_DIR}/warnings.txt")
  message(FATAL_ERROR "headred: doxygen failed (${_failed})")
endif()

file(STRINGS "${BUILD_DIR}/warnings.txt" _warnings)
set(_members ${_warnings})
list(FILTER _members INCLUDE REGEX "Member .* of (class|struct|union) .* is not documented")
list(FILTER _warnings EXCLUDE REGEX "Member .* of (class|struct|union) .* is not documented")
if(_warnings)
  list(JOIN _warnings "\n" _text)
  message(FATAL_ERROR "headred: the reference has warnings\n${_text}")
endif()
file(GLOB_RECURSE _pages "${BUILD_DIR}/html/*.html")
list(LENGTH _pages _count)
list(LENGTH _members _silent)
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo
                        "headred: ${_count} pages, ${_silent} members say what they are by their name: ${BUILD_DIR}/html/index.html")
