#include "orthornn/core/recorded_loops.hpp"

#include <initializer_list>

#include "core/back_end.hpp"
#include "core/for_each.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/matrices.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a CPU runs what has a key, each time", "[core]") {
  RecordedLoops records;
  int runs = 0;
  for (int i = 0; i < 3; ++i) records.run(Device::cpu(), {1}, [&] { ++runs; });
  CHECK(runs == 3);
}

TEST_CASE("what comes again with a key is recorded, of the keys that were used last", "[core][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    Tensor<std::uint64_t> x(Shape{1}, *device);
    RecordedLoops records(2);
    const auto set = [&](std::uint64_t value) {
      for_each(*device, 1, pointwise::SetValue<std::uint64_t>{x.data(), value});
    };
    const auto run = [&](std::uint64_t key) {
      const std::uint64_t before = cuda::graph_launches();
      set(99);
      records.run(*device, {key}, [&] { set(key); });
      const bool launched = cuda::graph_launches() > before;
      CHECK(x.copy(Device::cpu())(0) == key);
      return launched;
    };
    for (const std::uint64_t key : {1, 2}) CHECK_FALSE(run(key));
    for (const std::uint64_t key : {1, 2, 2, 1}) CHECK(run(key));
    CHECK_FALSE(run(3));  // in place of 2
    CHECK(run(1));
    CHECK_FALSE(run(2));  // in place of 3
    CHECK(run(1));
    records.forget({1});
    CHECK_FALSE(run(1));
    CHECK(run(2));
    CHECK(run(1));
    const Tensor<float> disturbance(Shape{1}, *device);  // memory changes: no recording holds any more
    for (const std::uint64_t key : {1, 2}) CHECK_FALSE(run(key));
    for (const std::uint64_t key : {1, 2}) CHECK(run(key));
  }
}
