# Instruction counts of the kernels against stored budgets, for the compiler and processor family that they were counted
# with: g++ 12 for x86-64-v3 whatever this machine could do (valgrind knows no AVX-512).
find_program(HEADRED_VALGRIND NAMES valgrind)
mark_as_advanced(HEADRED_VALGRIND)
if(NOT HEADRED_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_valgrind "$<FILTER:${HEADRED_VALGRIND},EXCLUDE,NOTFOUND$>")
  set(_budget "${CMAKE_CURRENT_SOURCE_DIR}/budget")
  add_executable(budget_kernels "${_budget}/kernels.cpp")
  set_target_properties(budget_kernels PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(budget_kernels PRIVATE headred::headred)
  target_compile_options(budget_kernels PRIVATE -O2 -march=x86-64-v3 -Wno-psabi)
  add_test(NAME budget.instructions
           COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:budget_kernels>" "-DVALGRIND=${_valgrind}"
                   "-DBUDGETS=${_budget}/budgets.txt" "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/work/budget" -P "${_budget}/count.cmake")
  set_tests_properties(budget.instructions PROPERTIES TIMEOUT 600 SKIP_REGULAR_EXPRESSION "^skipped: ;\nskipped: ")
endif()
