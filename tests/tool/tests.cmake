# tests_tool: the program head_redundancy from outside, as its users meet it. Not where the examples are not built.
if(NOT TARGET head_redundancy OR NOT UNIX OR (HEADRED_TEST_FOLDERS AND NOT "tool" IN_LIST HEADRED_TEST_FOLDERS))
  return()
endif()

set(_tool_tests "${CMAKE_CURRENT_SOURCE_DIR}/tool")
headred_add_program(tests_tool main.cpp tool/answers.cpp tool/full_disk.cpp tool/manners.cpp tool/real.cpp tool/refusals.cpp
                    tool/evaluate_model.cpp)
target_include_directories(tests_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_definitions(tests_tool PRIVATE "HEADRED_SHARED_DIR=\"${HEADRED_SHARED_DIR}\""
                                              "HEADRED_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
target_link_libraries(tests_tool PRIVATE doctest::doctest)
# Next to nothing is computed here: a quick compilation is worth more than a quick program.
target_compile_options(tests_tool PRIVATE $<$<CONFIG:Release>:-O0>)

foreach(_part IN ITEMS answers full_disk manners real refusals)
  add_test(NAME tool.${_part} COMMAND tests_tool "--source-file=${_tool_tests}/${_part}.cpp")
  set_tests_properties(tool.${_part} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS tool PROCESSORS 2
    ENVIRONMENT "HEADRED_TOOL=$<TARGET_FILE:head_redundancy>;HEADRED_SHARED_DIR=${HEADRED_SHARED_DIR}")
endforeach()
# The other programs, in the same way.
if(TARGET evaluate_model)
  add_test(NAME tool.evaluate_model COMMAND tests_tool "--source-file=${_tool_tests}/evaluate_model.cpp")
  set_tests_properties(tool.evaluate_model PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS tool PROCESSORS 2
    ENVIRONMENT "HEADRED_TOOL=$<TARGET_FILE:evaluate_model>;HEADRED_SHARED_DIR=${HEADRED_SHARED_DIR}")
endif()
