// The reference matrices' own reader: format 1, float64, C order, square. Independent of the library's.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <headred/core/matrix.hpp>

namespace headred_test::oracle {

inline headred::matrix npy_matrix(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  char head[10] = {};
  if (!in.read(head, 10) || std::string(head + 1, 5) != "NUMPY") throw std::runtime_error(path.string() + ": not npy");
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(head[8])) +
                      256u * static_cast<std::size_t>(static_cast<unsigned char>(head[9]));
  std::string header(length, ' ');
  in.read(header.data(), static_cast<std::streamsize>(length));
  if (header.find("'<f8'") == std::string::npos || header.find("False") == std::string::npos)
    throw std::runtime_error(path.string() + ": not float64 in C order");
  const auto values = (std::filesystem::file_size(path) - 10 - length) / sizeof(double);
  const auto n = static_cast<headred::index_t>(std::lround(std::sqrt(static_cast<double>(values))));
  headred::matrix m(n, n);
  in.read(reinterpret_cast<char*>(m.data()), static_cast<std::streamsize>(values * sizeof(double)));
  if (!in || static_cast<std::size_t>(n * n) != values) throw std::runtime_error(path.string() + ": not square");
  return m;
}

}  // namespace headred_test::oracle
