// The recurrent delta product on a GPU against that of the CPU in double.

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <vector>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "delta/delta_case.hpp"
#include "delta/device_results.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/lengths.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

template <class T>
DeltaCase<T> make_case(const TokenLayout& layout, const DeltaCaseSizes& sizes, Decay decay = Decay::none,
                       bool removals = false, bool unit_keys = false) {
  return {
      layout, sizes, {.form = DeltaForm::recurrent, .scale = 0.7, .unit_keys = unit_keys}, decay, removals};
}

/// Factors without removals have a norm of at most 1 and enlarge no error, so those of all factors add
/// up, and with them those of sums over K or V numbers. Factors with removals enlarge errors by less than the
/// room that this leaves.
template <class T>
double bound_of(const DeltaCase<T>& c) {
  const Shape keys = c.keys.shape();
  return tolerance::rounding<T>(c.layout.longest() * keys[1] + std::max(keys[3], c.values.shape()[3]));
}

/// Runs `found` on the device and `expected` on the CPU, and compares all results. Twice, for the same bits.
template <class T>
void check_like_cpu(DeltaCase<T>& found, DeltaCase<double>& expected, Device device) {
  expected.run();
  found.move_to(device);
  found.run();
  CHECK(found.saved->size() == 0);
  const std::vector<Tensor<T>> first = results_on_host(found);
  found.run();
  const std::vector<Tensor<T>> second = results_on_host(found);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto [name, here] = expected.results()[i];
    INFO(name);
    CHECK(relative_error(first[i], *here) <= bound_of(found));
    CHECK(same_bits(first[i], second[i]));
  }
  // The same without what a backward reads, over the initial states.
  const Tensor<T> others = normal_tensor<T>(found.outputs.shape(), 10).copy(device);
  copy<T>(others, found.outputs);
  delta_product<T>(found.input(), found.layout, found.options, found.outputs, found.initial_states,
                   *found.saved);
  CHECK(same_bits(found.outputs.copy(Device::cpu()), first[0]));
  CHECK(same_bits(found.initial_states.copy(Device::cpu()), first[1]));
}

}  // namespace

TEMPLATE_TEST_CASE("a delta product on a GPU is that of the CPU", "[delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index length, factors, key, value;
  };
  // Keys and values of one number, several segments, more factors than a block has in shared memory at a
  // time, and few tokens.
  const auto [length, factors, key, value] =
      GENERATE(Sizes{9, 1, 1, 1}, Sizes{20, 2, 5, 7}, Sizes{60, 1, 3, 2}, Sizes{3, 20, 5, 3},
               Sizes{0, 1, 5, 7}, Sizes{1, 1, 5, 7}, Sizes{40, 2, 12, 16}, Sizes{40, 1, 16, 9});
  const Decay decay = GENERATE(Decay::none, Decay::of_heads);
  CAPTURE(length, factors, key, value);
  const TokenLayout layout = TokenLayout::time_major(length, 2);
  const DeltaCaseSizes sizes{.factors = factors, .heads = 2, .key = key, .value = value};
  auto found = make_case<TestType>(layout, sizes, decay);
  auto expected = make_case<double>(layout, sizes, decay);
  check_like_cpu(found, expected, *device);
}

TEMPLATE_TEST_CASE("small states of packed sequences on a GPU are those of the CPU", "[delta][cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  // A warp has states of sequences that end at different steps.
  const std::vector<Index> offsets{0, 0, 70, 75, 75, 108};
  const auto [factors, heads, key, value] =
      GENERATE(DeltaCaseSizes{3, 3, 6, 8}, DeltaCaseSizes{2, 1, 12, 16}, DeltaCaseSizes{1, 1, 8, 3});
  CAPTURE(factors, heads, key, value);
  const DeltaCaseSizes sizes{factors, heads, key, value};
  auto found = make_case<TestType>(TokenLayout::packed(offsets), sizes);
  auto expected = make_case<double>(TokenLayout::packed(offsets), sizes);
  check_like_cpu(found, expected, *device);
}

TEST_CASE("a small state is as it was where its sequence has no tokens", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // A longer sequence is in the same warp. Neither 0 nor infinity keeps its bits under an update by 0.
  auto found = make_case<float>(TokenLayout::packed(std::vector<Index>{0, 0, 5}), {.heads = 1});
  const auto fill = [](Tensor<float>& states) {
    const TensorView<float> first = states.view()[0];
    std::fill(first.begin(), first.end(), -0.0F);
    *first.begin() = std::numeric_limits<float>::infinity();
  };
  fill(found.initial_states);
  fill(found.d_final_states);
  const Tensor<float> initial = found.initial_states.copy(Device::cpu()),
                      d_final = found.d_final_states.copy(Device::cpu());
  found.move_to(*device);
  found.run();
  const auto check_first = [](const Tensor<float>& got, const Tensor<float>& given) {
    Tensor<float> a(given.view()[0].shape()), b(a.shape());
    copy<float>(got.view()[0], a);
    copy<float>(given.view()[0], b);
    CHECK(same_bits(a, b));
  };
  check_first(found.final_states.copy(Device::cpu()), initial);
  check_first(found.d_initial_states.copy(Device::cpu()), d_final);
}

