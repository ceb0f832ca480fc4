# cmake -DPROGRAM=... -DARGUMENTS=... -DEXPECTED=... -DWORK=... -P run.cmake: runs an example as a test.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
separate_arguments(arguments UNIX_COMMAND "${ARGUMENTS}")
execute_process(COMMAND "${PROGRAM}" ${arguments} WORKING_DIRECTORY "${WORK}" OUTPUT_VARIABLE output
                ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
if(EXISTS "${EXPECTED}")
  file(READ "${EXPECTED}" expected)
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "the output differs from ${EXPECTED}:\n${expected}")
  endif()
endif()
