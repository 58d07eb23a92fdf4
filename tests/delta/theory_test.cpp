// What products of I - beta k k^T can do, by construction and by the formulas of the DeltaProduct papers
// (Siems et al., NeurIPS 2025, arXiv 2502.10297; Grazzi et al., ICLR 2025, arXiv 2411.12537).

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "orthornn/delta/exact_factors.hpp"
#include "orthornn/scalar/bfloat16.hpp"
#include "orthornn/tasks/finite_group.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// A sequence of tokens, each with the keys and betas of one of a few symbols; values are zeros.
template <class T>
struct Track {
  Track(Index length, Index factors, Index key_size)
      : keys(Shape{length, factors, 1, key_size}),
        values(Shape{length, factors, 1, 1}),
        queries(Shape{length, 1, key_size}),
        betas(Shape{length, factors, 1}),
        states(Shape{1, 1, key_size, 1}) {}

  void set(Index token, const Tensor<T>& symbol_keys, const Tensor<T>& symbol_betas) {
    copy<T>(symbol_keys, keys.view()[token].reshaped(symbol_keys.shape()));
    copy<T>(symbol_betas, betas.view()[token].reshaped(symbol_betas.shape()));
  }
  /// The state after the last token is then in `states`.
  Tensor<T> run(DeltaForm form) {
    const Index length = keys.shape()[0];
    Tensor<T> outputs(Shape{length, 1, 1});
    Saved scratch(Device::cpu());
    delta_product<T>(
        {.queries = queries, .keys = keys, .values = values, .betas = betas, .initial_states = states},
        TokenLayout::time_major(length, 1), {.form = form}, outputs, states, scratch);
    return outputs;
  }

  Tensor<T> keys, values, queries, betas, states;
};

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

Vector unit_vector(Index size, RandomStream& random) {
  Vector k(size);
  for (double& x : k) x = random.normal();
  return k.normalized();
}

Matrix factor(const Vector& k, double beta) {
  return Matrix::Identity(k.size(), k.size()) - beta * k * k.transpose();
}

}  // namespace

TEST_CASE("a permutation is at most n - 1 swaps, and their product", "[delta][theory]") {
  const FiniteGroup group("S5");
  for (Index element = 0; element < group.order(); ++element) {
    const std::vector<std::int32_t> permutation = group.permutation(element);
    const auto swaps = swaps_of(permutation);
    CHECK(swaps.size() <= 4);
    for (std::int32_t point = 0; point < 5; ++point) {
      Index image = point;
      for (const auto& [a, b] : swaps) image = image == a ? b : image == b ? a : image;
      CHECK(image == permutation[static_cast<std::size_t>(point)]);
    }
  }
  CHECK(swaps_of(std::vector<std::int32_t>{0, 1, 2}).empty());
  CHECK_THROWS_AS(swaps_of(std::vector<std::int32_t>{0, 0, 2}), ValueError);

  Tensor<float> keys(Shape{1, 3}), betas(Shape{1});
  const std::vector<std::int32_t> cycle = {1, 2, 0};
  CHECK_THAT(error_message<ValueError>([&] { permutation_factors<float>(cycle, keys, betas); }),
             contains("2 factors") && contains("found 1"));
  CHECK_THROWS_AS(rotation_factors<float>(1, keys, betas), ShapeError);
}

