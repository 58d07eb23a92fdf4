#include <initializer_list>
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

TEST_CASE("a sequence is right if all its answers are", "[tasks]") {
  Tensor<float> outputs(Shape{3, 4, 2});
  Tensor<std::int32_t> classes(Shape{3, 4});
  for (Index t = 0; t < 3; ++t) {
    for (Index b = 0; b < 4; ++b) outputs(t, b, 1) = 1, classes(t, b) = 1;
  }
  classes(2, 1) = 0;                                   // a wrong answer at the end
  classes(0, 2) = -1, outputs(0, 2, 1) = -1;           // a wrong one that does not count
  classes(0, 3) = classes(1, 3) = classes(2, 3) = -1;  // no answer at all
  Tensor<double> score(Shape{2});
  score(0) = 10, score(1) = 20;
  count_right_sequences(outputs, classes, score);
  CHECK(score(0) == 12);
  CHECK(score(1) == 23);
  CHECK_THROWS_AS(count_right_sequences(outputs, Tensor<std::int32_t>(Shape{3, 5}), score), ShapeError);
}

TEST_CASE("right sequences on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 3, 2}, Shape{2, 9000, 3}, Shape{3, 40, 100}}) {
    Tensor<float> outputs = normal_tensor<float>(shape, 1);
    RandomStream random(5, RandomPurpose::validation);
    Tensor<std::int32_t> classes(Shape{shape[0], shape[1]});
    for (Index row = 0; row < classes.size(); ++row) {
      const auto c = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(shape[2] + 1))) - 1;
      classes.data()[row] = c;
      if (c >= 0 && row % 7 > 0) outputs.data()[row * shape[2] + c] = 9;  // mostly right
    }
    Tensor<double> expected(Shape{2});
    expected(1) = 5;
    Tensor<double> found = expected.copy(*device);
    count_right_sequences(outputs, classes, expected);
    count_right_sequences(outputs.copy(*device), classes.copy(*device), found);
    const Tensor<double> here = found.copy(Device::cpu());
    CAPTURE(to_string(shape));
    CHECK(here(0) == expected(0));
    CHECK(here(1) == expected(1));
  }
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
