# Dependencies: a target that is already there, else an installed package, else a pinned download.
# Of header-only downloads only the headers are used and their CMake code is not run: no foreign option, install rule or
# test enters the user's project.
include_guard()

# headred_download(NAME URL SHA256): unpacks to headred_<NAME>_SOURCE_DIR.
# FETCHCONTENT_SOURCE_DIR_HEADRED_<NAME> points it at a local copy instead.
macro(headred_download name url sha256)
  include(FetchContent)
  string(TOUPPER "headred_${name}" _upper)
  if(FETCHCONTENT_SOURCE_DIR_${_upper})
    message(STATUS "headred: ${name} is not installed, using ${FETCHCONTENT_SOURCE_DIR_${_upper}}")
  else()
    message(STATUS "headred: ${name} is not installed, fetching ${url}")
  endif()
  # SOURCE_SUBDIR names a folder that does not exist, so that nothing is added as a subdirectory.
  FetchContent_Declare(headred_${name} URL "${url}" URL_HASH SHA256=${sha256} SOURCE_SUBDIR cmake-not-run)
  FetchContent_MakeAvailable(headred_${name})
  if(NOT EXISTS "${headred_${name}_SOURCE_DIR}")
    message(FATAL_ERROR "headred: ${name} is neither installed nor fetched: install it, allow downloads, or name a copy by "
                        "-DFETCHCONTENT_SOURCE_DIR_${_upper}=DIR")
  endif()
  # Builds within our build (tests do that) take the same copy instead of a download of their own.
  set_property(GLOBAL APPEND PROPERTY HEADRED_FETCHED "-DFETCHCONTENT_SOURCE_DIR_${_upper}=${headred_${name}_SOURCE_DIR}")
endmacro()

# An imported target's headers are system headers: our warnings do not reach them.
function(headred_import_headers target)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${ARGN})
endfunction()

# Eigen 3.4 or 5. Asked for without a version: Eigen 5's version file refuses a request for 3.4.
function(headred_need_eigen)
  if(NOT TARGET Eigen3::Eigen)
    find_package(Eigen3 CONFIG QUIET)
    if(Eigen3_FOUND AND Eigen3_VERSION VERSION_LESS 3.4)
      message(FATAL_ERROR "headred: Eigen ${Eigen3_VERSION} in ${Eigen3_DIR} is too old, 3.4 or later is needed")
    endif()
  endif()
  if(NOT TARGET Eigen3::Eigen)
    headred_download(eigen https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
                     b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626)
    headred_import_headers(Eigen3::Eigen "${headred_eigen_SOURCE_DIR}")
  endif()
endfunction()

# nlohmann_json. Sets HEADRED_IO_FOUND; fetches only if mode is ON.
function(headred_need_io mode)
  set(HEADRED_IO_FOUND OFF PARENT_SCOPE)
  if(mode STREQUAL "OFF")
    return()
  endif()
  if(NOT TARGET nlohmann_json::nlohmann_json)
    find_package(nlohmann_json CONFIG QUIET)
  endif()
  if(mode STREQUAL "ON" AND NOT TARGET nlohmann_json::nlohmann_json)
    headred_download(nlohmann_json https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
                     8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
    headred_import_headers(nlohmann_json::nlohmann_json "${headred_nlohmann_json_SOURCE_DIR}/include")
  endif()
  if(TARGET nlohmann_json::nlohmann_json)
    set(HEADRED_IO_FOUND ON PARENT_SCOPE)
  endif()
endfunction()

# xtensor with xtl: for our own programs, which hand its arrays over. The library includes neither.
function(headred_need_xtensor)
  if(NOT TARGET xtensor)
    find_package(xtensor CONFIG QUIET)
    if(TARGET xtensor)
      set_target_properties(xtensor PROPERTIES IMPORTED_GLOBAL ON)
    endif()
  endif()
  if(NOT TARGET xtensor)
    headred_download(xtl https://github.com/xtensor-stack/xtl/archive/refs/tags/0.7.5.tar.gz
                     3286fef5fee5d58f82f7b91375cd449c819848584bae9367893501114d923cbe)
    headred_download(xtensor https://github.com/xtensor-stack/xtensor/archive/refs/tags/0.24.6.tar.gz
                     f87259b51aabafdd1183947747edfff4cff75d55375334f2e81cee6dc68ef655)
    headred_import_headers(xtensor "${headred_xtensor_SOURCE_DIR}/include" "${headred_xtl_SOURCE_DIR}/include")
  endif()
endfunction()

function(headred_need_doctest)
  if(NOT TARGET doctest::doctest)
    find_package(doctest CONFIG QUIET)
  endif()
  if(NOT TARGET doctest::doctest)
    headred_download(doctest https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz
                     19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856)
    # Debian installs <doctest/doctest.h>, and so does the archive's folder itself.
    headred_import_headers(doctest::doctest "${headred_doctest_SOURCE_DIR}")
  endif()
endfunction()

function(headred_need_benchmark)
  if(NOT TARGET benchmark::benchmark)
    find_package(benchmark CONFIG QUIET)
  endif()
  if(NOT TARGET benchmark::benchmark)
    headred_download(benchmark https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
                     6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7)
    # Compiled here rather than by its own build, which adds -Werror, install rules and targets.
    file(GLOB sources "${headred_benchmark_SOURCE_DIR}/src/*.cc")
    list(FILTER sources EXCLUDE REGEX "benchmark_main\\.cc$")
    add_library(headred_benchmark STATIC EXCLUDE_FROM_ALL ${sources})
    add_library(benchmark::benchmark ALIAS headred_benchmark)
    target_include_directories(headred_benchmark SYSTEM PUBLIC "${headred_benchmark_SOURCE_DIR}/include")
    target_compile_definitions(headred_benchmark PUBLIC BENCHMARK_STATIC_DEFINE PRIVATE HAVE_STD_REGEX
                                                                                        HAVE_STEADY_CLOCK)
    target_compile_features(headred_benchmark PUBLIC cxx_std_11)
    target_link_libraries(headred_benchmark PUBLIC Threads::Threads)
  endif()
endfunction()
