#include "orthornn/core/host_staging.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// first, first + 1, ..
const auto count_from = [](std::int32_t first) {
  return [first](TensorView<std::int32_t> x) { std::iota(x.begin(), x.end(), first); };
};

}  // namespace

TEST_CASE("a tensor of the host is written in place", "[core]") {
  HostStaging staging;
  Tensor<std::int32_t> x(Shape{2, 3});
  const void* written = nullptr;
  staging.fill(x.view(), [&](TensorView<std::int32_t> to) {
    written = to.data();
    CHECK(to.shape() == Shape{2, 3});
    count_from(4)(to);
  });
  CHECK(written == x.data());
  CHECK(x(1, 2) == 9);
}

TEST_CASE("tensors of a GPU get what the host wrote, of many in turn", "[core][cuda]") {
  const auto device = gpu();
  if (!device) return;
  HostStaging staging;
  // More than there are slots, of sizes that a slot must grow for, on either side of those that are copied
  // ahead.
  std::vector<Tensor<std::int32_t>> there;
  for (Index i = 0; i < 50; ++i) there.emplace_back(Shape{1 + 100 * (i % 17), 20}, *device);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < there.size(); ++i)
      staging.fill(there[i].view(), count_from(static_cast<std::int32_t>(1000 * i)));
    for (std::size_t i = 0; i < there.size(); ++i) {
      Tensor<std::int32_t> expected(there[i].shape());
      count_from(static_cast<std::int32_t>(1000 * i))(expected);
      const Tensor<std::int32_t> found = there[i].copy(Device::cpu());
      REQUIRE(std::ranges::equal(found, expected));
    }
    staging = HostStaging(std::move(staging));
  }
  Tensor<std::int32_t> nothing(Shape{0}, *device);
  staging.fill(nothing.view(), [](TensorView<std::int32_t>) { FAIL("there is nothing to write"); });
}

TEST_CASE("operations on a GPU read what was written before them, not what comes after", "[core][cuda]") {
  const auto device = gpu();
  if (!device) return;
  HostStaging staging;
  const Index count = GENERATE(Index{1} << 10, Index{1} << 20);  // the second one is copied ahead
  Tensor<std::int32_t> x(Shape{count}, *device);
  std::vector<Tensor<std::int32_t>> seen;
  for (int i = 0; i < 20; ++i) seen.emplace_back(Shape{count}, *device);
  for (int i = 0; i < 20; ++i) {
    staging.fill(x.view(), count_from(i));
    copy<std::int32_t>(x, seen[static_cast<std::size_t>(i)].view());
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    Tensor<std::int32_t> expected(Shape{count});
    count_from(i)(expected);
    CAPTURE(i);
    REQUIRE(std::ranges::equal(seen[static_cast<std::size_t>(i)].copy(Device::cpu()), expected));
  }
}

TEST_CASE("page-locked memory that was sent may change after a wait", "[core][cuda]") {
  const auto device = gpu();
  if (!device) return;
  HostStaging staging;
  staging.wait_until_sent();                                     // for nothing
  const Index count = GENERATE(Index{1} << 10, Index{1} << 20);  // the second one is copied ahead
  Tensor<std::int32_t> here = HostStaging::page_locked<std::int32_t>({count}, *device);
  std::vector<Tensor<std::int32_t>> there;
  for (int i = 0; i < 20; ++i) there.emplace_back(Shape{count}, *device);
  for (int i = 0; i < 20; ++i) {
    staging.wait_until_sent();
    count_from(i)(here.view());
    staging.send<std::int32_t>(here, there[static_cast<std::size_t>(i)].view());
  }
  staging.wait_until_sent();
  for (std::int32_t i = 0; i < 20; ++i) {
    count_from(i)(here.view());
    CAPTURE(i);
    REQUIRE(std::ranges::equal(there[static_cast<std::size_t>(i)].copy(Device::cpu()), here));
  }
  CHECK_THROWS_AS(staging.send<std::int32_t>(here, there[0].view().slice(0, 5)), ShapeError);
}

TEST_CASE("what is sent to a tensor of the host is copied", "[core]") {
  HostStaging staging;
  Tensor<std::int32_t> from = HostStaging::page_locked<std::int32_t>({2, 3}, Device::cpu()), to({2, 3});
  count_from(4)(from.view());
  staging.send<std::int32_t>(from, to.view());
  staging.wait_until_sent();
  CHECK(std::ranges::equal(to, from));
}

TEST_CASE("a recording may not take numbers from the host", "[core][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    HostStaging staging;
    Tensor<std::int32_t> x(Shape{3}, *device);
    staging.fill(x.view(), count_from(1));
    const std::uint64_t before = cuda::memory_changes(*device);
    staging.fill(x.view(), count_from(5));
    CHECK(cuda::memory_changes(*device) == before);  // graphs stay as they are
    cuda::Graph graph;
    CHECK_THROWS_AS(graph.record(*device, [&] { staging.fill(x.view(), count_from(7)); }), DeviceError);
    CHECK(x.copy(Device::cpu())(2) == 7);
  }
}
