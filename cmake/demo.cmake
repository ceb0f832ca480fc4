# cmake -P cmake/demo.cmake
# On a machine with a compiler and CMake: installs what is missing, builds the examples optimised, runs head_redundancy on
# its embedded attention maps, then zero_shot_pruning, which trains a small translator, prunes its heads and retrains it, and
# says where the reports are. Options, before -P:
#   -DMODEL=DIR       prune this model instead: config.json and model.safetensors
#   -DINSTALL=OFF     install nothing; the build fetches the libraries that it lacks
#   -DBUILD_DIR=DIR   default: build/demo
#   -DJOBS=N          compile jobs at a time
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(NOT DEFINED BUILD_DIR)
  set(BUILD_DIR "${HEADRED_ROOT}/build/demo")
endif()
cmake_path(ABSOLUTE_PATH BUILD_DIR)

headred_provide(${HEADRED_BUILD_PACKAGES} ${HEADRED_LIBRARY_PACKAGES})
headred_configure_and_build("${BUILD_DIR}" -DHEADRED_TESTS=OFF -DHEADRED_BENCHMARKS=OFF -DHEADRED_EXAMPLES=ON)
set(_zero_shot_pruning "")
if(DEFINED MODEL)
  cmake_path(ABSOLUTE_PATH MODEL)
  list(APPEND _zero_shot_pruning --model "${MODEL}")
endif()
foreach(_name IN ITEMS head_redundancy zero_shot_pruning)
  find_program(_tool_${_name} ${_name} PATHS "${BUILD_DIR}/examples" "${BUILD_DIR}/examples/Release"
               NO_DEFAULT_PATH NO_CACHE REQUIRED)
  set(_out "${BUILD_DIR}/${_name}")
  headred_run("${_name}" "${_tool_${_name}}" ${_${_name}} --out "${_out}")
  if(NOT EXISTS "${_out}/report.html")
    message(FATAL_ERROR "headred: ${_name} left no report.html in ${_out}")
  endif()
  headred_say("the report of ${_name}: ${_out}/report.html")
endforeach()
