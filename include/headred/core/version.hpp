// The library's version: the one place that states it (CMake reads it from here).
#pragma once

#define HEADRED_VERSION_MAJOR 0
#define HEADRED_VERSION_MINOR 1
#define HEADRED_VERSION_PATCH 0