TEST_CASE("gradients of early tokens do not lose to large states of later ones", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TokenLayout layout = TokenLayout::time_major(32, 1);
  const DeltaCaseSizes sizes{.factors = 1, .heads = 1, .key = 5, .value = 8};
  auto found = make_case<float>(layout, sizes);
  auto expected = make_case<double>(layout, sizes);
  const auto enlarge = [](auto& values) {
    for (auto& x : values.view()[30]) x *= 1e6F;
  };
  enlarge(found.values);
  enlarge(expected.values);
  expected.run();
  found.move_to(*device);
  found.run();
  // A state that was found by taking the later updates from a later state was wrong by 4e-3 here.
  const Tensor<float> d_queries = found.d_queries.copy(Device::cpu());
  Tensor<float> early({8, 1, 5});
  Tensor<double> early_expected({8, 1, 5});
  copy<float>(d_queries.view().slice(0, 8), early);
  copy<double>(expected.d_queries.view().slice(0, 8), early_expected);
  CHECK(relative_error(early, early_expected) <= bound_of(found));
}

TEMPLATE_TEST_CASE("a delta product on a GPU is that of the CPU for long keys and values", "[delta][cuda]",
                   float, double) {
  const auto device = gpu();
  if (!device) return;
  // Parts, one and several of what a block has in registers, of each layout of a state.
  const auto [factors, key, value] = GENERATE(table<Index, Index, Index>(
      {{4, 64, 64}, {1, 64, 200}, {3, 100, 7}, {1, 256, 200}, {2, 300, 9}, {1, 1024, 3}}));
  CAPTURE(factors, key, value);
  const TokenLayout layout = TokenLayout::time_major(2, 1);
  const DeltaCaseSizes sizes{.factors = factors, .heads = 1, .key = key, .value = value};
  auto found = make_case<TestType>(layout, sizes, Decay::of_heads);
  auto expected = make_case<double>(layout, sizes, Decay::of_heads);
  check_like_cpu(found, expected, *device);
}

TEMPLATE_TEST_CASE("decays of rows, removals and unit keys on a GPU are those of the CPU", "[delta][cuda]",
                   float, double) {
  const auto device = gpu();
  if (!device) return;
  const auto check = [&](Index length, const DeltaCaseSizes& sizes, Decay decay, bool removals,
                         bool unit_keys) {
    CAPTURE(length, sizes.factors, sizes.key, sizes.value, removals, unit_keys);
    const std::vector<Index> offsets{0, length, length, length + 1};
    auto found = make_case<TestType>(TokenLayout::packed(offsets), sizes, decay, removals, unit_keys);
    auto expected = make_case<double>(TokenLayout::packed(offsets), sizes, decay, removals, unit_keys);
    check_like_cpu(found, expected, *device);
  };
  for (const Decay decay : {Decay::none, Decay::of_heads, Decay::of_rows}) {
    for (const bool removals : {false, true}) {
      for (const bool unit_keys : {false, true})
        check(5, {.factors = 2, .heads = 2, .key = 5, .value = 7}, decay, removals, unit_keys);
    }
  }
  check(2, {.factors = 20, .heads = 1, .key = 3, .value = 4}, Decay::of_rows, true, true);
  check(3, {.factors = 2, .heads = 1, .key = 70, .value = 5}, Decay::of_rows, true, true);
  check(2, {.factors = 1, .heads = 1, .key = 200, .value = 20}, Decay::of_rows, true, true);
}

TEMPLATE_TEST_CASE("keys, step sizes and decays at the border of their domain are the same on a GPU",
                   "[delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  const bool unit_keys = GENERATE(false, true);
  const DeltaCaseSizes sizes{.factors = 2, .heads = 2, .key = 6, .value = 3};
  const auto fill = [&](auto& c) {
    using Number = std::remove_reference_t<decltype(*c.keys.data())>;
    for (Index t = 0; t < 20; ++t) {
      for (Index h = 0; h < 2; ++h) {
        c.log_decays(t, h) =
            t % 6 == 4 ? -std::numeric_limits<Number>::infinity() : static_cast<Number>(-(t % 2));
        for (Index j = 0; j < 2; ++j) {
          c.betas(t, j, h) = static_cast<Number>((t + j) % 3);
          for (Index i = 0; i < 6; ++i)
            c.keys(t, j, h, i) = static_cast<Number>(t % 7 != 3 && i == t / 3 % 2);
        }
      }
    }
    // Their squares are no floats.
    for (Index i = 0; i < 6 && unit_keys; ++i) {
      c.keys(5, 0, 0, i) *= static_cast<Number>(1e30);
      c.keys(8, 0, 0, i) *= static_cast<Number>(1e-30);
    }
  };
  const TokenLayout layout = TokenLayout::sequence_major(1, 20);
  auto found = make_case<T>(layout, sizes, Decay::of_heads, false, unit_keys);
  auto expected = make_case<double>(layout, sizes, Decay::of_heads, false, unit_keys);
  fill(found);
  fill(expected);
  check_like_cpu(found, expected, *device);
}

