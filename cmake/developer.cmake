# How headred's own tests, examples and benchmarks are compiled. Never part of headred::headred.
include_guard()
include(CheckCXXCompilerFlag)

if(MSVC)
  set(HEADRED_DEVELOPER_OPTIONS /W4)
else()
  set(HEADRED_DEVELOPER_OPTIONS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 finds its own AVX-512 intrinsics uninitialized (its bug 105593) wherever Eigen is inlined, and overlaps in
    # std::string where there are none (its bug 105329).
    list(APPEND HEADRED_DEVELOPER_OPTIONS -Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict)
  endif()
endif()

# The sanitized build leaves -march=native out, so that the generic code path is tested too.
if(HEADRED_NATIVE AND NOT HEADRED_SANITIZE)
  check_cxx_compiler_flag(-march=native HEADRED_HAS_MARCH_NATIVE)
  if(HEADRED_HAS_MARCH_NATIVE)
    list(APPEND HEADRED_DEVELOPER_OPTIONS -march=native)
  endif()
endif()

if(HEADRED_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${HEADRED_SANITIZE}")
  list(APPEND HEADRED_DEVELOPER_OPTIONS -fsanitize=${_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  set(HEADRED_DEVELOPER_LINK_OPTIONS -fsanitize=${_sanitizers})
endif()

headred_need_xtensor()

# headred_developer(TARGET): the options above, for this target alone.
function(headred_developer name)
  target_compile_options(${name} PRIVATE ${HEADRED_DEVELOPER_OPTIONS})
  target_link_options(${name} PRIVATE ${HEADRED_DEVELOPER_LINK_OPTIONS})
endfunction()

# headred_add_program(NAME SOURCE...): an executable as all of ours are.
function(headred_add_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE headred::headred headred::io xtensor)
  headred_developer(${name})
endfunction()
