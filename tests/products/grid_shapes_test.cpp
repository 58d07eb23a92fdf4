// Which kernels over the grid are compiled: every problem has one, and blocks of as many units as
// include/orthornn/core/execution.hpp says.

#include "cuda/products/grid_shapes.hpp"

#include <algorithm>
#include <initializer_list>

#include "support/catch.hpp"

namespace orthornn::testing {
namespace {

/// Units of a block of the largest kernel; 0 where there is none.
int most_units(int terms, int gates, int published) {
  int most = 0;
  for (const cuda::GridTiles& tiles : cuda::grid_shapes) {
    if (cuda::has_grid_kernel(tiles, terms, gates, published)) most = std::max(most, 16 * tiles.rows / gates);
  }
  return most;
}

}  // namespace

TEST_CASE("every problem has a kernel over the grid", "[plan]") {
  for (const int terms : {1, 2, 3}) {
    CAPTURE(terms);
    CHECK(most_units(terms, 1, 1) == (terms == 1 ? 64 : 48));
    for (const int gates : {3, 4}) {
      CAPTURE(gates);
      CHECK(most_units(terms, gates, 1) == 16);
      CHECK(most_units(terms, 1, gates) == 32);
      for (const int sequences : {6, 8}) {
        CHECK(!cuda::has_grid_kernel({2, sequences, 1}, terms, gates, 1));
        CHECK(!cuda::has_grid_kernel({2, sequences, 1}, terms, 1, gates));
      }
    }
  }
}

}  // namespace orthornn::testing
