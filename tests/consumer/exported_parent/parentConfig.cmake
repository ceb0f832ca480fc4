include(CMakeFindDependencyMacro)
find_dependency(headred)
include("${CMAKE_CURRENT_LIST_DIR}/parentTargets.cmake")
