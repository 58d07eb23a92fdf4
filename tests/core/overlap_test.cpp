#include "core/overlap.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/set_zero.hpp"
#include "orthornn/core/repeated_operations.hpp"
#include "orthornn/core/stream_scope.hpp"
#include "orthornn/core/tensor.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// So many numbers that a copy of them can be overtaken.
constexpr Index numbers = Index{1} << 22;

struct Arrays {
  explicit Arrays(Device device)
      : ones(filled(1, device)), a(filled(0, device)), b(filled(0, device)), c(filled(0, device)) {}

  static Tensor<float> filled(float x, Device device) {
    Tensor<float> host(Shape{numbers});
    std::fill(host.begin(), host.end(), x);
    return host.copy(device);
  }
  Tensor<float> ones, a, b, c;
};

bool all_are(const Tensor<float>& x, float expected) {
  const Tensor<float> host = x.copy(Device::cpu());
  return std::ranges::all_of(host, [&](float found) { return found == expected; });
}

/// c <- 1, if each operation waits for what it reads: a <- 1, b <- a aside, a <- 0 and c <- b.
void copy_aside(Arrays& x) {
  copy<float>(x.ones, x.a);
  const Overlap overlap(x.a.device());
  overlap.aside([&] { copy<float>(x.a, x.b); });
  set_zero(x.a.view());
  copy<float>(x.b, x.c);
}

}  // namespace

TEST_CASE("on the CPU what runs aside and beside runs where it stands", "[stream]") {
  const Overlap overlap(Device::cpu());
  int order = 0;
  overlap.aside([&] { CHECK(order++ == 0); });
  overlap.beside([&] { CHECK(order++ == 1); });
  CHECK(order == 2);
}

TEST_CASE("what was sent aside comes after all before and before all after", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Arrays x(*device);
  copy_aside(x);
  CHECK(all_are(x.a, 0));
  CHECK(all_are(x.c, 1));
}

TEST_CASE("the end of an overlap waits for what was sent aside", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Arrays x(*device);
  void* const own = stream_of(*device);
  {
    const Overlap overlap(*device);
    overlap.aside([&] {
      CHECK(stream_of(*device) != own);
      copy<float>(x.ones, x.b);
    });
    overlap.beside([&] {
      CHECK(stream_of(*device) == own);
      copy<float>(x.ones, x.a);
    });
  }
  CHECK(all_are(x.a, 1));
  CHECK(all_are(x.b, 1));
}

TEST_CASE("an overlap works in a stream scope and within another overlap", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Arrays x(*device);
  void* const stream_of_thread = reinterpret_cast<void*>(2);
  const Overlap outer(*device);
  {
    const StreamScope scope(*device, stream_of_thread);
    const Overlap overlap(*device);
    overlap.aside([&] { copy<float>(x.ones, x.a); });
    // This is a part of what runs beside, so what follows it here need not wait.
    overlap.beside([&] {
      const Overlap inner(*device);
      inner.aside([&] { CHECK(stream_of(*device) == stream_of_thread); });
    });
  }
  copy<float>(x.a, x.c);
  CHECK(all_are(x.c, 1));
}

TEST_CASE("what overlaps can be recorded", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Arrays x(*device);
  RepeatedOperations operations(*device);
  for (int run = 0; run < 3; ++run) {  // directly, recorded, again
    set_zero(x.c.view());
    operations.run([&] { copy_aside(x); });
    CHECK(all_are(x.c, 1));
  }
}

TEST_CASE("an error of what runs aside leaves the stream usable", "[stream][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Arrays x(*device);
  void* const own = stream_of(*device);
  const Overlap overlap(*device);
  const auto fail = [] { throw std::runtime_error("a reason"); };
  CHECK_THROWS_WITH(overlap.aside(fail), "a reason");
  CHECK_THROWS_WITH(overlap.beside(fail), "a reason");
  CHECK(stream_of(*device) == own);
  copy_aside(x);
  CHECK(all_are(x.c, 1));
}