TEST_CASE("one layer with n - 1 factors follows words of S_n over 100,000 steps in fp32", "[delta][theory]") {
  const std::string name = GENERATE("S3", "S4", "S5");
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const FiniteGroup group(name);
  const Index n = group.degree(), length = 100'000;
  std::vector<Tensor<float>> keys, betas;
  for (Index element = 0; element < group.order(); ++element) {
    permutation_factors<float>(group.permutation(element), keys.emplace_back(Shape{n - 1, n}),
                               betas.emplace_back(Shape{n - 1}));
  }
  Track<float> track(length, n - 1, n);
  RandomStream random(1, RandomPurpose::validation);
  // After y, row y(i) has what row i had: i + 1. Powers of 10 as queries read all rows at once.
  for (Index i = 0; i < n; ++i) track.states(0, 0, i, 0) = static_cast<float>(i + 1);
  std::vector<Index> expected;
  Index y = FiniteGroup::identity;
  for (Index t = 0; t < length; ++t) {
    const auto x = static_cast<std::size_t>(random.integer(static_cast<std::uint32_t>(group.order())));
    track.set(t, keys[x], betas[x]);
    for (Index i = 0; i < n; ++i) track.queries(t, 0, i) = static_cast<float>(std::pow(10, i));
    y = group.product(static_cast<Index>(x), y);
    expected.push_back(y);
  }
  const Tensor<float> outputs = track.run(form);
  Index wrong = 0;
  for (Index t = 0; t < length; ++t) {
    const std::vector<std::int32_t> image = group.permutation(expected[static_cast<std::size_t>(t)]);
    float read = 0;
    for (Index i = 0; i < n; ++i)
      read +=
          static_cast<float>(std::pow(10, image[static_cast<std::size_t>(i)])) * static_cast<float>(i + 1);
    wrong += outputs(t, 0, 0) != read;
  }
  CHECK(wrong == 0);
}

TEST_CASE("keys of norm 1 follow words in fp32 and lose them in bf16; keys of 1 and -1 have no error",
          "[delta][theory]") {
  const FiniteGroup group("S5");
  const Index n = group.degree(), length = 5'000;
  // The largest error of the state at the end, for keys of this size that are rounded so.
  const auto error_at_end = [&](float size, const auto& rounded) {
    Track<float> track(length, n - 1, n);
    for (Index i = 0; i < n; ++i) track.states(0, 0, i, 0) = static_cast<float>(i + 1);
    RandomStream random(1, RandomPurpose::validation);
    Index y = FiniteGroup::identity;
    Tensor<float> keys(Shape{n - 1, n}), betas(Shape{n - 1});
    for (Index t = 0; t < length; ++t) {
      const Index x = random.integer(static_cast<std::uint32_t>(group.order()));
      permutation_factors<float>(group.permutation(x), keys, betas);
      for (float& k : keys) k = rounded(size * k);
      for (float& beta : betas) beta = std::round(beta / (size * size));
      track.set(t, keys, betas);
      y = group.product(x, y);
    }
    track.run(DeltaForm::recurrent);
    const std::vector<std::int32_t> image = group.permutation(y);
    float largest = 0;
    for (Index i = 0; i < n; ++i) {
      const float found = track.states(0, 0, image[static_cast<std::size_t>(i)], 0);
      largest = std::max(largest, std::abs(found - static_cast<float>(i + 1)));
    }
    return largest;
  };
  const float unit = std::sqrt(0.5F);
  const auto to_bfloat16 = [](float x) { return static_cast<float>(bfloat16(x)); };
  // 20,000 reflections with keys whose squares are wrong by 1e-7 move differences by 2e-3 of themselves at
  // most.
  CHECK(error_at_end(unit, [](float x) { return x; }) < 0.01F);
  // sqrt(1/2) is 0.70703 in bf16: a reflection moves differences by 4e-4 of themselves. Words of S5 are lost
  // after a thousand steps, where numbers are wrong by a half.
  CHECK(error_at_end(unit, to_bfloat16) > 0.5F);
  CHECK(error_at_end(1, to_bfloat16) == 0);
}

