#pragma once

#include <Eigen/Core>

#include "linalg/eigen_map.hpp"

namespace orthornn::testing {

/// A copy of [N, M] as Eigen's matrix of N rows and M columns.
inline Eigen::MatrixXd matrix_of(const Tensor<double>& q) { return eigen(columns_of(q)).transpose(); }

}  // namespace orthornn::testing
