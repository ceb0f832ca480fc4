# tests_tool: the program head_redundancy from outside, as its users meet it. Not where the examples are not built.
if(NOT TARGET head_redundancy OR NOT UNIX OR (HEADRED_TEST_FOLDERS AND NOT "tool" IN_LIST HEADRED_TEST_FOLDERS))
  return()
endif()

set(_tool_tests "${CMAKE_CURRENT_SOURCE_DIR}/tool")
headred_add_program(tests_tool main.cpp tool/answers.cpp tool/full_disk.cpp tool/manners.cpp tool/real.cpp tool/refusals.cpp
                    tool/attention_masks.cpp tool/dropout_study.cpp tool/evaluate_model.cpp tool/gated_pruning.cpp
                    tool/importance.cpp tool/pruning.cpp tool/training.cpp)
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
# The other programs, in the same way: a program and the file that has its tests. pruning.cpp also runs train_transformer
# and zero_shot_pruning, which lie beside prune_model.
foreach(_pair IN ITEMS attention_masks:attention_masks dropout_study:dropout_study evaluate_model:evaluate_model
        gated_pruning:gated_pruning head_importance:importance prune_model:pruning train_transformer:training)
  string(REPLACE ":" ";" _pair "${_pair}")
  list(GET _pair 0 _program)
  list(GET _pair 1 _part)
  if(TARGET ${_program})
    add_test(NAME tool.${_part} COMMAND tests_tool "--source-file=${_tool_tests}/${_part}.cpp")
    set_tests_properties(tool.${_part} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS tool PROCESSORS 2
      ENVIRONMENT "HEADRED_TOOL=$<TARGET_FILE:${_program}>;HEADRED_SHARED_DIR=${HEADRED_SHARED_DIR}")
  endif()
endforeach()