TEST_CASE("unit keys that are roots of E8 have no error in bf16", "[delta][theory]") {
  // Roots of the lattice E8, of norm 1: entries are 0, 1/2 and 1. Neighbours have the product -1/2, as those
  // of the swaps (0 1), (1 2), (2 3), (3 4) have, and other swaps are sums of neighbours.
  const float neighbours[4][8] = {{1, 0, 0, 0, 0, 0, 0, 0},
                                  {-0.5F, -0.5F, 0.5F, 0.5F, 0, 0, 0, 0},
                                  {0, 1, 0, 0, 0, 0, 0, 0},
                                  {0, -0.5F, -0.5F, 0, 0, 0.5F, 0.5F, 0}};
  const FiniteGroup group("S5");
  const Index length = 100'000;
  Track<float> track(length, 4, 8);
  const float start[8] = {3, -7, 5, 1, 0, 2, -6, 0};
  std::copy_n(start, 8, track.states.view().data());
  const auto product = [&](const float* key, const float* state) {
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += key[i] * state[i];
    return sum;
  };
  RandomStream random(1, RandomPurpose::validation);
  Index y = FiniteGroup::identity, inexact = 0;
  for (Index t = 0; t < length; ++t) {
    const Index x = random.integer(static_cast<std::uint32_t>(group.order()));
    y = group.product(x, y);
    const auto swaps = swaps_of(group.permutation(x));
    for (Index j = 0; j < std::ssize(swaps); ++j) {
      const auto [a, b] =
          std::minmax(swaps[static_cast<std::size_t>(j)][0], swaps[static_cast<std::size_t>(j)][1]);
      float squares = 0;
      for (Index i = 0; i < 8; ++i) {
        float& k = track.keys(t, j, 0, i);
        for (Index neighbour = a; neighbour < b; ++neighbour) k += neighbours[neighbour][i];
        inexact += static_cast<float>(bfloat16(k)) != k;
        squares += k * k;
      }
      inexact += squares != 1;
      track.betas(t, j, 0) = 2;
    }
  }
  CHECK(inexact == 0);
  track.run(DeltaForm::chunked);
  // The product of the state with the key of (i, i + 1) is the height of point i + 1 less that of i, and a
  // swap exchanges heights.
  const std::vector<std::int32_t> image = group.permutation(y);
  float heights[5] = {};
  for (int i = 0; i < 4; ++i) heights[i + 1] = heights[i] + product(neighbours[i], start);
  float moved[5];
  for (int i = 0; i < 5; ++i) moved[image[static_cast<std::size_t>(i)]] = heights[i];
  for (int i = 0; i < 4; ++i)
    CHECK(product(neighbours[i], track.states.view().data()) == moved[i + 1] - moved[i]);
}

TEST_CASE("n reflections are any orthogonal matrix of n dimensions", "[delta][theory]") {
  RandomStream random(5, RandomPurpose::validation);
  for (const Index n : {1, 2, 3, 6, 17}) {
    for (const double determinant : {-1.0, 1.0}) {
      CAPTURE(n, determinant);
      Matrix normal(n, n);
      for (double& x : normal.reshaped()) x = random.normal();
      Matrix q = Eigen::HouseholderQR<Matrix>(normal).householderQ();
      if (q.determinant() * determinant < 0) q.col(0) *= -1;
      Tensor<double> matrix(Shape{n, n});
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) matrix(i, j) = q(i, j);
      }
      // A reflection changes the sign of the determinant.
      const std::size_t count = reflection_normals(matrix).size();
      CHECK(count <= static_cast<std::size_t>(n));
      CHECK((count % 2 == 0) == (determinant > 0));
      // The identity as the first state becomes Q; its columns are values.
      Tensor<double> keys(Shape{1, n, 1, n}), betas(Shape{1, n, 1}), states(Shape{1, 1, n, n}),
          outputs(Shape{1, 1, n});
      orthogonal_factors<double>(matrix, keys.view().reshaped({n, n}), betas.view().reshaped({n}));
      for (Index i = 0; i < n; ++i) states(0, 0, i, i) = 1;
      const Tensor<double> values(Shape{1, n, 1, n}), queries(Shape{1, 1, n});
      Saved scratch(Device::cpu());
      delta_product<double>(
          {.queries = queries, .keys = keys, .values = values, .betas = betas, .initial_states = states},
          TokenLayout::time_major(1, 1), {.form = DeltaForm::recurrent}, outputs, states, scratch);
      double error = 0;
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) error = std::max(error, std::abs(states(0, 0, i, j) - q(i, j)));
      }
      CHECK(error <= 10 * static_cast<double>(n) * 2.3e-16);  // of n factors and of QR
    }
  }
}

