// How transitions are drawn, and from which orthogonal matrices their parameters can be had back. Seeds are
// fixed, so the statistical bounds (five standard deviations) hold or fail for good.

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <initializer_list>
#include <numbers>

#include "orthogonal/initial_matrix.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/eigen_matrix.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

template <class T>
Tensor<T> drawn(const TransitionOptions& options, Index n, std::uint64_t seed) {
  const auto transition = make_transition<T>(options, n);
  Tensor<T> parameters(transition->parameter_shape());
  transition->initialize(seed, parameters);
  transition->prepare(parameters);
  return transition->materialize();
}

TEMPLATE_TEST_CASE("every initialiser gives an orthogonal matrix", "[orthogonal][init]", float, double) {
  const auto [n, l] = GENERATE(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{2, 1},
                               std::pair<Index, Index>{7, 4}, std::pair<Index, Index>{7, 7},
                               std::pair<Index, Index>{48, 48}, std::pair<Index, Index>{193, 60});
  for (const Init init : {Init::henaff, Init::cayley, Init::haar, Init::normal}) {
    for (const NamedTransition& named : all_transitions(n, l, init)) {
      CAPTURE(named.name, name_of(init), n, l);
      const Tensor<TestType> q = drawn<TestType>(named.options, n, 1);
      CHECK(orthogonality_error(q) <= tolerance::rounding<TestType>(n));
      CHECK(equal(drawn<TestType>(named.options, n, 1), q));
      // The cayley rule draws from a range; n = 1 leaves one or two matrices.
      if (n > 2) CHECK_FALSE(equal(drawn<TestType>(named.options, n, 2), q));
    }
  }
}

/// Largest distance between the distribution of `values` and the uniform one, times sqrt(count)
/// (Kolmogorov-Smirnov): above 1.95 once in a thousand times.
double distance_from_uniform(std::vector<double> values, double low, double high) {
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = (values[i] - low) / (high - low);
    distance = std::max({distance, std::abs(expected - static_cast<double>(i) / count),
                         std::abs(expected - static_cast<double>(i + 1) / count)});
  }
  return distance * std::sqrt(count);
}

/// Angles of the rotations of coordinates (0, 1), (2, 3), ... of which Q consists, over several seeds.
std::vector<double> rotation_angles(const TransitionOptions& options, Index n, Index rotated, double last) {
  std::vector<double> angles;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Tensor<double> q = drawn<double>(options, n, seed);
    Tensor<double> expected = identity_matrix<double>(n);
    for (Index i = 0; i + 1 < rotated; i += 2) {
      const double angle = std::atan2(q(i + 1, i), q(i, i));
      angles.push_back(angle);
      expected(i, i) = expected(i + 1, i + 1) = std::cos(angle);
      expected(i, i + 1) = -std::sin(angle);
      expected(i + 1, i) = std::sin(angle);
    }
    if (rotated % 2 == 1) expected(rotated - 1, rotated - 1) = last;
    // A half angle near pi / 2 has a tangent of any size, which the Cayley transform must invert.
    REQUIRE(relative_error(q, expected) <= 1e-9);
  }
  return angles;
}

TEST_CASE("Henaff angles are uniform over a full turn and Cayley angles over a quarter",
          "[orthogonal][init]") {
  const double pi = std::numbers::pi;
  const Index n = 60;
  for (const auto& [init, low, high] :
       {std::tuple{Init::henaff, -pi, pi}, std::tuple{Init::cayley, 0.0, pi / 2}}) {
    for (const NamedTransition& named : reflection_transitions(41, init)) {
      CAPTURE(named.name, name_of(init));
      CHECK(distance_from_uniform(rotation_angles(named.options, n, 41, -1), low, high) < 1.95);
    }
    const TransitionOptions dense[] = {Cwy{.reflections = n, .init = init}, MatrixExponential{init},
                                       Unconstrained{init}, ScaledCayley{.negative_signs = 0, .init = init}};
    for (const TransitionOptions& options : dense) {
      CAPTURE(name_of(options), name_of(init));
      const std::vector<double> angles = rotation_angles(options, n, n, 1);
      CHECK(angles.size() == 20 * 30);
      CHECK(distance_from_uniform(angles, low, high) < 1.95);
    }
  }
}