TEST_CASE("padding of a delta product on a GPU is not read, and becomes 0", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto lengths = lengths_of({2, 4, 0, 1});
  const bool time_major = GENERATE(true, false);
  const TokenLayout layout =
      time_major ? TokenLayout::time_major(5, 4, lengths) : TokenLayout::sequence_major(4, 5, lengths);
  auto c = make_case<float>(layout, {}, Decay::of_rows, true);
  spoil_padding(layout, {&c.queries, &c.keys, &c.values, &c.betas, &c.log_decays, &c.removals, &c.d_outputs});
  for (auto [name, x] : c.results()) fill_with_nan(x->view());
  auto expected = make_case<double>(layout, {}, Decay::of_rows, true);
  check_like_cpu(c, expected, *device);
}

TEST_CASE("a sequence has the same bits alone on a GPU and beside others", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // As many sequences as it takes for two columns a lane: 32 values and keys of at most 64 are 64 lanes then.
  const Index count = properties_of(*device).multiprocessors * 2 + 1, length = 3, last = count - 1;
  const DeltaCaseSizes sizes{.factors = 2, .heads = 1, .key = 20, .value = 32};
  auto all = make_case<float>(TokenLayout::sequence_major(count, length), sizes, Decay::of_heads);
  auto one = make_case<float>(TokenLayout::time_major(length, 1), sizes, Decay::of_heads);
  const auto rows = [&](Tensor<float>& x) {
    return x.shape()[0] == count ? x.view().slice(last, 1) : x.view().slice(last * length, length);
  };
  for (auto [from, to] : {std::pair{&all.queries, &one.queries},
                          {&all.keys, &one.keys},
                          {&all.values, &one.values},
                          {&all.betas, &one.betas},
                          {&all.log_decays, &one.log_decays},
                          {&all.initial_states, &one.initial_states},
                          {&all.d_outputs, &one.d_outputs},
                          {&all.d_final_states, &one.d_final_states}})
    copy<float>(rows(*from), *to);
  check_alone_as_beside_others(all, one, *device, rows);
}

TEST_CASE("states and their gradients may be left out on a GPU", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TokenLayout layout = TokenLayout::time_major(9, 2);
  auto zeros = make_case<double>(layout, {}, Decay::of_heads),
       none = make_case<double>(layout, {}, Decay::of_heads);
  std::fill(zeros.initial_states.begin(), zeros.initial_states.end(), 0.0);
  std::fill(zeros.d_final_states.begin(), zeros.d_final_states.end(), 0.0);
  zeros.move_to(*device);
  none.move_to(*device);
  zeros.run();
  DeltaProductInput<double> input = none.input();
  input.initial_states = {};
  DeltaProductGradients<double> gradients = none.gradients();
  gradients.d_final_states = {};
  gradients.d_initial_states = {};
  delta_product_forward<double>(input, layout, none.options, none.outputs, {}, *none.saved);
  delta_product_backward<double>(input, layout, none.options, gradients, *none.saved);
  CHECK(same_bits(none.outputs.copy(Device::cpu()), zeros.outputs.copy(Device::cpu())));
  CHECK(same_bits(none.d_keys.copy(Device::cpu()), zeros.d_keys.copy(Device::cpu())));
  CHECK(same_bits(none.d_log_decays.copy(Device::cpu()), zeros.d_log_decays.copy(Device::cpu())));
}

TEST_CASE("one token continues a sequence on a GPU, as generation does", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  auto c = make_case<float>(TokenLayout::time_major(6, 3), {.factors = 2}, Decay::of_heads);
  c.move_to(*device);
  c.evaluate();
  Tensor<float> state = c.initial_states.copy(), output(Shape{3, 2, 7}, *device);
  const TokenLayout one_token = TokenLayout::time_major(1, 3);
  for (Index t = 0; t < 6; ++t) {
    const auto at = [&](const Tensor<float>& x) { return x.view().slice(3 * t, 3); };
    delta_product<float>({.queries = at(c.queries),
                          .keys = at(c.keys),
                          .values = at(c.values),
                          .betas = at(c.betas),
                          .log_decays = at(c.log_decays),
                          .initial_states = state},
                         one_token, c.options, output, state, *c.saved);
    Tensor<float> expected(output.shape());
    copy<float>(at(c.outputs), expected);
    CHECK(same_bits(output.copy(Device::cpu()), expected));
  }
  CHECK(same_bits(state.copy(Device::cpu()), c.final_states.copy(Device::cpu())));
}

