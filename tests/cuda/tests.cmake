# tests_cuda_emulated: the CUDA backend and every kernel on the host (g++, the emulator of tests/cuda/emulator).
# tests_cuda: the same suite by nvcc for real GPUs, built wherever nvcc is, run where a GPU is.
if(HEADRED_SANITIZE OR NOT UNIX OR (HEADRED_TEST_FOLDERS AND NOT "cuda" IN_LIST HEADRED_TEST_FOLDERS))
  return()
endif()
set(_cuda "${CMAKE_CURRENT_SOURCE_DIR}/cuda")
set(_cuda_suite attention_suite backend_suite kernels_suite model_ops_suite pairwise_suite relevance_suite)

# A test that says why it cannot run.
function(headred_cuda_skipped name why)
  add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: ${why}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " LABELS cuda)
endfunction()

find_path(HEADRED_BOOST_CONTEXT_INCLUDE NAMES boost/context/fiber.hpp)
find_library(HEADRED_BOOST_CONTEXT NAMES boost_context)
mark_as_advanced(HEADRED_BOOST_CONTEXT_INCLUDE HEADRED_BOOST_CONTEXT)
if(NOT HEADRED_CUDA_FOUND)
  headred_cuda_skipped(cuda.emulated "no CUDA toolkit here (its headers are enough)")
elseif(NOT HEADRED_BOOST_CONTEXT_INCLUDE OR NOT HEADRED_BOOST_CONTEXT)
  headred_cuda_skipped(cuda.emulated "no Boost.Context here (libboost-context-dev)")
