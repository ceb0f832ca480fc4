# tests_training_allocation: a program of its own, since it replaces operator new, as another test does.
if(HEADRED_SANITIZE OR (HEADRED_TEST_FOLDERS AND NOT "nn" IN_LIST HEADRED_TEST_FOLDERS))
  return()
endif()

headred_add_program(tests_training_allocation nn/training_allocation.cpp)
target_include_directories(tests_training_allocation PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
add_test(NAME nn.training_allocation COMMAND tests_training_allocation)
set_tests_properties(nn.training_allocation PROPERTIES TIMEOUT 300 LABELS cpu)

# tests_decoding_allocation: likewise.
headred_add_program(tests_decoding_allocation nn/decoding_allocation.cpp)
target_include_directories(tests_decoding_allocation PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
add_test(NAME nn.decoding_allocation COMMAND tests_decoding_allocation)
set_tests_properties(nn.decoding_allocation PROPERTIES TIMEOUT 300 LABELS cpu)
