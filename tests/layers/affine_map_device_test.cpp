#include <initializer_list>

#include "layers/affine_map.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

struct AffineMapSizes {
  Index n, k, b, t;
};
// More symbols than a block sums at once (40), more columns than one block takes (33 * 128), few outputs of
// many inputs (9 of 190).
const AffineMapSizes affine_map_sizes[] = {{1, 1, 1, 1},     {7, 9, 3, 2},   {190, 9, 3, 33},
                                           {7, 1, 128, 33},  {65, 40, 5, 7}, {190, 3, 128, 2},
                                           {9, 190, 128, 33}};

Tensor<std::int32_t> random_symbols(const Shape& shape, Index count) {
  Tensor<std::int32_t> symbols(shape);
  RandomStream random(5, RandomPurpose::validation);
  for (std::int32_t& s : symbols) {
    s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(count)));
  }
  return symbols;
}

/// Everything that goes into an affine map and comes out, on one device.
template <class T>
struct AffineMapRun {
  Tensor<T> weights, bias, x, g, h;
  Tensor<std::int32_t> symbols;
  Tensor<T> a, without_bias, d_weights, d_bias, d_modrelu;
  Tensor<T> d_x;  ///< its gradient twice: once written, once added

  AffineMapRun(const AffineMapSizes& s, bool use_symbols, Device device)
      : weights(normal_tensor<T>({s.n, s.k}, 1).copy(device)),
        bias(normal_tensor<T>({s.n}, 2).copy(device)),
        g(normal_tensor<T>({s.t, s.b, s.n}, 4).copy(device)),
        h(normal_tensor<T>({s.t, s.b, s.n}, 5).copy(device)),
        a(Shape{s.t, s.b, s.n}, device),
        d_weights(Shape{s.n, s.k}, device),
        d_bias(Shape{s.n}, device),
        d_modrelu(Shape{s.n}, device) {
    if (use_symbols) {
      symbols = random_symbols({s.t, s.b}, s.k).copy(device);
    } else {
      x = normal_tensor<T>({s.t, s.b, s.k}, 3).copy(device);
      without_bias = Tensor<T>(a.shape(), device);
      d_x = Tensor<T>(Shape{s.t, s.b, s.k}, device);
    }
    const AffineMap<T> map(s.k, s.n, device);
    Saved scratch(device);
    SequenceInput<T> input;
    if (use_symbols) {
      input.symbols = symbols;
    } else {
      input.vectors = x;
    }
    map.forward(input, weights, bias, a, scratch);
    map.backward(input, weights, g,
                 {.weights = d_weights, .bias = d_bias, .signed_bias = d_modrelu, .states = h, .input = d_x},
                 scratch);
    if (use_symbols) return;
    map.forward(input, weights, {}, without_bias, scratch);
    map.backward(input, weights, g, {.weights = d_weights, .input = d_x, .mode = Gradients::add}, scratch);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("an affine map on a GPU is that of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const AffineMapSizes& s : affine_map_sizes) {
    for (const bool use_symbols : {false, true}) {
      const AffineMapRun<double> expected(s, use_symbols, Device::cpu());
      const AffineMapRun<T> found(s, use_symbols, *device);
      CAPTURE(s.n, s.k, s.b, s.t, use_symbols);
      const auto error = [](const Tensor<T>& f, const Tensor<double>& e) {
        return relative_error(f.copy(Device::cpu()), e);
      };
      CHECK(error(found.a, expected.a) <= tolerance::rounding<T>(s.k));
      // Sums over all columns.
      const double bound = tolerance::rounding<T>(s.t * s.b);
      CHECK(error(found.d_weights, expected.d_weights) <= bound);
      CHECK(error(found.d_bias, expected.d_bias) <= bound);
      CHECK(error(found.d_modrelu, expected.d_modrelu) <= bound);
      if (!use_symbols) {
        CHECK(error(found.without_bias, expected.without_bias) <= tolerance::rounding<T>(s.k));
        CHECK(error(found.d_x, expected.d_x) <= tolerance::rounding<T>(s.n));
      }
      const AffineMapRun<T> again(s, use_symbols, *device);
      CHECK(same_bits(again.d_weights.copy(Device::cpu()), found.d_weights.copy(Device::cpu())));
      CHECK(same_bits(again.d_bias.copy(Device::cpu()), found.d_bias.copy(Device::cpu())));
    }
  }
}

TEST_CASE("a symbol that is none is a fault, named by its place", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const std::int32_t wrong : {-1, 9}) {
    Tensor<std::int32_t> symbols = random_symbols({2, 3}, 9);
    symbols(1, 1) = wrong;
    const Tensor<std::int32_t> on_gpu = symbols.copy(*device);
    const Tensor<float> weights = normal_tensor<float>({4, 9}, 1).copy(*device);
    const Tensor<float> bias = normal_tensor<float>({4}, 2).copy(*device);
    Tensor<float> a(Shape{2, 3, 4}, *device);
    Saved scratch(*device);
    AffineMap<float>(9, 4, *device).forward({.symbols = on_gpu}, weights, bias, a, scratch);
    CHECK_THROWS_WITH(synchronize(*device), contains("symbol at position 4"));
  }
}