/// Sums over many draws, and whether their mean is what it should be.
class Moment {
 public:
  void add(double x) {
    sum_ += x;
    squares_ += x * x;
    ++count_;
  }
  /// How many standard deviations of the mean lie between it and `expected`.
  double deviations_from(double expected) const {
    const double mean = sum_ / count_;
    return std::abs(mean - expected) / std::sqrt((squares_ / count_ - mean * mean) / count_);
  }

 private:
  double sum_ = 0, squares_ = 0, count_ = 0;
};

// Moments of the uniform distribution over the orthogonal matrices, the same on each of its two components up
// to fourth order for N > 4 (Collins and Sniady 2006): E q_ij = 0, E q_ij^2 = 1 / N, E q_ij^4 = 3 / (N (N +
// 2)), E q_11^2 q_22^2 = (N + 1) / ((N - 1) N (N + 2)), E tr Q = 0, E (tr Q)^2 = 1.
void check_moments_of_entries(const std::vector<Tensor<double>>& draws, Index n, Index columns) {
  Moment fourth_corner, fourth_entry;
  for (const Tensor<double>& q : draws) {
    fourth_entry.add(std::pow(q(n - 1, 0), 4));
    if (columns > 1) fourth_corner.add(q(0, 0) * q(0, 0) * q(1, 1) * q(1, 1));
  }
  const double size = static_cast<double>(n);
  CHECK(fourth_entry.deviations_from(3 / (size * (size + 2))) < 5);
  if (columns > 1) CHECK(fourth_corner.deviations_from((size + 1) / ((size - 1) * size * (size + 2))) < 5);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < columns; ++j) {
      CAPTURE(i, j);
      Moment first, second;
      for (const Tensor<double>& q : draws) {
        first.add(q(i, j));
        second.add(q(i, j) * q(i, j));
      }
      CHECK(first.deviations_from(0) < 5);
      CHECK(second.deviations_from(1 / size) < 5);
    }
  }
}

TEST_CASE("Haar matrices have the moments of the uniform distribution", "[orthogonal][init]") {
  const Index n = 6;
  const TransitionOptions all[] = {Cwy{.init = Init::haar}, HouseholderProduct{.init = Init::haar},
                                   ScaledCayley{.negative_signs = 3, .init = Init::haar},
                                   MatrixExponential{Init::haar}, Unconstrained{Init::haar}};
  for (const TransitionOptions& options : all) {
    CAPTURE(name_of(options));
    std::vector<Tensor<double>> draws;
    Moment trace, trace_squared;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      draws.push_back(drawn<double>(options, n, seed));
      const double sum = matrix_of(draws.back()).trace();
      trace.add(sum);
      trace_squared.add(sum * sum);
    }
    check_moments_of_entries(draws, n, n);
    CHECK(trace.deviations_from(0) < 5);
    CHECK(trace_squared.deviations_from(1) < 5);
  }
}

TEST_CASE("the first L columns of L Haar reflections are uniform, and T-CWY is", "[orthogonal][init]") {
  const Index n = 6, l = 3;
  std::vector<Tensor<double>> of_cwy, of_truncated;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    of_cwy.push_back(drawn<double>(Cwy{.reflections = l, .init = Init::haar}, n, seed));
    TruncatedCwy<double> stiefel(n, l);
    Tensor<double> v({l, n});
    stiefel.initialize(seed, v);
    stiefel.prepare(v);
    of_truncated.push_back(stiefel.materialize());
    REQUIRE(orthogonality_error(of_truncated.back()) <= tolerance::rounding<double>(n));
  }
  check_moments_of_entries(of_cwy, n, l);
  check_moments_of_entries(of_truncated, n, l);
}

TEST_CASE("normal reflection vectors are standard normal", "[orthogonal][init]") {
  const auto transition = make_transition<double>(Cwy{.reflections = 50, .init = Init::normal}, 100);
  Tensor<double> v(transition->parameter_shape());
  transition->initialize(3, v);
  Moment first, second;
  for (const double x : v) {
    first.add(x);
    second.add(x * x);
  }
  CHECK(first.deviations_from(0) < 5);
  CHECK(second.deviations_from(1) < 5);
}

// parameters_of

struct NamedMatrix {
  std::string name;
  Tensor<double> q;
};

