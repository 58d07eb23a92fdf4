#include "orthornn/core/stream_scope.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/repeated_operations.hpp"
#include "orthornn/core/tensor.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// CUDA's stream of the calling thread (cudaStreamPerThread), which needs no CUDA header.
void* const stream_of_thread = reinterpret_cast<void*>(2);
void* const default_stream = nullptr;

}  // namespace

TEST_CASE("a stream scope does nothing on the CPU", "[stream]") {
  const StreamScope scope(Device::cpu(), stream_of_thread);
  CHECK(stream_of(Device::cpu()) == nullptr);
}

TEST_CASE("operations go to the stream of the innermost scope", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  void* const own = stream_of(*device);
  {
    const StreamScope outer(*device, default_stream);
    CHECK(stream_of(*device) == default_stream);
    {
      const StreamScope inner(*device, stream_of_thread);
      CHECK(stream_of(*device) == stream_of_thread);
    }
    CHECK(stream_of(*device) == default_stream);
  }
  CHECK(stream_of(*device) == own);
}

TEST_CASE("what is done on several streams is done in order", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // Copies long enough to be overtaken.
  const Index count = Index{1} << 22;
  Tensor<float> ones(Shape{count});
  std::fill(ones.begin(), ones.end(), 1.0F);
  Tensor<float> a(Shape{count}, *device), b(Shape{count}, *device), c(Shape{count}, *device);
  copy<float>(ones, a);
  set_zero(b.view());
  copy<float>(a, b);
  {
    const StreamScope scope(*device, stream_of_thread);
    copy<float>(b, c);
    set_zero(b.view());
  }
  copy<float>(c, a);
  set_zero(c.view());
  const Tensor<float> found = a.copy(Device::cpu());
  CHECK(std::ranges::equal(found, ones));
}

TEST_CASE("recorded operations run on the stream of the scope", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    Tensor<float> one(Shape{1});
    one(0) = 1;
    Tensor<float> a = one.copy(*device), b(Shape{1}, *device), c(Shape{1}, *device);
    RepeatedOperations operations(*device);
    const auto run = [&] {
      operations.run([&] {
        copy<float>(b, c);
        copy<float>(a, b);
      });
    };
    const std::uint64_t launches = cuda::graph_launches();
    run();  // directly
    {
      const StreamScope scope(*device, default_stream);
      run();  // recorded here
      set_zero(b.view());
    }
    run();
    CHECK(c.copy(Device::cpu())(0) == 0);
    CHECK(b.copy(Device::cpu())(0) == 1);
    {
      const StreamScope scope(*device, stream_of_thread);
      run();
    }
    CHECK(c.copy(Device::cpu())(0) == 1);
    CHECK(cuda::graph_launches() == launches + 3);
  }
}

TEST_CASE("a scope may not begin while operations are recorded", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    void* const own = stream_of(*device);
    cuda::Graph graph;
    CHECK_THROWS_WITH(graph.record(*device, [&] { const StreamScope scope(*device, stream_of_thread); }),
                      contains("another stream of cuda:0 was asked for while operations were recorded"));
    CHECK(stream_of(*device) == own);
  }
}

TEST_CASE("memory of a GPU may be somebody else's", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // What a program has that allocates with cudaMalloc.
  void* const memory = orthornn::detail::allocate(*device, 6 * sizeof(float));
  int released = 0;
  Tensor<float> host(Shape{2, 3});
  std::fill(host.begin(), host.end(), 5.0F);
  {
    const TensorView<float> view(static_cast<float*>(memory), {2, 3}, *device);
    copy<float>(host, view);
    Tensor<float> adopted =
        Tensor<float>::adopt(static_cast<float*>(memory), {2, 3}, *device, [&](float* given_back) {
          ++released;
          orthornn::detail::release(*device, given_back);
        });
    CHECK(adopted.copy(Device::cpu())(1, 2) == 5);
    set_zero(view[0]);
    CHECK(adopted.copy(Device::cpu())(0, 2) == 0);
    CHECK(adopted.copy(Device::cpu())(1, 0) == 5);
  }
  CHECK(released == 1);
}
