// A program of its own: after such an error the process can use its GPU no more.

#include "rollouts/stuck_block.hpp"

#include <chrono>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a rollout over the grid whose block is stuck becomes an error after ten seconds",
          "[cuda][rollout][slow]") {
  const auto device = gpu();
  if (!device) return;
  const auto began = std::chrono::steady_clock::now();
  // The memory of Q is released while the kernel runs, which waits for it or fails.
  CHECK_THROWS_AS(
      [&] {
        start_rollout_with_stuck_block(*device);
        synchronize(*device);
      }(),
      DeviceError);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  CHECK(seconds >= 10);
  CHECK(seconds < 30);
}
