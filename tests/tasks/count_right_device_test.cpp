#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "tasks/count_right.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("right answers are added to a score", "[tasks]") {
  Tensor<float> outputs(Shape{5, 3});
  Tensor<std::int32_t> classes(Shape{5});
  outputs(0, 2) = 1, classes(0) = 2;   // right
  outputs(1, 0) = 1, classes(1) = 1;   // wrong
  outputs(2, 0) = 1, classes(2) = -1;  // does not count
  classes(3) = 0;                      // a tie is wrong
  outputs(4, 1) = std::numeric_limits<float>::quiet_NaN(), classes(4) = 0,
             outputs(4, 0) = 1;  // and so is a NaN
  Tensor<double> score(Shape{2});
  score(0) = 10, score(1) = 20;
  count_right(outputs, classes, score);
  CHECK(score(0) == 11);
  CHECK(score(1) == 24);
  CHECK_THROWS_AS(count_right(outputs, Tensor<std::int32_t>(Shape{4}), score), ShapeError);
}

TEST_CASE("right answers on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  // One row, rows of one entry, more entries than a warp, and more rows than blocks take at once.
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 1}, Shape{3, 100}, Shape{20000, 9}}) {
    Tensor<float> outputs = normal_tensor<float>(shape, 1);
    RandomStream random(5, RandomPurpose::validation);
    for (Index i = 0; i < outputs.size(); i += 11) outputs.data()[i] = 2;  // ties
    *outputs.begin() = std::numeric_limits<float>::quiet_NaN();
    Tensor<std::int32_t> classes(Shape{shape[0]});
    for (std::int32_t& c : classes)
      c = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(shape[1] + 1))) - 1;
    Tensor<double> expected(Shape{2});
    expected(1) = 5;
    Tensor<double> found = expected.copy(*device);
    count_right(outputs, classes, expected);
    count_right(outputs.copy(*device), classes.copy(*device), found);
    const Tensor<double> here = found.copy(Device::cpu());
    CAPTURE(to_string(shape));
    CHECK_THROWS_AS(count_right(outputs.copy(*device), classes.copy(*device), expected), DeviceError);
    CHECK(here(0) == expected(0));
    CHECK(here(1) == expected(1));
  }
}
