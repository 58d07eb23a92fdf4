#include "orthornn/tasks/group_representation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/delta/exact_factors.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<Index> all_of(const FiniteGroup& group) {
  std::vector<Index> elements;
  for (Index element = 0; element < group.order(); ++element) elements.push_back(element);
  return elements;
}

/// The largest number of reflections that one of the elements is.
std::size_t most_reflections(const FiniteGroup& group, const std::vector<Index>& elements) {
  const Tensor<double> matrices = orthogonal_representation(group, elements);
  std::size_t most = 0;
  for (const Index element : elements)
    most = std::max(most, reflection_normals(matrices.view()[element]).size());
  return most;
}

}  // namespace

TEST_CASE("matrices of a group multiply as its elements and are all different", "[words]") {
  const std::string name = GENERATE("S3", "S4", "A4", "A5", "Z2", "Z7", "D3", "D6", "Z2xS3", "S4xZ5");
  CAPTURE(name);
  const FiniteGroup group(name);
  const Tensor<double> matrices = orthogonal_representation(group, all_of(group));
  const Index d = matrices.shape()[1];
  double error = 0, least_distance = 100;
  for (Index a = 0; a < group.order(); ++a) {
    for (Index b = 0; b < group.order(); ++b) {
      const Index product = group.product(a, b);
      double distance = 0;
      for (Index i = 0; i < d; ++i) {
        for (Index j = 0; j < d; ++j) {
          double sum = 0;
          for (Index k = 0; k < d; ++k) sum += matrices(a, i, k) * matrices(b, k, j);
          error = std::max(error, std::abs(sum - matrices(product, i, j)));
          distance += std::pow(matrices(a, i, j) - matrices(b, i, j), 2);
        }
      }
      if (a != b) least_distance = std::min(least_distance, distance);
    }
  }
  CHECK(error < 1e-13);
  CHECK(least_distance > 0.5);
}

TEST_CASE("elements need as many reflections as the theory says", "[words]") {
  const auto all = [](const char* name) {
    const FiniteGroup group(name);
    return most_reflections(group, all_of(group));
  };
  CHECK(all("S3") == 2);
  CHECK(all("S4") == 2);  // rotations of a cube
  CHECK(all("S5") == 4);
  CHECK(all("A4") == 2);
  CHECK(all("A5") == 2);  // rotations of an icosahedron
  CHECK(all("A6") == 4);
  CHECK(all("Z2") == 1);
  CHECK(all("Z9") == 2);
  CHECK(all("D9") == 2);
  CHECK(all("Z2xS3") == 3);
  const FiniteGroup s4("S4");
  CHECK(most_reflections(s4, s4.swaps()) == 1);
  CHECK_THAT(error_message<ValueError>([&] { all("D51"); }), contains("D51") && contains("at most 50"));
}

TEST_CASE("a product of groups names its parts, and an element those of the parts", "[words]") {
  const FiniteGroup group("Z2xS3xD4");
  CHECK(group.parts() == std::vector<std::string>{"Z2", "S3", "D4"});
  CHECK(FiniteGroup("A5").parts() == std::vector<std::string>{"A5"});
  for (Index element = 0; element < group.order(); ++element) {
    const std::vector<Index> components = group.components(element);
    REQUIRE(components.size() == 3);
    CHECK((components[0] * 6 + components[1]) * 8 + components[2] == element);
  }
}
