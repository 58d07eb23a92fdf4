#include "orthornn/core/batch.hpp"

#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a batch's tensors keep their place while others are added", "[batch]") {
  Batch batch;
  Tensor<std::int32_t>& source = batch.integers("source");
  CHECK(source.empty());
  source.resize({3, 2});
  source(2, 1) = 7;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) batch.reals(name).resize({4});
  CHECK(&batch.integers("source") == &source);
  const Batch& read = batch;
  CHECK(read.integers("source")(2, 1) == 7);
  CHECK(read.reals("h").shape() == Shape{4});
  CHECK(read.reals("no such").empty());
}

TEST_CASE("a name stands for integers or for reals", "[batch]") {
  Batch batch;
  batch.reals("x").resize({1});
  CHECK_THROWS_WITH(batch.integers("x"), contains("'x'"));
  CHECK_THROWS_AS(std::as_const(batch).integers("x"), ValueError);
}

TEST_CASE("shapes of a batch tell batches apart by names and shapes, not by numbers", "[batch]") {
  Batch batch;
  batch.integers("symbols").resize({5, 2});
  batch.reals("values").resize({2, 1});
  BatchShapes shapes;
  CHECK_FALSE(shapes.are_of(batch));
  shapes.set(batch);
  CHECK(shapes.are_of(batch));
  batch.integers("symbols")(0, 0) = 3;
  CHECK(shapes.are_of(batch));
  batch.reals("values").resize({1, 2});
  CHECK_FALSE(shapes.are_of(batch));
  batch.reals("values").resize({2, 1});
  CHECK(shapes.are_of(batch));
  batch.integers("lengths");
  CHECK_FALSE(shapes.are_of(batch));
  shapes.set(batch);
  CHECK(shapes.are_of(batch));
  shapes.clear();
  CHECK_FALSE(shapes.are_of(batch));
}

TEST_CASE("places tell batches apart by addresses and shapes, not by numbers", "[batch]") {
  Batch batch;
  batch.integers("symbols").resize({5, 2});
  batch.reals("values").resize({2, 3});
  const auto first = batch.places();
  batch.integers("symbols")(0, 0) = 3;
  CHECK(batch.places() == first);
  for (const Shape& shape : {Shape{3, 2}, Shape{6}, Shape{2, 2}}) {
    batch.reals("values").resize(shape);
    CHECK(batch.places() != first);
  }
  batch.reals("values").resize({2, 3});
  CHECK(batch.places() == first);
  Tensor<float> elsewhere(Shape{2, 3});
  batch.reals("values") = std::move(elsewhere);
  const auto second = batch.places();
  CHECK(second != first);
  batch.integers("lengths");
  CHECK(batch.places() != second);
}

TEST_CASE("a batch is copied to a GPU and back, and says what lies elsewhere", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  Batch here;
  here.integers("symbols").resize({2, 2});
  here.integers("symbols")(1, 0) = 9;
  here.reals("values").resize({3});
  here.reals("values")(2) = 0.5F;
  const Batch there = here.copy(*device);
  CHECK(there.device() == *device);
  there.check_device(*device);
  const Batch back = there.copy(Device::cpu());
  CHECK(back.integers("symbols")(1, 0) == 9);
  CHECK(back.reals("values")(2) == 0.5F);
  CHECK_THROWS_WITH(here.check_device(*device), contains("'symbols'"));
  Batch mixed(*device);
  mixed.reals("values") = Tensor<float>(Shape{1});
  CHECK_THROWS_AS(mixed.check_device(*device), DeviceError);
}
