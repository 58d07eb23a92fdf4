#include "orthornn/core/tensor.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// 0, 1, 2, .. in memory.
Tensor<float> counting(const Shape& shape) {
  Tensor<float> tensor(shape);
  std::iota(tensor.begin(), tensor.end(), 0.0F);
  return tensor;
}

}  // namespace

TEST_CASE("A shape knows its sizes from both ends, and their product", "[tensor]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  CHECK(shape.count() == 24);
  CHECK(std::accumulate(shape.begin(), shape.end(), Index{0}) == 9);
  CHECK(to_string(shape) == "[2, 3, 4]");

  CHECK(Shape{}.count() == 1);
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{5, 0}.count() == 0);
  const Index large = Index{1} << 20;
  CHECK(Shape{large, large}.count() == Index{1} << 40);
}

TEST_CASE("Shapes are equal when rank and all sizes are", "[tensor]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{} == Shape{0});
}

TEST_CASE("Impossible shapes and shapes that do not fit are errors that say so", "[tensor]") {
  CHECK_THAT(error_message<ShapeError>([] { Shape{2, -1}; }), contains("-1"));
  CHECK_THAT(error_message<ShapeError>([] { Shape{1, 2, 3, 4, 5, 6, 7}; }), contains("at most 6"));
  CHECK(error_message<ShapeError>([] {
          check_shape("weights", {2, 3}, {3, 2});
        }) == "weights has shape [2, 3], expected [3, 2]");
  CHECK_NOTHROW(check_shape("weights", {2, 3}, {2, 3}));
}

TEST_CASE("Sizes whose product or bytes do not fit in 63 bits are errors", "[tensor]") {
  const Index large = Index{1} << 32;
  CHECK(Shape{large, large / 4}.count() == Index{1} << 62);
  CHECK_THAT(error_message<ShapeError>([&] { Shape{large, large / 2}.count(); }), contains("2^63 elements"));
  CHECK(Shape{large, large / 32}.bytes(sizeof(float)) == std::size_t{1} << 61);
  // The product is 2^64, which an unsigned number takes for 0.
  CHECK_THAT(error_message<ShapeError>([&] {
               Shape{large, large / 4}.bytes(sizeof(float));
             }),
             contains("2^63 bytes"));
  Tensor<float> tensor(Shape{3});
  CHECK_THROWS_AS(tensor.resize(Shape{large, large / 4}), ShapeError);
  CHECK(tensor.shape() == Shape{3});
}

TEST_CASE("A tensor starts as zeros, in C order", "[tensor]") {
  Tensor<float> tensor(Shape{2, 3, 4});
  CHECK(tensor.size() == 24);
  CHECK(std::ranges::all_of(tensor, [](float x) { return x == 0; }));
  tensor(1, 2, 3) = 5;
  CHECK(tensor.data()[1 * 12 + 2 * 4 + 3] == 5);
  tensor(0, 1, 0) = 7;
  CHECK(tensor.data()[4] == 7);
}

TEST_CASE("Tensors without elements are empty", "[tensor]") {
  const Tensor<float> none;
  CHECK(none.empty());
  CHECK(none.size() == 0);
  CHECK(none.begin() == none.end());
  CHECK(Tensor<float>(Shape{3, 0}).empty());
  CHECK(TensorView<float>().empty());
  CHECK_FALSE(Tensor<float>(Shape{1}).empty());
}

TEST_CASE("A view is a window on the tensor's memory", "[tensor]") {
  Tensor<float> tensor = counting({2, 3});
  const TensorView<float> view = tensor;
  const TensorView<const float> reading = view;
  view(1, 0) = 9;
  CHECK(tensor(1, 0) == 9);
  CHECK(reading(1, 0) == 9);
  CHECK(reading.data() == tensor.data());
  CHECK(reading.shape() == Shape{2, 3});
  static_assert(!std::is_convertible_v<TensorView<const float>, TensorView<float>>);
  static_assert(!std::is_convertible_v<const Tensor<float>&, TensorView<float>>);
}

TEST_CASE("Slices and entries of the first dimension are windows too", "[tensor]") {
  Tensor<float> tensor = counting({4, 2, 3});
  const TensorView<float> slice = tensor.view().slice(1, 2);
  CHECK(slice.shape() == Shape{2, 2, 3});
  CHECK(slice(0, 0, 0) == 6);
  CHECK(slice(1, 1, 2) == 17);
  CHECK(tensor.view().slice(4, 0).empty());

  const TensorView<float> entry = tensor.view()[3];
  CHECK(entry.shape() == Shape{2, 3});
  CHECK(entry(0, 0) == 18);
  const TensorView<float> number = entry[1][2];
  CHECK(number.shape() == Shape{});
  CHECK(number() == 23);
  number() = -1;
  CHECK(tensor(3, 1, 2) == -1);
}

TEST_CASE("A tensor has up to six dimensions", "[tensor]") {
  Tensor<float> tensor = counting({2, 1, 3, 2, 2, 2});
  CHECK(tensor(1, 0, 2, 1, 0, 1) == 45);
  CHECK(tensor.view()[1].shape() == Shape{1, 3, 2, 2, 2});
  CHECK(tensor.view()[1](0, 2, 1, 0, 1) == 45);
  CHECK(tensor.view().slice(1, 1).shape() == Shape{1, 1, 3, 2, 2, 2});
  CHECK(to_string(tensor.shape()) == "[2, 1, 3, 2, 2, 2]");
}