TEST_CASE("a matrix takes as many reflections as dimensions that it moves", "[delta][theory]") {
  Tensor<double> matrix(Shape{4, 4});
  for (Index i = 0; i < 4; ++i) matrix(i, i) = 1;
  CHECK(reflection_normals(matrix).empty());
  const double angle = 0.01;
  matrix(1, 1) = matrix(3, 3) = std::cos(angle);
  matrix(3, 1) = std::sin(angle);
  matrix(1, 3) = -std::sin(angle);
  CHECK(reflection_normals(matrix).size() == 2);
  Tensor<float> keys(Shape{1, 4}), betas(Shape{1});
  CHECK_THAT(error_message<ValueError>([&] { orthogonal_factors<float>(matrix, keys, betas); }),
             contains("2 factors") && contains("found 1"));
  matrix(1, 1) = 1.1;
  CHECK_THAT(error_message<ValueError>([&] { reflection_normals(matrix); }), contains("orthogonal"));
  CHECK_THROWS_AS(reflection_normals(Tensor<double>(Shape{2, 3})), ShapeError);
}

TEST_CASE("two reflections a token count modulo d, and follow words of dihedral groups", "[delta][theory]") {
  const Index length = 100'000, d = GENERATE(5, 12);
  const bool dihedral = GENERATE(false, true);
  const FiniteGroup group(dihedral ? fmt::format("D{}", d) : fmt::format("Z{}", d));
  const double angle = 2 * std::numbers::pi / static_cast<double>(d);
  std::vector<Tensor<float>> keys, betas;
  for (Index element = 0; element < group.order(); ++element) {
    Tensor<float>&k = keys.emplace_back(Shape{2, 2}), &beta = betas.emplace_back(Shape{2});
    const double turn = angle * static_cast<double>(element % d);
    // i -> r - i is the reflection on the line at half the angle of r.
    element < d ? rotation_factors<float>(turn, k, beta) : reflection_factors<float>(turn / 2, k, beta);
  }
  // No reflection keeps a vector at a quarter of the angle: its images are all different.
  const double start = angle / 4;
  Track<float> track(length, 2, 2);
  track.states(0, 0, 0, 0) = static_cast<float>(std::cos(start));
  track.states(0, 0, 1, 0) = static_cast<float>(std::sin(start));
  RandomStream random(2, RandomPurpose::validation);
  Index y = FiniteGroup::identity;
  for (Index t = 0; t < length; ++t) {
    const auto x = static_cast<std::size_t>(random.integer(static_cast<std::uint32_t>(group.order())));
    track.set(t, keys[x], betas[x]);
    y = group.product(static_cast<Index>(x), y);
  }
  track.run(DeltaForm::recurrent);
  const double found = std::atan2(track.states(0, 0, 1, 0), track.states(0, 0, 0, 0));
  const double turn = angle * static_cast<double>(y % d);
  const double expected = y < d ? turn + start : turn - start;
  // Images are half an angle apart or more. A factor is wrong by about 2e-7 in fp32, and 2e5 of them by less
  // than a tenth of the angle.
  CHECK(std::abs(std::remainder(found - expected, 2 * std::numbers::pi)) < angle / 10);
}

TEST_CASE("factors I - beta k k^T never lengthen a vector", "[delta][theory]") {
  RandomStream random(3, RandomPurpose::validation);
  for (const Index size : {1, 2, 7}) {
    for (const double beta : {0.0, 0.3, 1.0, 1.7, 2.0}) {
      Matrix product = Matrix::Identity(size, size);
      for (int i = 0; i < 3; ++i) product = factor(unit_vector(size, random), beta) * product;
      CHECK(Eigen::JacobiSVD<Matrix>(product).singularValues()(0) <= 1 + tolerance::rounding<double>(size));
    }
    CHECK(Eigen::JacobiSVD<Matrix>(factor(unit_vector(size, random), 2.1)).singularValues()(0) > 1.05);
  }
}

