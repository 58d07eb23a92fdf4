#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/core/tensor.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("what may not be recorded says so, and the device goes on", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    Tensor<float> tensor(Shape{3}, *device);
    Tensor<float> on_host(Shape{3});
    cuda::Graph graph;
    CHECK_THROWS_WITH(graph.record(*device, [&] { Tensor<float>(Shape{5}, *device); }),
                      contains("memory of cuda:0 was asked for while operations were recorded"));
    CHECK_THROWS_WITH(graph.record(*device, [&] { synchronize(*device); }),
                      contains("nothing may wait for cuda:0 while operations are recorded"));
    CHECK_THROWS_WITH(graph.record(*device, [&] { copy<float>(tensor, on_host); }),
                      contains("nothing may wait for cuda:0 while operations are recorded"));
    CHECK_THROWS_WITH(graph.record(*device, [&] { copy<float>(on_host, tensor); }),
                      contains("nothing may wait for cuda:0 while operations are recorded"));
    CHECK(graph.empty());
    std::fill(on_host.begin(), on_host.end(), 2.0F);
    copy<float>(on_host, tensor);
    graph.record(*device, [&] { cuda::fill_zero(*device, tensor.data(), 2 * sizeof(float)); });
    graph.launch();
    copy<float>(tensor, on_host);
    CHECK(on_host(0) == 0);
    CHECK(on_host(1) == 0);
    CHECK(on_host(2) == 2);
  }
}

TEST_CASE("memory that is given back during a recording goes when it is over", "[cuda][alone]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    constexpr Index bytes = Index{64} << 20;
    const std::size_t before = cuda::free_memory(*device);
    Tensor<std::int8_t> tensor(Shape{bytes}, *device);
    cuda::Graph graph;
    graph.record(*device, [&] {
      cuda::fill_zero(*device, tensor.data(), 8);
      tensor = Tensor<std::int8_t>();
    });
    CHECK(cuda::free_memory(*device) < before);
    graph.launch();
    const std::uint64_t changes = cuda::memory_changes(*device);
    { const Tensor<float> next(Shape{1}, *device); }
    CHECK(cuda::memory_changes(*device) == changes + 3);
    synchronize(*device);
    CHECK(cuda::free_memory(*device) + bytes / 2 > before);
  }
}
