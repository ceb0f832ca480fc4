// matrix: results of N x N numbers on the host (redundancy matrices, correlations).
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred {

/// Owning row-major matrix of doubles in host memory; starts as zeros. Throws shape_error for a negative extent
/// or a size that overflows.
class matrix {
 public:
  matrix() = default;
  matrix(index_t rows, index_t cols) : rows_(rows), cols_(cols) {
    if (rows < 0 || cols < 0)
      throw shape_error("matrix: negative extent in (" + std::to_string(rows) + "," + std::to_string(cols) + ")");
    if (cols > 0 && rows > std::numeric_limits<index_t>::max() / index_t{sizeof(double)} / cols)
      throw shape_error("matrix: the size of (" + std::to_string(rows) + "," + std::to_string(cols) + ") overflows");
    values_.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  }

  matrix(const matrix&) = default;
  matrix& operator=(const matrix&) = default;
  matrix(matrix&& other) noexcept
      : rows_(std::exchange(other.rows_, 0)), cols_(std::exchange(other.cols_, 0)), values_(std::move(other.values_)) {}
  matrix& operator=(matrix&& other) noexcept {
    rows_ = std::exchange(other.rows_, 0);
    cols_ = std::exchange(other.cols_, 0);
    values_ = std::move(other.values_);
    return *this;
  }

  index_t rows() const noexcept { return rows_; }
  index_t cols() const noexcept { return cols_; }
  double* data() noexcept { return values_.data(); }
  const double* data() const noexcept { return values_.data(); }
  double& operator()(index_t i, index_t j) { return values_[static_cast<std::size_t>(i * cols_ + j)]; }
  double operator()(index_t i, index_t j) const { return values_[static_cast<std::size_t>(i * cols_ + j)]; }
  /// A view of it, valid as long as the matrix.
  tensor_view<double, 2> view() { return {values_.data(), {rows_, cols_}}; }
  tensor_view<const double, 2> view() const { return {values_.data(), {rows_, cols_}}; }

  friend bool operator==(const matrix&, const matrix&) = default;

 private:
  index_t rows_ = 0, cols_ = 0;
  std::vector<double> values_;
};

}  // namespace headred