else()
  list(TRANSFORM _cuda_suite PREPEND "${_cuda}/" OUTPUT_VARIABLE _sources)
  list(TRANSFORM _sources APPEND ".cpp")
  add_library(headred_cuda_emulator STATIC EXCLUDE_FROM_ALL "${_cuda}/emulator/device_memory.cpp" "${_cuda}/emulator/fake_cublas.cpp"
                                           "${_cuda}/emulator/fake_runtime.cpp" "${_cuda}/emulator/scheduler.cpp")
  set_target_properties(headred_cuda_emulator PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(headred_cuda_emulator SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS}
                                                                 "${HEADRED_BOOST_CONTEXT_INCLUDE}")
  target_compile_definitions(headred_cuda_emulator PUBLIC HEADRED_CUDA_EMULATE)
  target_link_libraries(headred_cuda_emulator PUBLIC headred::headred "${HEADRED_BOOST_CONTEXT}")
  headred_developer(headred_cuda_emulator)

  headred_add_program(tests_cuda_emulated main.cpp ${_sources} "${_cuda}/planted_faults.cpp" "${_cuda}/real_maps.cpp")
  target_include_directories(tests_cuda_emulated PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(tests_cuda_emulated PRIVATE "HEADRED_SHARED_DIR=\"${HEADRED_SHARED_DIR}\"")
  target_link_libraries(tests_cuda_emulated PRIVATE doctest::doctest headred_cuda_emulator)
  # -O1 takes two thirds of the time of -O2 to compile; the fibers run hardly slower.
  target_compile_options(tests_cuda_emulated PRIVATE $<$<CONFIG:Release>:-O1>)
  foreach(_mode IN ITEMS forward reverse shuffled,lazy)
    string(REPLACE "," "_" _name ${_mode})
    add_test(NAME cuda.emulated.${_name} COMMAND tests_cuda_emulated "--source-file-exclude=${_cuda}/real_*")
    set_tests_properties(cuda.emulated.${_name} PROPERTIES ENVIRONMENT "HEADRED_EMULATOR=${_mode}" TIMEOUT 300 LABELS cuda)
  endforeach()
  add_test(NAME cuda.emulated.real COMMAND tests_cuda_emulated "--source-file=${_cuda}/real_*")
  set_tests_properties(cuda.emulated.real PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 LABELS cuda)
  # The examples, on the host.
  function(headred_cuda_emulated_example name source)
    set_source_files_properties("${source}" PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;-include;${_cuda}/emulator/emulator.hpp")
    headred_add_program(${name}_emulated "${source}" ${ARGN})
    target_link_libraries(${name}_emulated PRIVATE headred_cuda_emulator)
    target_compile_options(${name}_emulated PRIVATE $<$<CONFIG:Release>:-O1>)
    add_test(NAME cuda.example.${name}
             COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${name}_emulated>" "-DARGUMENTS="
                     "-DEXPECTED=${PROJECT_SOURCE_DIR}/examples/expected/${name}.txt"
                     "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/work/${name}" -P "${PROJECT_SOURCE_DIR}/examples/run.cmake")
    set_tests_properties(cuda.example.${name} PROPERTIES TIMEOUT 300 LABELS cuda)
  endfunction()
  headred_cuda_emulated_example(cuda_redundancy "${PROJECT_SOURCE_DIR}/examples/cuda_redundancy.cu")
  # One file of it is CUDA; the other is compiled once, for this program and the one with nvcc's object.
  set(_mixed "${PROJECT_SOURCE_DIR}/examples/mixed_cuda")
  add_library(mixed_cuda_main OBJECT "${_mixed}/main.cpp")
  set_target_properties(mixed_cuda_main PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(mixed_cuda_main PRIVATE headred::headred)
  headred_developer(mixed_cuda_main)
  headred_cuda_emulated_example(mixed_cuda "${_mixed}/device_redundancy.cu" $<TARGET_OBJECTS:mixed_cuda_main>)
  # The page that says what runs on cuda, against the cases that there are and the headers that there are.
  add_test(NAME cuda.page COMMAND "${CMAKE_COMMAND}" "-DROOT=${PROJECT_SOURCE_DIR}"
                                  "-DPROGRAM=$<TARGET_FILE:tests_cuda_emulated>" -P "${_cuda}/page.cmake")
  set_tests_properties(cuda.page PROPERTIES LABELS cuda)
endif()

find_program(HEADRED_NVCC NAMES nvcc HINTS "${CUDAToolkit_BIN_DIR}" ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
             PATH_SUFFIXES bin)
mark_as_advanced(HEADRED_NVCC)
if(NOT HEADRED_CUDA_FOUND OR NOT HEADRED_NVCC)
  headred_cuda_skipped(cuda.gpu "no nvcc here")
  return()
endif()
# Every spill and every use of local memory is an error. Suppressed: two remarks about code that is in order (a pragma that
# only g++ knows, long double in references that only the host computes).
set(_nvcc_flags -std=c++20 -O2 -DNDEBUG --expt-relaxed-constexpr -Werror all-warnings -diag-suppress 1675,20208
    -Xptxas --warn-on-spills,--warn-on-local-memory-usage,--warning-as-error -Xcompiler -Wall,-Wextra,-Wshadow
    -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
    -gencode "arch=compute_90,code=[sm_90,compute_90]" "-I${PROJECT_SOURCE_DIR}/include" "-I${CMAKE_CURRENT_SOURCE_DIR}"
    "-DHEADRED_SHARED_DIR=\"\"")
get_target_property(_doctest doctest::doctest INTERFACE_INCLUDE_DIRECTORIES)
foreach(_dir IN LISTS _doctest)
  string(REGEX REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1" _dir "${_dir}")
  if(IS_DIRECTORY "${_dir}" AND NOT _dir STREQUAL "/usr/include")
    list(APPEND _nvcc_flags "-I${_dir}")
  endif()
endforeach()
set(_objects "")
foreach(_name IN LISTS _cuda_suite ITEMS needs_gpu main)
  set(_source "${_cuda}/${_name}.cpp")
  set(_as -x cu)
  if(_name STREQUAL "main")
    set(_source "${CMAKE_CURRENT_SOURCE_DIR}/main.cpp")
    set(_as "")
  endif()
  set(_object "${CMAKE_CURRENT_BINARY_DIR}/cuda/${_name}.o")
  add_custom_command(
    OUTPUT "${_object}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/cuda"
    COMMAND "${HEADRED_NVCC}" ${_nvcc_flags} ${_as} -MD -MF "${_object}.d" -c "${_source}" -o "${_object}"
    DEPENDS "${_source}"
    DEPFILE "${_object}.d"
    COMMENT "nvcc ${_name}"
    COMMAND_EXPAND_LISTS VERBATIM)
  list(APPEND _objects "${_object}")
endforeach()
set(_program "${CMAKE_CURRENT_BINARY_DIR}/cuda/tests_cuda")
add_custom_command(
  OUTPUT "${_program}"
  COMMAND "${HEADRED_NVCC}" ${_objects} -gencode arch=compute_75,code=sm_75 -o "${_program}" "-L${CUDAToolkit_LIBRARY_DIR}" -lcublas
          -Xlinker "-rpath=${CUDAToolkit_LIBRARY_DIR}"
  DEPENDS ${_objects}
  COMMENT "nvcc tests_cuda"
  VERBATIM)
add_custom_target(tests_cuda ALL DEPENDS "${_program}")
add_test(NAME cuda.gpu COMMAND "${_program}")
set_tests_properties(cuda.gpu PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS cuda)

# The examples: compiled for one architecture.
set(_example_flags -std=c++20 -O2 -DNDEBUG --expt-relaxed-constexpr -Werror all-warnings
    -gencode "arch=compute_80,code=[sm_80,compute_80]" "-I${PROJECT_SOURCE_DIR}/include")
set(_examples "")
foreach(_name IN ITEMS cuda_redundancy cuda_timings cuda_thrust mixed_cuda/device_redundancy)
  set(_source "${PROJECT_SOURCE_DIR}/examples/${_name}.cu")
  cmake_path(GET _source STEM _stem)
  set(_example "${CMAKE_CURRENT_BINARY_DIR}/cuda/${_stem}")
  set(_link "-L${CUDAToolkit_LIBRARY_DIR}" -lcublas -Xlinker "-rpath=${CUDAToolkit_LIBRARY_DIR}")
  if(_name MATCHES "/")
    string(APPEND _example ".o")
    set(_link -c)
    set(_mixed_object "${_example}")
  endif()
  add_custom_command(
    OUTPUT "${_example}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/cuda"
    COMMAND "${HEADRED_NVCC}" ${_example_flags} -MD -MF "${_example}.d" -MT "${_example}" "${_source}" -o "${_example}" ${_link}
    DEPENDS "${_source}"
    DEPFILE "${_example}.d"
    COMMENT "nvcc ${_name}"
    VERBATIM)
  list(APPEND _examples "${_example}")
endforeach()
add_custom_target(cuda_examples ALL DEPENDS ${_examples})
if(TARGET mixed_cuda_main)
  set_source_files_properties("${_mixed_object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_executable(mixed_cuda $<TARGET_OBJECTS:mixed_cuda_main> "${_mixed_object}")
  set_target_properties(mixed_cuda PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/cuda")
  target_link_libraries(mixed_cuda PRIVATE headred::headred CUDA::cudart CUDA::cublas)
  add_dependencies(mixed_cuda cuda_examples)
endif()

# What the compiler made of the kernels.
add_test(NAME cuda.machine_code COMMAND "${CMAKE_COMMAND}" "-DNVCC=${HEADRED_NVCC}" "-DROOT=${PROJECT_SOURCE_DIR}" -DARCHITECTURE=90
                   "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/work/machine_code" -P "${_cuda}/machine_code.cmake")
set_tests_properties(cuda.machine_code PROPERTIES TIMEOUT 300 LABELS cuda)
