#include "orthornn/core/side_branch.hpp"

#include <algorithm>
#include <string>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/core/graph.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/repeated_operations.hpp"
#include "orthornn/core/stream_scope.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

Tensor<float> filled(Index count, float value) {
  Tensor<float> x(Shape{count});
  std::fill(x.begin(), x.end(), value);
  return x;
}

/// Numbers whose copies can be overtaken.
Index long_copy(Device device) { return is_emulated(device) ? 100 : Index{1} << 22; }

/// to <- from by way of `between`, many times.
void copy_slowly(TensorView<const float> from, TensorView<float> between, TensorView<float> to) {
  for (int i = 0; i < 20; ++i) {
    copy<float>(from, between);
    set_zero(to);
    copy<float>(between, to);
  }
}

}  // namespace

TEST_CASE("a CPU runs a branch in place and uses memory again at once", "[core][branch]") {
  Saved saved(Device::cpu()), scratch(Device::cpu());
  std::string order;
  SideBranch side(saved, scratch);
  side.run([&] { order += "a"; });
  order += "b";
  run_in(&side, [&] { order += "c"; });
  run_in(nullptr, [&] { order += "d"; });
  CHECK(order == "abcd");
  const void* const first = scratch.push<float>({3}).data();
  scratch.pop(1);
  CHECK(scratch.push<float>({3}).data() == first);
  side.join();
}

TEST_CASE("operations of a branch go to a stream of its own", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  void* const main = stream_of(*device);
  SideBranch side(*device), other(*device);
  void* in_branch = nullptr;
  side.run([&] {
    in_branch = stream_of(*device);
    other.run([&] { CHECK(stream_of(*device) == in_branch); });
    CHECK(stream_of(*device) == in_branch);
  });
  CHECK(in_branch != main);
  CHECK(stream_of(*device) == main);
  CHECK_THROWS_AS(side.run([] { throw ValueError("enough"); }), ValueError);
  CHECK(stream_of(*device) == main);
  side.run([&] {
    CHECK_THROWS_WITH(StreamScope(*device, nullptr), contains("within a SideBranch"));
    CHECK(stream_of(*device) == in_branch);
  });
  const StreamScope scope(*device, nullptr);
  side.run([&] { CHECK(stream_of(*device) == in_branch); });
  CHECK(stream_of(*device) == nullptr);
}

TEST_CASE("a branch begins after what was there, and what comes after a join after it", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Index count = long_copy(*device);
  const Tensor<float> ones = filled(count, 1), twos = filled(count, 2);
  const Tensor<float> one = ones.copy(*device), two = twos.copy(*device);
  Tensor<float> a(Shape{count}, *device), b(Shape{count}, *device), c(Shape{count}, *device);
  Tensor<float> d(Shape{count}, *device), e(Shape{count}, *device), f(Shape{count}, *device);
  const auto operations = [&] {
    for (Tensor<float>* const x : {&b, &c, &d, &e, &f}) set_zero(x->view());
    copy_slowly(one, a, b);
    SideBranch side(*device);
    side.run([&] { copy_slowly(b, c, d); });
    copy_slowly(two, a, e);
    side.run([&] { copy_slowly(e, c, f); });
    side.join();
    copy<float>(d, a);
    set_zero(b.view());
    copy<float>(f, c);
  };
  RepeatedOperations repeated(*device);
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    // The first time one by one, then in a graph.
    repeated.run(operations);
    CHECK(std::ranges::equal(a.copy(Device::cpu()), ones));
    CHECK(std::ranges::equal(c.copy(Device::cpu()), twos));
  }
}

TEST_CASE("a branch that an exception ends is joined", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Index count = long_copy(*device);
  const Tensor<float> ones = filled(count, 1);
  const Tensor<float> one = ones.copy(*device);
  Tensor<float> a(Shape{count}, *device), b(Shape{count}, *device);
  const auto operations = [&] {
    set_zero(b.view());
    try {
      SideBranch side(*device);
      side.run([&] {
        copy_slowly(one, a, b);
        throw ValueError("enough");
      });
    } catch (const ValueError&) {
    }
    copy<float>(b, a);
  };
  RepeatedOperations repeated(*device);
  for (int i = 0; i < 3; ++i) {
    repeated.run(operations);
    CHECK(std::ranges::equal(a.copy(Device::cpu()), ones));
  }
}

TEST_CASE("products beside each other have the bits that they have alone", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // So long a sum is cut into parts, which wait in the workspace of cuBLAS.
  const Index size = is_emulated(*device) ? 8 : 256, terms = is_emulated(*device) ? 40 : 20'000;
  const auto drawn = [&](std::uint64_t seed) {
    return normal_tensor<float>({terms, size}, seed).copy(*device);
  };
  const Tensor<float> a = drawn(1), b = drawn(2), c = drawn(3);
  Tensor<float> ab({size, size}, *device), ac({size, size}, *device);
  const auto multiply = [&](const Tensor<float>& x, const Tensor<float>& y, Tensor<float>& to) {
    gemm<float>(1, columns_of(x.view()), transposed(columns_of(y.view())), 0, columns_of(to.view()));
  };
  multiply(a, b, ab);
  multiply(a, c, ac);
  const Tensor<float> expected_ab = ab.copy(Device::cpu()), expected_ac = ac.copy(Device::cpu());
  for (int i = 0; i < 10; ++i) {
    SideBranch side(*device);
    side.run([&] { multiply(a, b, ab); });
    multiply(a, c, ac);
    side.join();
    CHECK(same_bits(ab.copy(Device::cpu()), expected_ab));
    CHECK(same_bits(ac.copy(Device::cpu()), expected_ac));
  }
}

TEST_CASE("what a branch may read is not used again before the join", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Saved saved(*device), scratch(*device);
  const auto push = [](Saved& stack) {
    const Saved::Scope scope(stack);
    return stack.push<float>({100}).data();
  };
  for (Saved* const stack : {&saved, &scratch}) {
    const float* const before = push(*stack);
    SideBranch side(saved, scratch);
    const float *first = nullptr, *second = push(*stack);
    side.run([&] { first = push(*stack); });
    CHECK(first != second);
    CHECK(push(*stack) != first);
    side.join();
    CHECK(push(*stack) == before);
  }
}

TEST_CASE("operations in a branch are not recorded by themselves", "[branch][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    Tensor<float> x(Shape{2}, *device);
    RepeatedOperations repeated(*device);
    const auto run = [&] { repeated.run([&] { set_zero(x.view()); }); };
    const std::uint64_t before = cuda::graph_launches();
    SideBranch side(*device);
    for (int i = 0; i < 3; ++i) side.run(run);
    side.join();
    CHECK(cuda::graph_launches() == before);
    for (int i = 0; i < 3; ++i) run();
    CHECK(cuda::graph_launches() == before + 2);
  }
}
