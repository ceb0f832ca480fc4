set(options "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}" ${fetched})
if(FETCH_EIGEN)
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON "-DFETCHCONTENT_SOURCE_DIR_HEADRED_EIGEN=${EIGEN}")
endif()
if(IO)
  list(APPEND options -DIO=ON -DHEADRED_IO=ON)
else()  # Eigen alone must do
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
endif()
headred_consume("${SOURCE}" "${WORK}" ${options})

# Our flags are ours: the consumer's command line has what the consumer asked for.
file(READ "${WORK}/compile_commands.json" commands)
if(commands MATCHES " (-W[a-z]|-march|-ffast-math|-fopenmp|-DEIGEN_|-O[0-9s])")
  message(FATAL_ERROR "a flag reached the consumer: ${CMAKE_MATCH_1}")
endif()

# Nothing but the consumer's own program is installed.
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK}" --prefix "${WORK}/prefix" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed RELATIVE "${WORK}/prefix" "${WORK}/prefix/*")
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "installed: ${installed}; expected the consumer's program alone")
endif()
