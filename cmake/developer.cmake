# How headred's own tests, examples and benchmarks are compiled. Never part of headred::headred.
include_guard()
include(CheckCXXCompilerFlag)

add_library(headred_developer INTERFACE)
if(MSVC)
  target_compile_options(headred_developer INTERFACE /W4)
else()
  target_compile_options(headred_developer INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 finds its own AVX-512 intrinsics uninitialized (its bug 105593) wherever Eigen is inlined, and overlaps in
    # std::string where there are none (its bug 105329).
    target_compile_options(headred_developer INTERFACE -Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict)
  endif()
endif()

# The sanitized build leaves -march=native out, so that the generic code path is tested too.
if(HEADRED_NATIVE AND NOT HEADRED_SANITIZE)
  check_cxx_compiler_flag(-march=native HEADRED_HAS_MARCH_NATIVE)
  if(HEADRED_HAS_MARCH_NATIVE)
    target_compile_options(headred_developer INTERFACE -march=native)
  endif()
endif()

if(HEADRED_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${HEADRED_SANITIZE}")
  target_compile_options(headred_developer INTERFACE -fsanitize=${_sanitizers} -fno-sanitize-recover=all
                                                     -fno-omit-frame-pointer)
  target_link_options(headred_developer INTERFACE -fsanitize=${_sanitizers})
endif()

headred_need_xtensor()

# headred_add_program(NAME SOURCE...): an executable as all of ours are.
function(headred_add_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE headred::headred headred::io xtensor headred_developer)
endfunction()
