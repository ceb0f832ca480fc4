# What demo.cmake and check.cmake share: find out what is missing, install it where that is allowed, configure, build.
# Script mode has no project: the root is derived from this file, and nothing here may create a target.
include_guard()
cmake_minimum_required(VERSION 3.22)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH HEADRED_ROOT)

if(NOT DEFINED INSTALL)
  set(INSTALL ON)
endif()
if(NOT DEFINED JOBS)
  # A translation unit full of Eigen takes about 1 GB: as many jobs as cores, but no more than memory allows.
  cmake_host_system_information(RESULT _cores QUERY NUMBER_OF_LOGICAL_CORES)
  cmake_host_system_information(RESULT _megabytes QUERY AVAILABLE_PHYSICAL_MEMORY)
  math(EXPR JOBS "${_megabytes} / 1200")
  if(JOBS GREATER _cores)
    set(JOBS ${_cores})
  elseif(JOBS LESS 1)
    set(JOBS 1)
  endif()
endif()

function(headred_say text)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "headred: ${text}")  # stdout, and no "-- "
endfunction()

# headred_is_missing(RESULT PACKAGE KIND NAME): is the header NAME or the program NAME nowhere to be found?
# By file first: what was installed by other means counts. Then by the package manager's own record.
function(headred_is_missing result package kind name)
  unset(_found)
  if(kind STREQUAL "header")
    find_path(_found NAMES ${name} PATHS /usr/local /usr ENV CMAKE_PREFIX_PATH PATH_SUFFIXES include include/eigen3 NO_CACHE)
  else()
    find_program(_found NAMES ${name} NO_CACHE)
  endif()
  if(NOT _found)
    find_program(_dpkg dpkg-query NO_CACHE)
    if(_dpkg)
      execute_process(COMMAND "${_dpkg}" -W -f "\${db:Status-Status}" ${package}
                      OUTPUT_VARIABLE _status ERROR_QUIET)
      if(_status STREQUAL "installed")
        set(_found TRUE)
      endif()
    endif()
  endif()
  if(_found)
    set(${result} FALSE PARENT_SCOPE)
  else()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# headred_provide(PACKAGE KIND NAME PURPOSE ...): the packages, four words each; installs those that are missing.
# Nothing here is fatal: what stays missing is fetched by the build, or the build says what it lacks.
function(headred_provide)
  set(missing "")
  set(_words ${ARGN})
  while(_words)
    list(POP_FRONT _words package kind name purpose)
    headred_is_missing(_missing ${package} ${kind} ${name})
    if(_missing)
      headred_say("missing: ${package} (${purpose})")
      list(APPEND missing ${package})
    endif()
  endwhile()
  if(NOT missing)
    headred_say("nothing is missing")
    return()
  endif()

  list(JOIN missing " " listed)
  set(by_hand "apt-get install --no-install-recommends ${listed}")
  find_program(_apt apt-get NO_CACHE)
  find_program(_id id NO_CACHE)
  find_program(_sudo sudo NO_CACHE)
  set(_prefix "")
  set(_uid "")
  if(_id)
    execute_process(COMMAND "${_id}" -u OUTPUT_VARIABLE _uid OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT INSTALL)
    headred_say("INSTALL=OFF: nothing is installed. The build fetches the libraries that it lacks.")
    return()
  elseif(NOT _apt)
    headred_say("no apt-get here: please install them yourself. The build fetches the libraries that it lacks.")
    return()
  elseif(NOT _uid STREQUAL "0")
    set(_sudo_works 1)
    if(_sudo)
      execute_process(COMMAND "${_sudo}" -n true RESULT_VARIABLE _sudo_works OUTPUT_QUIET ERROR_QUIET)
    endif()
    if(NOT _sudo_works EQUAL 0)
      headred_say("neither root nor sudo without a password: not installing. To do it by hand: sudo ${by_hand}")
      headred_say("The build fetches the libraries that it lacks.")
      return()
    endif()
    set(_prefix "${_sudo}" -n)
  endif()

  set(_apt_get ${_prefix} "${CMAKE_COMMAND}" -E env DEBIAN_FRONTEND=noninteractive "${_apt}" -q
               -o DPkg::Lock::Timeout=300)
  headred_say("apt-get update")
  execute_process(COMMAND ${_apt_get} update OUTPUT_QUIET)
  # All at once; if one of them has no package here, one by one, so that the others still come.
  headred_say("${by_hand}")
  execute_process(COMMAND ${_apt_get} install -y --no-install-recommends ${missing}
                  RESULT_VARIABLE _failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT _failed EQUAL 0)
    foreach(package IN LISTS missing)
      execute_process(COMMAND ${_apt_get} install -y --no-install-recommends ${package}
                      RESULT_VARIABLE _failed OUTPUT_QUIET)
      if(NOT _failed EQUAL 0)
        headred_say("could not install ${package}")
      endif()
    endforeach()
  endif()
