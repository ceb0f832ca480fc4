# The parent takes headred by FetchContent, installs both, and a client finds the parent in the prefix.
headred_configure("${SOURCE}" "${WORK}/parent" "-DCMAKE_INSTALL_PREFIX=${WORK}/prefix" "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}")
headred_build("${WORK}/parent")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK}/parent" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
headred_consume("${SOURCE}/client" "${WORK}/client" "-DCMAKE_PREFIX_PATH=${WORK}/prefix;${PREFIX_PATH}")
