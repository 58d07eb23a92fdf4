#include "linalg/gemm.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

// Slow: the emulator takes minutes for it.
TEST_CASE("a large product on tensor cores is right for sizes that are no multiples of 16 bytes",
          "[linalg][cuda][slow]") {
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index rows, cols, depth;
  };
  // Each has 2^32 operations or more; one or all of them are odd.
  for (const Sizes s :
       {Sizes{1031, 1032, 2052}, Sizes{1032, 1029, 2052}, Sizes{1032, 1032, 2051}, Sizes{1031, 1029, 2051}}) {
    for (const bool left_is_transposed : {false, true}) {
      for (const bool right_is_transposed : {false, true}) {
        CAPTURE(s.rows, s.cols, s.depth, left_is_transposed, right_is_transposed);
        const auto random = [&](Index rows, Index cols, bool is_transposed, std::uint64_t seed) {
          return normal_tensor<float>(is_transposed ? Shape{rows, cols} : Shape{cols, rows}, seed)
              .copy(*device);
        };
        const Tensor<float> left = random(s.rows, s.depth, left_is_transposed, 1),
                            right = random(s.depth, s.cols, right_is_transposed, 2);
        const auto product = [&](Precision precision) {
          Tensor<float> result = random(s.rows, s.cols, false, 3);
          gemm<float>(1, Operand<float>(columns_of(left), left_is_transposed),
                      Operand<float>(columns_of(right), right_is_transposed), 0.5, columns_of(result),
                      precision);
          return result.copy(Device::cpu());
        };
        // The error of an operand with an 11-bit significand is 2^-12 of it at most; products have two.
        CHECK(relative_error(product(Precision::tf32), product(Precision::fp32)) <= 0x1p-11);
      }
    }
  }
}

}  // namespace orthornn::testing