Tensor<double> permutation_matrix(const std::vector<Index>& image) {
  const Index n = static_cast<Index>(image.size());
  Tensor<double> q({n, n});
  for (Index j = 0; j < n; ++j) q(image[static_cast<std::size_t>(j)], j) = 1;
  return q;
}

/// Matrices of every kind that a caller may start from; exactly orthogonal ones as far as double has them.
std::vector<NamedMatrix> orthogonal_matrices(Index n) {
  std::vector<NamedMatrix> list;
  const auto add = [&](const std::string& name, Tensor<double> q) { list.push_back({name, std::move(q)}); };
  add("identity", identity_matrix<double>(n));
  add("minus identity", identity_matrix<double>(n));
  for (double& x : list.back().q) x = -x;
  add("one sign", identity_matrix<double>(n));
  list.back().q(n - 1, n - 1) = -1;
  std::vector<Index> image(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) image[static_cast<std::size_t>(i)] = (i + 1) % n;
  add("cyclic permutation", permutation_matrix(image));
  const auto random = random_permutation(n, RandomStream(5, RandomPurpose::validation));
  for (Index i = 0; i < n; ++i) image[static_cast<std::size_t>(i)] = random(i);
  add("random permutation", permutation_matrix(image));
  for (Index i = 0; i < n; ++i) image[static_cast<std::size_t>(i)] = i;
  std::swap(image.front(), image.back());
  add("swap", permutation_matrix(image));
  for (const Index count : {Index{1}, Index{2}, (n + 1) / 2, n - 1, n}) {
    if (count < 1 || count > n) continue;
    add(std::to_string(count) + " random reflection(s)",
        product_of_reflections(normal_tensor<double>({count, n}, 6)));
  }
  for (const std::uint64_t seed : {7, 8}) add("Haar", drawn<double>(Cwy{.init = Init::haar}, n, seed));
  add("Haar rotation", drawn<double>(Unconstrained{Init::haar}, n, 9));
  add("Henaff", drawn<double>(Unconstrained{Init::henaff}, n, 10));
  add("Cayley", drawn<double>(Unconstrained{Init::cayley}, n, 11));
  return list;
}

/// Do parameters exist, by what the formulas say, for a matrix known to `rounding` (the scalar's)?
bool is_reachable(const TransitionOptions& options, const Tensor<double>& q, Index l, double rounding) {
  const Index n = q.shape()[0];
  const Eigen::MatrixXd matrix = matrix_of(q), identity = Eigen::MatrixXd::Identity(n, n);
  const bool is_rotation = matrix.determinant() > 0;
  // Singular values below this are zeros that were rounded.
  const double zero = 100 * static_cast<double>(n) * rounding;
  const auto singular_values = [](const Eigen::MatrixXd& m) -> Eigen::VectorXd {
    return (m.transpose() * m).eval().selfadjointView<Eigen::Lower>().eigenvalues().cwiseAbs().cwiseSqrt();
  };
  if (is_product_of_reflections(options)) {
    const Index rank = (singular_values(matrix - identity).array() > std::max(zero, 1e-6)).count();
    return rank <= l && is_rotation == (l % 2 == 0);
  }
  if (std::holds_alternative<MatrixExponential>(options)) return is_rotation;
  if (const auto* cayley = std::get_if<ScaledCayley>(&options)) {
    Eigen::MatrixXd qd = matrix;
    qd.leftCols(cayley->negative_signs) *= -1;
    return singular_values(qd + identity).minCoeff() > std::max(zero, 1e-6);
  }
  return true;
}

