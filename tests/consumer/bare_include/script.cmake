# No build system: two -I, and what the compiler then read is looked at.
execute_process(
  COMMAND "${COMPILER}" -std=c++20 -I "${HEADRED_ROOT}/include" -I "${EIGEN}"
          "${SOURCE}/../main.cpp" -o "${WORK}/consumer" -pthread COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK}/consumer" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${COMPILER}" -std=c++20 -I "${HEADRED_ROOT}/include" -I "${EIGEN}" -M "${SOURCE}/../main.cpp"
                OUTPUT_VARIABLE read COMMAND_ERROR_IS_FATAL ANY)
if(read MATCHES "[/ ]((xtensor|xtl|xsimd|nlohmann|doctest|benchmark|boost)/[^ ]*)")
  message(FATAL_ERROR "<headred/headred.hpp> reads ${CMAKE_MATCH_1}, it must need Eigen alone")
endif()
if(NOT read MATCHES "headred/headred\\.hpp")
  message(FATAL_ERROR "no list of headers was obtained")
endif()
