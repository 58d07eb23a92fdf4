#include "tasks/mnist/numpy_permutation.hpp"

#include <algorithm>
#include <array>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"

using namespace orthornn;

// Recorded from NumPy 2: numpy.random.RandomState(seed).permutation(count).
TEST_CASE("A permutation is NumPy's of the same seed", "[mnist]") {
  CHECK(std::ranges::equal(numpy_permutation(5, 0), std::array{2, 0, 1, 3, 4}));
  CHECK(std::ranges::equal(numpy_permutation(10, 1), std::array{2, 9, 6, 4, 0, 3, 1, 7, 8, 5}));
  CHECK(std::ranges::equal(numpy_permutation(7, 4294967295), std::array{1, 5, 0, 6, 4, 2, 3}));
  CHECK(numpy_permutation(0, 3).empty());
  CHECK(std::ranges::equal(numpy_permutation(1, 3), std::array{0}));

  const Tensor<std::int32_t> published = numpy_permutation(784, 92916);
  CHECK(is_permutation(published));
  CHECK(std::equal(published.begin(), published.begin() + 12,
                   std::array{319, 576, 323, 107, 355, 716, 197, 20, 625, 60, 443, 620}.begin()));
  CHECK(std::equal(published.end() - 6, published.end(), std::array{123, 470, 264, 102, 39, 346}.begin()));
  Index sum = 0;
  for (Index i = 0; i < 784; ++i) sum += i * published(i);
  CHECK(sum == 118652722);

  CHECK_THROWS_AS(numpy_permutation(5, std::uint64_t{1} << 32), ValueError);
}
