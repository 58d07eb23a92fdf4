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

TEST_CASE("gradients of a map of many vectors to few numbers on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  // Outputs that fill what a kernel has room for and that do not; inputs in pairs and one by one, and more
  // than a block has threads for; vectors that fill the blocks and that do not.
  for (const AffineMapSizes& s :
       {AffineMapSizes{1, 32, 128, 16}, AffineMapSizes{3, 33, 2, 1025}, AffineMapSizes{10, 64, 128, 17},
        AffineMapSizes{16, 130, 41, 50}, AffineMapSizes{4, 600, 128, 16}, AffineMapSizes{12, 301, 3, 701}}) {
    const Tensor<float> weights = normal_tensor<float>({s.n, s.k}, 1),
                        x = normal_tensor<float>({s.t, s.b, s.k}, 2),
                        g = normal_tensor<float>({s.t, s.b, s.n}, 3);
    struct Found {
      Tensor<float> weights, bias, x = {}, x_twice = {};
    };
    const auto gradients_on = [&](Device where) {
      const AffineMap<float> map(s.k, s.n, where);
      const Tensor<float> w = weights.copy(where), vectors = x.copy(where), d_y = g.copy(where);
      Tensor<float> d_w(w.shape(), where), d_bias(Shape{s.n}, where), d_x(vectors.shape(), where);
      Saved scratch(where);
      const SequenceInput<float> input{.vectors = vectors};
      // Without a gradient of the input, then written, then added.
      map.backward(input, w, d_y, {.weights = d_w, .bias = d_bias}, scratch);
      Found found{.weights = d_w.copy(Device::cpu()), .bias = d_bias.copy(Device::cpu())};
      map.backward(input, w, d_y, {.weights = d_w, .bias = d_bias, .input = d_x}, scratch);
      CHECK(same_bits(d_w.copy(Device::cpu()), found.weights));
      found.x = d_x.copy(Device::cpu());
      map.backward(input, w, d_y, {.weights = d_w, .input = d_x, .mode = Gradients::add}, scratch);
      CHECK(same_bits(d_w.copy(Device::cpu()), found.weights));
      found.x_twice = d_x.copy(Device::cpu());
      return found;
    };
    CAPTURE(s.n, s.k, s.b, s.t);
    const Found expected = gradients_on(Device::cpu()), found = gradients_on(*device);
    const double bound = 2 * tolerance::rounding<float>(s.t * s.b);  // both round
    CHECK(relative_error(found.weights, expected.weights) <= bound);
    CHECK(relative_error(found.bias, expected.bias) <= bound);
    CHECK(relative_error(found.x, expected.x) <= 2 * tolerance::rounding<float>(s.n));
    CHECK(relative_error(found.x_twice, expected.x_twice) <= 2 * tolerance::rounding<float>(s.n + 1));
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