TEST_CASE("two factors have complex eigenvalues exactly where the inequality says", "[delta][theory]") {
  RandomStream random(4, RandomPurpose::validation);
  int complex_ones = 0;
  for (int i = 0; i < 2000; ++i) {
    const Index size = 2 + i % 3;
    const Vector first = unit_vector(size, random), second = unit_vector(size, random);
    const double b1 = random.uniform(0, 2), b2 = random.uniform(0, 2);
    const double cosine = first.dot(second);
    bool expected = false;
    double distance = 1;  // of cos^2 from the ends of the interval
    if (b1 > 1 && b2 > 1) {
      const double low = std::pow(std::sqrt(b1 - 1) - std::sqrt(b2 - 1), 2) / (b1 * b2);
      const double high = std::pow(std::sqrt(b1 - 1) + std::sqrt(b2 - 1), 2) / (b1 * b2);
      expected = low < cosine * cosine && cosine * cosine < high;
      distance = std::min(std::abs(cosine * cosine - low), std::abs(cosine * cosine - high));
    }
    if (distance < 1e-6) continue;  // there rounding decides
    const Eigen::VectorXcd values = (factor(second, b2) * factor(first, b1)).eigenvalues();
    // A double eigenvalue 1 of the other dimensions is real but for a root of the rounding error.
    const bool found = values.imag().cwiseAbs().maxCoeff() > 1e-6;
    CAPTURE(b1, b2, cosine);
    CHECK(found == expected);
    complex_ones += found;
  }
  CHECK(complex_ones > 200);
}

TEST_CASE("the factors of RWKV-7 can grow: a product of two tokens has a spectral radius above 1.2",
          "[delta][theory]") {
  // diag(w) - lambda k (k * a)^T with w = 1, lambda = 1; a picks one row for each token. A factor alone is
  // triangular, with eigenvalues up to 1.
  const double x = 0.83, small = std::sqrt(1 - x), large = std::sqrt(x);
  const Vector keys[] = {Vector{{small, large}}, Vector{{large, small}}};
  const Vector removals[] = {Vector{{1, 0}}, Vector{{0, 1}}};
  Matrix factors[2];
  for (int i = 0; i < 2; ++i)
    factors[i] = Matrix::Identity(2, 2) - keys[i] * keys[i].cwiseProduct(removals[i]).transpose();
  const double radius = (factors[1] * factors[0]).eigenvalues().cwiseAbs().maxCoeff();
  CHECK(factors[0].eigenvalues().cwiseAbs().maxCoeff() <= 1 + 1e-12);
  CHECK(factors[1].eigenvalues().cwiseAbs().maxCoeff() <= 1 + 1e-12);
  CHECK(radius > 1.2);

  // The operation computes these factors, and its state grows by the radius every two tokens.
  const Index pairs = 40;
  Track<double> track(2 * pairs, 1, 2);
  Tensor<double> all_removals(track.keys.shape());
  for (Index t = 0; t < 2 * pairs; ++t) {
    for (Index i = 0; i < 2; ++i) {
      track.keys(t, 0, 0, i) = keys[t % 2](i);
      all_removals(t, 0, 0, i) = removals[t % 2](i);
    }
    track.betas(t, 0, 0) = 1;
  }
  track.states(0, 0, 0, 0) = 1;
  Tensor<double> outputs(Shape{2 * pairs, 1, 1});
  Saved scratch(Device::cpu());
  delta_product<double>({.queries = track.queries,
                         .keys = track.keys,
                         .values = track.values,
                         .betas = track.betas,
                         .removals = all_removals,
                         .initial_states = track.states},
                        TokenLayout::time_major(2 * pairs, 1), {.form = DeltaForm::recurrent}, outputs,
                        track.states, scratch);
  Vector expected{{1, 0}};
  for (Index t = 0; t < 2 * pairs; ++t) expected = factors[t % 2] * expected;
  const double norm = std::hypot(track.states(0, 0, 0, 0), track.states(0, 0, 1, 0));
  CHECK(norm == Approx(expected.norm()).epsilon(1e-12));
  CHECK(norm > std::pow(1.2, pairs));
}
