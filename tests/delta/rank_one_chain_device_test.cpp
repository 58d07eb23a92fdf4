// Chains of rank-one factors on a GPU against those of the CPU in double.

#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "delta/chain_case.hpp"
#include "delta/device_results.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Factors of a norm of about 2 enlarge some errors a few times beside the largest numbers. Sums over D or M
/// add theirs.
template <class T>
double bound_of(const ChainCase<T>& c) {
  const Shape states = c.initial_states.shape();
  return 2 * tolerance::rounding<T>(c.layout.longest() + std::max(states[2], states[3]));
}

/// The first `count` rows, of a head each, all point in the same direction w, and are reflections I - 2 w w^T
/// but for zero vectors here and there.
template <class T>
void reflect_in_one_direction(ChainCase<T>& c) {
  const Shape left = c.left.shape();
  for (Index i = 0; i < left[0] * left[1]; ++i) {
    T squares = 0;
    for (Index k = 0; k < left[2]; ++k) {
      const T x = i % 7 == 3 ? T{0} : static_cast<T>(std::cos(static_cast<double>(k)));
      c.left.data()[i * left[2] + k] = c.right.data()[i * left[2] + k] = x;
      squares += x * x;
    }
    c.left_scales.data()[i] = squares == 0 ? T{1} : -2 / squares;
    c.right_scales.data()[i] = 1;
  }
}

/// Gradients of states of one sequence and head, as matrices [D, M], transposed.
template <class T>
Tensor<T> transposed_states(const Tensor<T>& states) {
  const Shape shape = states.shape();
  Tensor<T> result({shape[0], shape[1], shape[3], shape[2]});
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        for (Index j = 0; j < shape[3]; ++j) result(b, h, j, i) = states(b, h, i, j);
      }
    }
  }
  return result;
}

const std::vector<Index> long_chain_offsets{0, 11, 11, 12, 70};

}  // namespace