TEMPLATE_TEST_CASE("parameters_of is a right inverse of materialize, or says why there is none",
                   "[orthogonal][init]", float, double) {
  using T = TestType;
  const Index n = GENERATE(1, 2, 7, 8, 48);
  std::vector<Index> counts;
  for (const Index l : {Index{1}, Index{2}, (n + 1) / 2, n - 1, n}) {
    if (l >= 1 && l <= n && (counts.empty() || l > counts.back())) counts.push_back(l);
  }
  for (const NamedMatrix& matrix : orthogonal_matrices(n)) {
    const Tensor<T> q = cast<T>(matrix.q);
    for (const Index l : counts) {
      for (const NamedTransition& named : all_transitions(n, l)) {
        CAPTURE(matrix.name, named.name, n, l);
        const auto transition = make_transition<T>(named.options, n);
        Tensor<T> parameters(transition->parameter_shape());
        if (is_reachable(named.options, matrix.q, l, tolerance::epsilon<T>)) {
          REQUIRE_NOTHROW(transition->parameters_of(q, parameters));
          transition->prepare(parameters);
          const Tensor<T> found = transition->materialize();
          CHECK(orthogonality_error(found) <= 2 * tolerance::rounding<T>(n));
          // What is rounded is A, so Q's error is relative to |A|: large for the Cayley transform near -1.
          const double amplification =
              is_product_of_reflections(named.options) ? 1 : 1 + frobenius_norm(parameters);
          CHECK(relative_error(found, q) <= 4 * amplification * tolerance::rounding<T>(n));
        } else {
          CHECK_THROWS_AS(transition->parameters_of(q, parameters), ValueError);
        }
      }
    }
  }
}

TEST_CASE("the reason why no parameters reach a matrix is told", "[orthogonal][init][errors]") {
  const auto check = [](const TransitionOptions& options, const Tensor<double>& q, const std::string& words) {
    CAPTURE(name_of(options));
    const auto transition = make_transition<double>(options, q.shape()[0]);
    Tensor<double> parameters(transition->parameter_shape());
    check_says<ValueError>([&] { transition->parameters_of(q, parameters); }, {words});
  };
  Tensor<double> flip = identity_matrix<double>(4);
  flip(2, 2) = -1;
  check(Cwy{.reflections = 4}, flip, "determinant");
  check(Cwy{.reflections = 1}, product_of_reflections(normal_tensor<double>({3, 4}, 12)), "rank");
  check(MatrixExponential{}, flip, "determinant");
  check(ScaledCayley{}, flip, "eigenvalue -1");
}

TEST_CASE("a matrix that is not orthogonal has no parameters", "[orthogonal][init][errors]") {
  const Index n = 5;
  Tensor<double> doubled = identity_matrix<double>(n), sheared = identity_matrix<double>(n);
  Tensor<double> not_a_number = identity_matrix<double>(n);
  for (double& x : doubled) x *= 2;
  sheared(1, 3) = 0.1;
  not_a_number(2, 2) = NAN;
  for (const Tensor<double>* q : {&doubled, &sheared, &not_a_number}) {
    for (const NamedTransition& named : all_transitions(n, n)) {
      if (named.name == "free") continue;
      CAPTURE(named.name, q == &doubled, q == &sheared);
      const auto transition = make_transition<double>(named.options, n);
      Tensor<double> parameters(transition->parameter_shape());
      check_says<ValueError>([&] { transition->parameters_of(*q, parameters); }, {"not orthonormal"});
    }
  }
}

TEST_CASE("an orthogonal matrix with errors that are allowed is reached up to them", "[orthogonal][init]") {
  const Index n = 64;
  Tensor<double> exact({n, n});
  initial_matrix(Init::haar, 3, n, 1, exact);
  const Tensor<double> noise = normal_tensor<double>({n, n}, 4, 2e-5);
  Tensor<float> q({n, n}), v({n, n});
  for (Index i = 0; i < q.size(); ++i) q.begin()[i] = static_cast<float>(exact.begin()[i] + noise.begin()[i]);
  const auto transition = make_transition<float>(HouseholderProduct{}, n);
  transition->parameters_of(q, v);
  transition->prepare(v);
  // The noise, and what makes the matrix orthogonal again, about as much.
  CHECK(relative_error(transition->materialize(), q) < 4 * 2e-5 * std::sqrt(double(n)));
}

TEST_CASE("skew parameters too large for any digit are refused", "[orthogonal]") {
  const TransitionOptions options =
      GENERATE(TransitionOptions(ScaledCayley{}), TransitionOptions(MatrixExponential{}));
  const auto transition = make_transition<float>(options, 4);
  for (const float size : {1e7F, 1e20F, 3e38F}) {
    Tensor<float> x({4, 4});
    x(0, 1) = size;
    CHECK_THROWS_WITH(transition->prepare(x), contains("no correct digit"));
  }
}

}  // namespace
}  // namespace orthornn::testing
