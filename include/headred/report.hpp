// Door to report/: one self-contained HTML page on the redundancy of attention heads.
#pragma once

#include <headred/report/check_report.hpp>
#include <headred/report/redundancy_report.hpp>
#include <headred/report/write_redundancy_report.hpp>
