#include <initializer_list>

#include "nn/attention_case.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEMPLATE_TEST_CASE("attention on a GPU is that of the CPU", "[cuda][attention]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  struct Sizes {
    Index steps, key_count, size;
    std::vector<std::int32_t> live;
  };
  // Fewer than the 16 keys and rows that are added at once, as many, and parts of several; more entries than
  // a block has threads.
  for (const Sizes& s : {Sizes{1, 1, 1, {1}}, Sizes{3, 5, 7, {0, 1, 5}}, Sizes{32, 32, 32, {32, 31}},
                         Sizes{37, 65, 45, {65, 33, 0, 32}}, Sizes{17, 16, 300, {16, 3}}}) {
    CAPTURE(s.steps, s.key_count, s.size);
    // Scores of a size that does not grow with N, so that their rounding errors do not either.
    const double scale = 1 / std::sqrt(static_cast<double>(s.size));
    AttentionCase<double> expected(s.steps, s.key_count, s.size, s.live, scale);
    AttentionCase<T> found(s.steps, s.key_count, s.size, s.live, static_cast<T>(scale), *device);
    expected.forward();
    expected.backward();
    found.forward();
    found.backward();
    const double bound = tolerance::rounding<T>(s.size + s.key_count);
    const auto agree = [&](const Tensor<T>& there, const Tensor<double>& here) {
      CHECK(relative_error(there.copy(Device::cpu()), here) <= bound);
    };
    agree(found.weights, expected.weights);
    agree(found.contexts, expected.contexts);
    agree(found.d_queries, expected.d_queries);
    agree(found.d_keys, expected.d_keys);
    const Tensor<T> contexts = found.contexts.copy(Device::cpu()), d_keys = found.d_keys.copy(Device::cpu());
    found.forward();
    found.backward();
    CHECK(same_bits(found.contexts.copy(Device::cpu()), contexts));
    CHECK(same_bits(found.d_keys.copy(Device::cpu()), d_keys));
  }
}

TEST_CASE("attention on a GPU does not read padding, and reports wrong lengths", "[cuda][attention]") {
  const auto device = gpu();
  if (!device) return;
  AttentionCase<float> here(3, 40, 4, {0, 1, 33}), c(3, 40, 4, {0, 1, 33}, 1, *device);
  c.forward();
  c.backward();
  const Tensor<float> contexts = c.contexts.copy(Device::cpu()), d_keys = c.d_keys.copy(Device::cpu());
  spoil_padding(here);
  c.keys = here.keys.copy(*device);
  c.forward();
  c.backward();
  CHECK(same_bits(c.contexts.copy(Device::cpu()), contexts));
  CHECK(same_bits(c.d_keys.copy(Device::cpu()), d_keys));
  here.lengths(1) = 41;
  c.lengths = here.lengths.copy(*device);
  c.forward();
  CHECK_THROWS_WITH(synchronize(*device), contains("length of sequence 1"));
}