TEST_CASE("Reshaping keeps elements and their number", "[tensor]") {
  Tensor<float> tensor = counting({2, 6});
  const TensorView<float> view = tensor.view().reshaped({3, 4});
  CHECK(view.shape() == Shape{3, 4});
  CHECK(view.data() == tensor.data());
  CHECK(view(2, 3) == 11);
  const std::string message = error_message<ShapeError>([&] { tensor.view().reshaped({5, 2}); });
  CHECK_THAT(message, contains("[2, 6]"));
  CHECK_THAT(message, contains("[5, 2]"));
}

TEST_CASE("Resizing within what there is keeps the memory and clears it", "[tensor]") {
  Tensor<float> tensor = counting({4, 5});
  const float* memory = tensor.data();
  tensor.resize({3, 2});
  CHECK(tensor.data() == memory);
  CHECK(tensor.shape() == Shape{3, 2});
  CHECK(tensor.size() == 6);
  CHECK(std::ranges::all_of(tensor, [](float x) { return x == 0; }));
  tensor.resize({20});
  CHECK(tensor.data() == memory);
  CHECK(std::ranges::all_of(tensor, [](float x) { return x == 0; }));
  tensor.resize({0});
  CHECK(tensor.empty());
  tensor.reserve({5, 4});
  CHECK(tensor.data() == memory);
  tensor.resize({21});
  CHECK(tensor.size() == 21);
  CHECK(std::ranges::all_of(tensor, [](float x) { return x == 0; }));
}

TEST_CASE("A tensor moves with its memory and leaves an empty one", "[tensor]") {
  Tensor<float> from = counting({2, 2});
  const float* memory = from.data();
  Tensor<float> to = std::move(from);
  CHECK(to.data() == memory);
  CHECK(to.shape() == Shape{2, 2});
  CHECK(from.empty());  // promised for a tensor that was moved from

  Tensor<float> other = counting({7});
  other = std::move(to);
  CHECK(other.data() == memory);
  CHECK(other.size() == 4);
  CHECK(to.empty());
  to.resize({3});
  CHECK(to.size() == 3);
  static_assert(!std::is_copy_constructible_v<Tensor<float>> && !std::is_copy_assignable_v<Tensor<float>>);
}

TEST_CASE("A copy has memory of its own", "[tensor]") {
  const Tensor<float> original = counting({2, 3});
  Tensor<float> second = original.copy();
  CHECK(second.shape() == original.shape());
  CHECK(std::ranges::equal(second, original));
  second(0, 0) = 100;
  CHECK(original(0, 0) == 0);
  CHECK(Tensor<float>().copy().empty());

  Tensor<float> target(Shape{2, 3});
  copy(original.view(), target.view());
  CHECK(std::ranges::equal(target, original));
  Tensor<float> narrow(Shape{3, 2});
  CHECK_THROWS_AS(copy(original.view(), narrow.view()), ShapeError);
}

TEST_CASE("A view may be of memory that is no tensor's", "[tensor]") {
  float memory[] = {0, 1, 2, 3, 4, 5};
  const TensorView<float> view(memory, {2, 3});
  CHECK(view.device() == Device::cpu());
  CHECK(view(1, 2) == 5);
  Tensor<float> tensor(Shape{2, 3});
  copy<float>(view, tensor);
  CHECK(tensor(1, 0) == 3);
  tensor(1, 0) = 30;
  copy<float>(tensor, view);
  CHECK(memory[3] == 30);
}

TEST_CASE("Adopted memory is released once, by the function that came with it", "[tensor]") {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  const auto release = [&](float* given_back) {
    CHECK(given_back == memory);
    ++released;
  };
  {
    Tensor<float> tensor = Tensor<float>::adopt(memory, {2, 3}, Device::cpu(), release);
    CHECK(tensor(1, 2) == 5);
    Tensor<float> moved = std::move(tensor);
    CHECK(moved.data() == memory);
    moved.resize({2, 2});
    CHECK(moved.data() == memory);
    CHECK(memory[3] == 0);
    CHECK(memory[4] == 4);
    CHECK(moved.copy().data() != memory);
    CHECK(released == 0);
  }
  CHECK(released == 1);
  Tensor<float> grown = Tensor<float>::adopt(memory, {6}, Device::cpu(), release);
  grown.resize({7});
  CHECK(released == 2);
  CHECK(grown.data() != memory);
  grown = Tensor<float>::adopt(memory, {6}, Device::cpu(), release);
  grown = Tensor<float>();
  CHECK(released == 3);
}

TEST_CASE("memory is not adopted without a function that releases it", "[tensor]") {
  float memory[2] = {};
  CHECK_THROWS_AS(Tensor<float>::adopt(memory, {2}, Device::cpu(), {}), ValueError);
}

TEST_CASE("Tensor memory is aligned for vector registers", "[tensor]") {
  for (const Index size : {1, 3, 17}) {
    CHECK(reinterpret_cast<std::uintptr_t>(Tensor<float>(Shape{size}).data()) % 64 == 0);
  }
}