endfunction()

# Compiler and build tool: without them there is nothing to configure.
set(HEADRED_BUILD_PACKAGES "")
find_program(_cxx NAMES $ENV{CXX} c++ g++ clang++ NO_CACHE)
if(NOT _cxx)
  list(APPEND HEADRED_BUILD_PACKAGES g++ program g++ "the compiler")
endif()
find_program(_make NAMES ninja make gmake NO_CACHE)
if(NOT _make)
  list(APPEND HEADRED_BUILD_PACKAGES ninja-build program ninja "the build tool")
endif()

set(HEADRED_LIBRARY_PACKAGES
    libeigen3-dev header Eigen/Core "linear algebra"
    libxsimd-dev header xsimd/xsimd.hpp "used by xtensor"
    libxtensor-dev header xtensor "arrays and npy files"
    nlohmann-json3-dev header nlohmann/json.hpp "JSON files")

set(HEADRED_TEST_PACKAGES
    doctest-dev header doctest/doctest.h "tests"
    libboost-context-dev header boost/context/fiber.hpp "runs CUDA kernels on the host"
    libbenchmark-dev header benchmark/benchmark.h "benchmarks"
    clang program clang++ "second compiler, fuzzing"
    libclang-rt-dev library none "fuzzing: the sanitizers' run-time library"
    clang-format-16 program clang-format-16 "style check"
    valgrind program valgrind "counts instructions"
    chromium program chromium "opens the report in a test")

function(headred_run what)
  list(JOIN ARGN " " _text)
  headred_say("${_text}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE _failed WORKING_DIRECTORY "${HEADRED_ROOT}")
  if(NOT _failed EQUAL 0)
    message(FATAL_ERROR "headred: ${what} failed (${_failed})")
  endif()
endfunction()

# headred_configure_and_build(BUILD_DIR -DVARIABLE=VALUE...)
function(headred_configure_and_build build_dir)
  find_program(_cxx NAMES $ENV{CXX} c++ g++ clang++ NO_CACHE)
  find_program(_make NAMES ninja make gmake NO_CACHE)
  if(NOT _cxx OR NOT _make)
    message(FATAL_ERROR "headred: a C++20 compiler and ninja or make are needed to go on")
  endif()
  set(_generator "")
  find_program(_ninja ninja NO_CACHE)
  if(_ninja AND NOT EXISTS "${build_dir}/CMakeCache.txt" AND NOT DEFINED ENV{CMAKE_GENERATOR})
    set(_generator -G Ninja)  # a folder that was configured before keeps its generator
  endif()
  headred_run("configuring" "${CMAKE_COMMAND}" --preset release -S "${HEADRED_ROOT}" -B "${build_dir}" ${_generator} ${ARGN})
  headred_run("building" "${CMAKE_COMMAND}" --build "${build_dir}" --config Release --parallel ${JOBS})
endfunction()
