# tests_out_of_memory: a program of its own, since it replaces operator new.
if(HEADRED_SANITIZE OR (HEADRED_TEST_FOLDERS AND NOT "reliability" IN_LIST HEADRED_TEST_FOLDERS))
  return()
endif()

headred_add_program(tests_out_of_memory reliability/out_of_memory.cpp)
target_include_directories(tests_out_of_memory PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
if(NOT MSVC)
  # Next to nothing is computed here: a quick compilation is worth more than a quick program.
  target_compile_options(tests_out_of_memory PRIVATE $<$<CONFIG:Release>:-O0>)
endif()
add_test(NAME reliability.out_of_memory COMMAND tests_out_of_memory)
set_tests_properties(reliability.out_of_memory PROPERTIES TIMEOUT 300 LABELS cpu)