TEST_CASE("a delta product on a GPU can be recorded, and allocates nothing after the first",
          "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
  } else {
    auto c = make_case<float>(TokenLayout::time_major(12, 3), {}, Decay::of_heads);
    c.move_to(*device);
    c.run();
    const std::uint64_t before = cuda::memory_changes(*device);
    c.run();
    CHECK(cuda::memory_changes(*device) == before);
    const std::vector<Tensor<float>> expected = results_on_host(c);
    cuda::Graph graph;
    graph.record(*device, [&] { c.run(); });
    for (auto [name, x] : c.results()) copy<float>(normal_tensor<float>(x->shape(), 11), *x);
    graph.launch();
    const std::vector<Tensor<float>> found = results_on_host(c);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    // A layout that is not regular and has not been there takes memory, which a recording forbids.
    c.layout = TokenLayout::time_major(12, 3);
    CHECK_NOTHROW(graph.record(*device, [&] { c.run(); }));
    c.layout = TokenLayout::packed(std::vector<Index>{0, 12, 20, 36});
    CHECK_THROWS_AS(graph.record(*device, [&] { c.run(); }), DeviceError);
    c.run();
  }
}

TEST_CASE("the table of a layout has its sequences, once a device", "[delta][cuda]") {
  const std::vector<Index> offsets{0, 5, 5, 7};
  const TokenLayout layout = TokenLayout::packed(offsets), same = layout;
  std::vector<Device> devices{Device::cpu()};
  if (const auto device = gpu()) devices.push_back(*device);
  for (const Device device : devices) {
    const TensorView<const Index> table = layout.on(device);
    CHECK(table.device() == device);
    CHECK(same.on(device).data() == table.data());
    Tensor<Index> found(Shape{3, 4});
    copy<Index>(table, found);
    const std::vector<Index> expected{0, 1, 5, 0, 5, 1, 0, 5, 5, 1, 2, 5};
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
  CHECK(TokenLayout::time_major(3, 0).on(Device::cpu()).size() == 0);
}

TEST_CASE("delta_product on a GPU refuses what does not fit", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  auto c = make_case<float>(TokenLayout::time_major(3, 2), {});
  c.move_to(*device);
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.forward(), contains(words)); };
  c.betas = c.betas.copy(Device::cpu());
  refused("betas on cpu, but scratch memory (Saved) on cuda:0");
  CHECK_THROWS_AS(c.forward(), DeviceError);
  c.betas = c.betas.copy(*device);
  c.saved = std::make_unique<Saved>(Device::cpu());
  refused("queries on cuda:0, but scratch memory (Saved) on cpu");
  c.saved = std::make_unique<Saved>(*device);
  c.outputs = c.outputs.copy(Device::cpu());
  refused("outputs on cpu");
  c.outputs = c.outputs.copy(*device);
  c.forward();
  c.d_keys = c.d_keys.copy(Device::cpu());
  CHECK_THROWS_WITH(c.backward(), contains("d_keys on cpu"));
  if (!has_chunked_form(*device)) {
    c.options.form = DeltaForm::chunked;
    refused("ask for the recurrent form");
  }
  auto other = make_case<float>(TokenLayout::time_major(9, 3), {});
  other.move_to(*device);
  CHECK_THROWS_WITH(
      delta_product_backward<float>(other.input(), other.layout, other.options, other.gradients(), *c.saved),
      contains("the forward kept"));
  auto wide =
      make_case<float>(TokenLayout::time_major(1, 1), {.factors = 1, .heads = 1, .key = 1025, .value = 1});
  wide.move_to(*device);
  CHECK_THROWS_AS(wide.forward(), ValueError);
  CHECK(wide.saved->size() == 0);
}

TEST_CASE("no tokens and no sequences are no error on a GPU", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto lengths = lengths_of({0, 0, 0});
  for (const TokenLayout& layout : {TokenLayout::time_major(0, 3), TokenLayout::time_major(2, 3, lengths)}) {
    auto c = make_case<double>(layout, {}, Decay::of_heads);
    c.move_to(*device);
    c.run();
    CHECK(same_bits(c.final_states.copy(Device::cpu()), c.initial_states.copy(Device::cpu())));
    CHECK(same_bits(c.d_initial_states.copy(Device::cpu()), c.d_final_states.copy(Device::cpu())));
  }
  auto no_sequences = make_case<double>(TokenLayout::time_major(5, 0), {});
  no_sequences.move_to(*device);
  no_sequences.run();
  CHECK(no_sequences.saved->size() == 0);
}