TEMPLATE_TEST_CASE("a chain of rank-one factors on a GPU is that of the CPU", "[delta][cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index length, size, columns, chunk;
  };
  // One number, odd numbers, parts and several of what a block has at a time, each chunk, and one token.
  // Vectors of 1100 numbers leave room for chunks of a few factors.
  const auto [length, size, columns, chunk] =
      GENERATE(Sizes{1, 1, 1, 32}, Sizes{1, 5, 7, 32}, Sizes{40, 1, 2, 32}, Sizes{40, 5, 7, 1},
               Sizes{70, 6, 3, 7}, Sizes{70, 5, 33, 100}, Sizes{40, 70, 33, 16}, Sizes{33, 130, 65, 32},
               Sizes{20, 1100, 3, 32}, Sizes{3, 5, 0, 32}, Sizes{3, 0, 5, 32}, Sizes{0, 5, 7, 32});
  const bool scaled = GENERATE(false, true);
  CAPTURE(length, size, columns, chunk, scaled);
  const TokenLayout layout = TokenLayout::time_major(length, 2);
  ChainCase<TestType> found(layout, 2, size, columns, {.chunk = chunk}, scaled);
  ChainCase<double> expected(layout, 2, size, columns, {.chunk = 32}, scaled);
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEMPLATE_TEST_CASE("a chain on a GPU takes packed sequences, equal vectors and vectors of zeros",
                   "[delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const bool reflections = GENERATE(false, true);
  ChainCase<TestType> found(TokenLayout::packed(long_chain_offsets), 2, 6, 9, {});
  ChainCase<double> expected(TokenLayout::packed(long_chain_offsets), 2, 6, 9, {});
  if (reflections) {
    reflect_in_one_direction(found);
    reflect_in_one_direction(expected);
  }
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEST_CASE("padding of a chain on a GPU is not read, and becomes 0", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Tensor<std::int32_t> lengths(Shape{4});
  lengths(0) = 2;
  lengths(1) = 40;
  lengths(2) = 0;
  lengths(3) = 33;
  const bool time_major = GENERATE(true, false);
  const TokenLayout layout =
      time_major ? TokenLayout::time_major(40, 4, lengths) : TokenLayout::sequence_major(4, 40, lengths);
  ChainCase<double> found(layout, 2, 5, 3, {}), expected(layout, 2, 5, 3, {});
  spoil_padding(layout,
                {&found.left, &found.right, &found.left_scales, &found.right_scales, &found.d_outputs});
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEST_CASE("a chain on a GPU goes on where it was cut, over its own states", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  ChainCase<float> c(TokenLayout::sequence_major(1, 70), 2, 6, 35, {.chunk = 16});
  c.move_to(*device);
  c.evaluate();
  Tensor<float> state = c.initial_states.copy();
  for (auto [first, count] : {std::pair<Index, Index>{0, 32}, {32, 16}, {48, 22}}) {
    const auto part = [&](const Tensor<float>& x) { return x.view().slice(first, count); };
    Tensor<float> outputs({count, 2, 35}, *device), expected({count, 2, 35});
    rank_one_chain<float>({.left = part(c.left),
                           .right = part(c.right),
                           .left_scales = part(c.left_scales),
                           .right_scales = part(c.right_scales),
                           .initial_states = state},
                          TokenLayout::sequence_major(1, count), c.options, outputs, state, *c.saved);
    copy<float>(part(c.outputs), expected);
    // Chunks begin at the same tokens.
    CHECK(same_bits(outputs.copy(Device::cpu()), expected));
  }
  CHECK(same_bits(state.copy(Device::cpu()), c.final_states.copy(Device::cpu())));
}

TEST_CASE("a sequence of a chain has the same bits alone on a GPU and beside others", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  ChainCase<float> all(TokenLayout::packed(long_chain_offsets), 2, 6, 9, {});
  ChainCase<float> one(TokenLayout::sequence_major(1, 58), 2, 6, 9, {});
  const auto last = [](Tensor<float>& x) {
    return x.shape()[0] == 4 ? x.view().slice(3, 1) : x.view().slice(12, 58);
  };
  for (auto [from, to] : {std::pair{&all.left, &one.left},
                          {&all.right, &one.right},
                          {&all.left_scales, &one.left_scales},
                          {&all.right_scales, &one.right_scales},
                          {&all.initial_states, &one.initial_states},
                          {&all.d_outputs, &one.d_outputs},
                          {&all.d_final_states, &one.d_final_states}})
    copy<float>(last(*from), *to);
  check_alone_as_beside_others(all, one, *device, last);
}

TEST_CASE("states of a chain and their gradients may be left out on a GPU, and tensors begin anywhere",
          "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TokenLayout layout = TokenLayout::time_major(40, 2);
  ChainCase<float> c(layout, 2, 8, 4, {});
  std::fill(c.d_final_states.begin(), c.d_final_states.end(), 0.0F);
  c.move_to(*device);
  c.run();
  WithOffset<float> left(c.left), right(c.right), left_scales(c.left_scales), right_scales(c.right_scales),
      states(c.initial_states), outputs(c.outputs), d_outputs(c.d_outputs), d_left(c.left), d_right(c.right),
      d_left_scales(c.left_scales), d_right_scales(c.right_scales);
  const RankOneChainInput<float> input{.left = left.view(),
                                       .right = right.view(),
                                       .left_scales = left_scales.view(),
                                       .right_scales = right_scales.view(),
                                       .initial_states = states.view()};
  rank_one_chain_forward<float>(input, layout, {}, outputs.view(), {}, *c.saved);
  rank_one_chain_backward<float>(input, layout, {},
                                 {.d_outputs = d_outputs.view(),
                                  .d_left = d_left.view(),
                                  .d_right = d_right.view(),
                                  .d_left_scales = d_left_scales.view(),
                                  .d_right_scales = d_right_scales.view()},
                                 *c.saved);
  for (auto [found, expected] : {std::pair{&outputs, &c.outputs},
                                 {&d_left, &c.d_left},
                                 {&d_right, &c.d_right},
                                 {&d_left_scales, &c.d_left_scales},
                                 {&d_right_scales, &c.d_right_scales}}) {
    Tensor<float> here(expected->shape());
    copy<float>(found->view(), here);
    CHECK(same_bits(here, expected->copy(Device::cpu())));
  }
}

TEST_CASE("the mirrored chain on a GPU is the chain with its vectors exchanged", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // r_t = r_{t-1} (I + q k^T), outputs r_{t-1} q, where r are [columns, size].
  const Index length = 40, size = 6, columns = 4;
  ChainCase<double> c(TokenLayout::sequence_major(1, length), 1, size, columns, {});
  Tensor<double> state = transposed_states(c.initial_states), outputs(c.outputs.shape());
  for (Index t = 0; t < length; ++t) {
    for (Index m = 0; m < columns; ++m) {
      for (Index i = 0; i < size; ++i)
        outputs(t, 0, m) += state(0, 0, m, i) * c.left_scales(t, 0) * c.left(t, 0, i);
      for (Index i = 0; i < size; ++i)
        state(0, 0, m, i) += outputs(t, 0, m) * c.right_scales(t, 0) * c.right(t, 0, i);
    }
  }
  std::swap(c.left, c.right);
  std::swap(c.left_scales, c.right_scales);
  c.move_to(*device);
  c.evaluate();
  CHECK(relative_error(c.outputs.copy(Device::cpu()), outputs) <= bound_of(c));
  CHECK(relative_error(transposed_states(c.final_states.copy(Device::cpu())), state) <= bound_of(c));
}

TEMPLATE_TEST_CASE("inverses of chains on a GPU are those of the CPU", "[delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const bool reflections = GENERATE(false, true);
  const bool scaled = GENERATE(false, true);
  if (reflections && !scaled) return;
  const std::vector<Index> places{0, 3, 3, 4, 40};
  const Index size = 6;
  ChainCase<TestType> found(TokenLayout::packed(places), 2, size, size, {}, scaled);
  ChainCase<double> expected(TokenLayout::packed(places), 2, size, size, {}, scaled);
  for (Index i = 0; i < found.left.size(); ++i) {
    // Factors far from a singular one: |q^T k| is a tenth or so.
    found.left.data()[i] *= static_cast<TestType>(0.2);
    expected.left.data()[i] *= 0.2;
  }
  if (reflections) {
    reflect_in_one_direction(found);
    reflect_in_one_direction(expected);
  }
  Tensor<double> inverses(expected.initial_states.shape());
  rank_one_chain_inverse<double>(expected.input(), expected.layout, {}, inverses, *expected.saved);
  found.move_to(*device);
  Tensor<TestType> there(found.initial_states.shape(), *device);
  rank_one_chain_inverse<TestType>(found.input(), found.layout, {}, there, *found.saved);
  CHECK(found.saved->size() == 0);
  CHECK(relative_error(there.copy(Device::cpu()), inverses) <= bound_of(found));
}

TEST_CASE("a factor without an inverse is told when the host waits for a GPU", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  ChainCase<double> c(TokenLayout::packed(long_chain_offsets), 2, 6, 6, {.chunk = 8});
  double squares = 0;
  for (Index i = 0; i < 6; ++i) squares += c.right(11, 1, i) * c.right(11, 1, i);
  for (Index i = 0; i < 6; ++i) c.left(11, 1, i) = c.right(11, 1, i);
  // 1 + q^T k is a rounding error and not 0.
  c.left_scales(11, 1) = -(1 + 3 * tolerance::epsilon<double>) / squares;
  c.right_scales(11, 1) = 1;
  c.move_to(*device);
  Tensor<double> inverses(c.initial_states.shape(), *device);
  rank_one_chain_inverse<double>(c.input(), c.layout, c.options, inverses, *c.saved);
  // Row 11 of 2 heads, head 1.
  CHECK_THROWS_WITH(synchronize(*device), contains("factor 23"));
  CHECK_NOTHROW(synchronize(*device));
}

TEST_CASE("a chain on a GPU can be recorded, and allocates nothing after the first", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
  } else {
    ChainCase<float> c(TokenLayout::time_major(40, 3), 2, 6, 6, {});
    c.move_to(*device);
    Tensor<float> inverses(c.initial_states.shape(), *device);
    const auto run = [&] {
      c.run();
      rank_one_chain_inverse<float>(c.input(), c.layout, c.options, inverses, *c.saved);
    };
    run();
    run();  // memory that was too small is one piece now
    const std::uint64_t before = cuda::memory_changes(*device);
    run();
    CHECK(cuda::memory_changes(*device) == before);
    const std::vector<Tensor<float>> expected = results_on_host(c);
    const Tensor<float> expected_inverses = inverses.copy(Device::cpu());
    cuda::Graph graph;
    graph.record(*device, run);
    for (auto [name, x] : c.results()) copy<float>(normal_tensor<float>(x->shape(), 11), *x);
    graph.launch();
    const std::vector<Tensor<float>> found = results_on_host(c);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    CHECK(same_bits(inverses.copy(Device::cpu()), expected_inverses));
  }
}

TEST_CASE("a chain on a GPU without tokens or sequences leaves states as they are", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Tensor<std::int32_t> lengths(Shape{3});
  for (const TokenLayout& layout : {TokenLayout::time_major(0, 3), TokenLayout::time_major(2, 3, lengths),
                                    TokenLayout::time_major(5, 0)}) {
    ChainCase<double> c(layout, 2, 5, 3, {});
    c.move_to(*device);
    c.run();
    CHECK(c.saved->size() == 0);
    CHECK(same_bits(c.final_states.copy(Device::cpu()), c.initial_states.copy(Device::cpu())));
    CHECK(same_bits(c.d_initial_states.copy(Device::cpu()), c.d_final_states.copy(Device::cpu())));
  }
}

TEST_CASE("rank_one_chain on a GPU refuses what does not fit", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  ChainCase<float> c(TokenLayout::time_major(3, 2), 2, 5, 3, {});
  c.move_to(*device);
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.run(), contains(words)); };
  c.right = c.right.copy(Device::cpu());
  refused("right vectors on cpu, but scratch memory (Saved) on cuda:0");
  CHECK_THROWS_AS(c.run(), DeviceError);
  c.right = c.right.copy(*device);
  c.outputs = c.outputs.copy(Device::cpu());
  refused("outputs on cpu");
  c.outputs = c.outputs.copy(*device);
  c.options.chunk = 0;
  refused("0 factors");
  ChainCase<float> other(TokenLayout::time_major(9, 3), 2, 5, 3, {});
  other.move_to(*device);
  rank_one_chain_forward<float>(other.input(), other.layout, {}, other.outputs, {}, *other.saved);
  c.options.chunk = 32;
  CHECK_THROWS_WITH(
      rank_one_chain_backward<float>(c.input(), c.layout, c.options, c.gradients(), *other.saved),
      contains("the forward kept"));
  ChainCase<float> wide(TokenLayout::time_major(1, 1), 1, 100'000, 1, {});
  wide.move_to(*device);
  CHECK_THROWS_AS(wide.run(), ValueError);
  CHECK(wide.saved->size() == 0);
}
