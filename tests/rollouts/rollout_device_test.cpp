// Every way through time on a GPU against the recurrence written as a loop in double. Where the precision
// rounds the operands of the product, so does the loop: what is left to differ is the rounding of sums, in
// every precision. And that rounded operands keep the norms that an orthogonal Q keeps.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "rollouts/rounded_recurrence.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// A rollout whose states [T + 1, B, N] hold h_0 and a_t, then h_0 and h_t.
RolloutStates<float> in_place(TensorView<float> states, TensorView<float> h_last) {
  const TensorView<float> steps = states.slice(1, states.shape()[0] - 1);
  return {.h_0 = states[0], .inputs = steps, .outputs = steps, .h_last = h_last};
}

/// The way back, whose gradients take the place of those that arrive.
RolloutGradients<float> in_place(ConstTensorView<float> states, ConstTensorView<float> d_h_last,
                                 TensorView<float> d_states, TensorView<float> d_h0) {
  return {.outputs = states.slice(1, d_states.shape()[0]),
          .d_outputs = d_states,
          .d_h_last = d_h_last,
          .d_inputs = d_states,
          .d_h_0 = d_h0};
}

/// What the device makes of them. Without `d_outputs` nothing arrives at the states but at the last ones.
Numbers<float> found_on(const Execution& execution, const Numbers<float>& given, Activation activation,
                        bool has_d_outputs = true) {
  const Device device = execution.device;
  const Tensor<float> q = given.q.copy(device), modrelu_bias = given.modrelu_bias.copy(device);
  const Tensor<float> d_h_last = given.d_h_last.copy(device);
  const Tensor<std::int32_t> lengths = given.lengths.copy(device);
  Tensor<float> states = given.states.copy(device), d_states = given.d_states.copy(device);
  Tensor<float> h_last(given.h_last.shape(), device), d_h0(given.d_h0.shape(), device);
  const auto transition = make_transition<float>(Unconstrained{}, given.q.shape()[0], execution);
  transition->prepare(q);
  RolloutCache<float> cache;
  rollout_forward<float>(*transition, activation, modrelu_bias, lengths, in_place(states, h_last), cache);
  RolloutGradients<float> gradients = in_place(states, d_h_last, d_states, d_h0);
  if (!has_d_outputs) gradients.d_outputs = {};
  rollout_backward<float>(*transition, activation, lengths, gradients, cache);
  Numbers<float> result;
  result.states = states.copy(Device::cpu());
  result.d_states = d_states.copy(Device::cpu());
  result.h_last = h_last.copy(Device::cpu());
  result.d_h0 = d_h0.copy(Device::cpu());
  if (activation == Activation::abs) result.signs = cache.signs.copy(Device::cpu());
  return result;
}

void check_rollout(const Execution& execution, const RolloutSizes& sizes, Activation activation,
                   bool with_lengths, bool with_d_h_last) {
  Numbers<float> given = random_numbers(sizes, with_lengths, 17 + static_cast<std::uint64_t>(sizes.n));
  if (!with_d_h_last) given.d_h_last = Tensor<float>();
  const Numbers<float> found = found_on(execution, given, activation);
  INFO(name_of(execution.rollout) << " " << name_of(execution.precision) << " " << name_of(activation)
                                  << " N " << sizes.n << " B " << sizes.batch << " T " << sizes.length
                                  << " lengths " << with_lengths);
  const Operands operands = operands_of(execution, sizes.n);
  check_numbers(found, expected_numbers(given, found, activation, operands), sizes, activation, operands);
}

/// A linear recurrence from random states without input, and a gradient of the last states alone. Q is CWY's.
Numbers<float> linear_numbers(const RolloutSizes& sizes, Init init) {
  const auto [n, batch, length] = sizes;
  Numbers<float> x = random_numbers(sizes, false, 31);
  const auto transition = make_transition<float>(Cwy{.reflections = n, .init = init}, n);
  Tensor<float> reflections(transition->parameter_shape());
  transition->initialize(32, reflections);
  transition->prepare(reflections);
  x.q = transition->materialize();
  std::fill(x.states.begin() + batch * n, x.states.end(), 0.0f);
  std::fill(x.d_states.begin(), x.d_states.end(), 0.0f);
  return x;
}

/// Q is orthogonal, and T steps of it keep the norm of every state and gradient.
void check_norms_are_kept(const Execution& execution, const RolloutSizes& sizes,
                          const Numbers<float>& given) {
  const Numbers<float> found = found_on(execution, given, Activation::identity);
  double forward = 0, backward = 0;
  for (Index b = 0; b < sizes.batch; ++b) {
    const double first = frobenius_norm(given.states.view()[0][b]);
    for (Index t = 1; t <= sizes.length; ++t)
      forward = std::max(forward, std::abs(frobenius_norm(found.states.view()[t][b]) / first - 1));
    const double last = frobenius_norm(given.d_h_last.view()[b]);
    backward = std::max(backward, std::abs(frobenius_norm(found.d_h0.view()[b]) / last - 1));
  }
  INFO(name_of(execution.precision) << " N " << sizes.n << " T " << sizes.length);
  const bool rounded_states = operands_of(execution, sizes.n).state.terms == 1;
  const double change = tolerance::kept_norm(sizes.length) +
                        (rounded_states ? tolerance::norm_of_rounded_states(sizes.length, sizes.n) : 0);
  CHECK(forward < change);
  CHECK(backward < change);
}

/// How many clusters of a size run at a time, where an H200 with its 132 multiprocessors runs so many. The
/// emulated device has fewer, and smaller batches fill it.
Index at_a_time(Device device, Index on_h200) {
  return on_h200 * properties_of(device).multiprocessors / 132;
}

/// More sequences than go one a cluster. An H200 carries at most 66 so: registers have room for four blocks
/// of eight a multiprocessor.
constexpr Index many = 80;

/// Each activation once, with and without lengths and a gradient of the last state.
void check_all(const Execution& execution, const RolloutSizes& sizes) {
  check_rollout(execution, sizes, Activation::tanh, false, true);
  check_rollout(execution, sizes, Activation::relu, true, true);
  check_rollout(execution, sizes, Activation::abs, true, false);
  check_rollout(execution, sizes, Activation::modrelu, false, false);
  check_rollout(execution, sizes, Activation::identity, true, true);
}

}  // namespace

TEST_CASE("a rollout in one multiprocessor is the recurrence", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const Execution execution{*device, Precision::fp32, RolloutWay::resident};
  for (const RolloutSizes& sizes :
       {RolloutSizes{1, 1, 1}, RolloutSizes{7, 3, 2}, RolloutSizes{33, 3, 9}, RolloutSizes{64, 2, 5},
        RolloutSizes{100, 1, 6}, RolloutSizes{129, 2, 5}, RolloutSizes{161, 2, 3}, RolloutSizes{190, 3, 6},
        RolloutSizes{192, 1, 3}}) {
    check_all(execution, sizes);
  }
  // More sequences than multiprocessors: two at a time, and above N = 128 up to six.
  const Index multiprocessors = properties_of(*device).multiprocessors;
  check_rollout(execution, {7, 3 * multiprocessors / 2, 3}, Activation::modrelu, true, true);
  for (const Index sequences : {1, 2, 3, 5, 6}) {
    check_rollout(execution, {150, sequences * multiprocessors + 1, 2}, Activation::relu, true, true);
    check_rollout(execution, {190, sequences * multiprocessors + 3, 2}, Activation::tanh, false, true);
  }
}

TEST_CASE("a rollout over a cluster is the recurrence", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const Execution execution{*device, Precision::fp32, RolloutWay::cluster};
  for (const RolloutSizes& sizes :
       {RolloutSizes{1, 1, 1}, RolloutSizes{7, 3, 2}, RolloutSizes{193, 3, 5}, RolloutSizes{256, 1, 4},
        RolloutSizes{257, 2, 3}, RolloutSizes{321, 2, 3}, RolloutSizes{384, 1, 3}, RolloutSizes{385, 3, 2},
        RolloutSizes{449, 1, 2}, RolloutSizes{500, 2, 3}}) {
    check_all(execution, sizes);
  }
  // Above 512 one sequence a cluster of 16 blocks, and more over fewer blocks. The emulated device takes
  // seconds for each.
  if (is_emulated(*device)) {
    check_rollout(execution, {577, 3, 3}, Activation::modrelu, true, true);
  } else {
    for (const RolloutSizes& sizes :
         {RolloutSizes{513, 1, 3}, RolloutSizes{640, 3, 9}, RolloutSizes{641, 2, 3}, RolloutSizes{896, 5, 3},
          RolloutSizes{1000, 4, 5}, RolloutSizes{513, 20, 3}, RolloutSizes{600, 70, 2},
          RolloutSizes{768, 45, 3}, RolloutSizes{1024, 300, 2}})
      check_all(execution, sizes);
    check_all({*device, Precision::tf32, RolloutWay::cluster}, {600, 40, 3});
  }
  // Every number of sequences a cluster that there is, and several turns. At 260 and 300 units some batches
  // go over five blocks, and others over three and four.
  const Index twos = at_a_time(*device, 66), threes = at_a_time(*device, 39), fours = at_a_time(*device, 30),
              fives = at_a_time(*device, 22), eights = at_a_time(*device, 15);
  // The emulated device takes minutes for all of them.
  const std::vector<Index> counts = is_emulated(*device)
                                        ? std::vector<Index>{9}
                                        : std::vector<Index>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 17};
  for (const Index sequences : counts) {
    check_rollout(execution, {33, sequences * twos, 3}, Activation::modrelu, true, true);
    check_rollout(execution, {260, sequences * threes, 2}, Activation::tanh, true, true);
    check_rollout(execution, {300, sequences * fours, 2}, Activation::tanh, true, true);
    check_rollout(execution, {300, sequences * fives, 2}, Activation::tanh, false, true);
    check_rollout(execution, {330, sequences * fours, 2}, Activation::tanh, true, true);
    check_rollout(execution, {390, sequences * eights, 2}, Activation::relu, true, true);
    check_rollout(execution, {450, sequences * eights, 2}, Activation::relu, true, true);
  }
}

TEST_CASE("a rollout on tensor cores is the recurrence of rounded operands", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const Index twos = at_a_time(*device, 66), eights = at_a_time(*device, 15);
  // The emulated device takes minutes for all of them.
  const bool emulated = is_emulated(*device);
  using Sizes = std::vector<RolloutSizes>;
  using Batches = std::vector<Index>;
  const Sizes alone =
      emulated ? Sizes{{1, 1, 1}, {193, 9, 3}, {385, 2, 2}, {470, 20, 2}}
               : Sizes{{1, many, 1},   {7, many + 1, 2}, {193, many, 5},           {257, many, 3},
                       {384, many, 3}, {385, many, 3},   {470, 8 * eights + 1, 5}, {500, many + 1, 3}};
  // Above what few_sequences_rollout takes. Whether an H200 runs a few clusters more or less at a time, these
  // have operands for 4, 8 and 16 sequences, full and not, and take several turns, over blocks of 64, 80, 96
  // and 128 rows. At 260 units the cluster has fewer columns than its parts.
  const Batches units_up_to_512 = emulated ? Batches{260} : Batches{260, 300, 330, 390, 460};
  const Batches batches =
      emulated ? Batches{15, 27, 62} : Batches{40, 61, 110, 8 * eights + 1, 200, 248, 330, 526};
  const Batches counts = emulated ? Batches{9} : Batches{1, 3, 4, 5, 8, 9, 13, 16, 17};
  const Batches largest =
      emulated ? Batches{3, eights + 1} : Batches{eights + 1, 8 * eights, 9 * eights - 5, 16 * eights + 1};
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    const Execution execution{*device, precision, RolloutWay::cluster};
    for (const RolloutSizes& sizes : alone) check_all(execution, sizes);
    for (const Index sequences : counts) {
      check_rollout(execution, {33, std::max(sequences * twos, many), 3}, Activation::modrelu, true, true);
    }
    for (const Index n : units_up_to_512) {
      for (const Index batch : batches) check_rollout(execution, {n, batch, 2}, Activation::relu, true, true);
    }
    // On a GPU two turns of the largest kernels; on the emulated device five blocks of 96 rows.
    check_rollout(execution, {emulated ? 390 : 300, emulated ? 28 : 747, 2}, Activation::tanh, true, true);
  }
  // Above 512 there are clusters of five to eight blocks.
  const Execution large{*device, Precision::bf16, RolloutWay::cluster};
  for (const Index batch : largest) check_rollout(large, {900, batch, 3}, Activation::abs, true, true);
  // As many clusters as an H200 runs at a time, or more: with one more sequence than eight or sixteen for
  // each, they have two octets of sequences, or take two turns.
  for (const auto& [n, on_h200] : {std::pair<Index, Index>{520, 26}, {641, 22}, {769, 18}}) {
    check_rollout(large, {n, emulated ? 3 : 17, 2}, Activation::relu, true, true);
    if (emulated) continue;
    const Index count = at_a_time(*device, on_h200);
    check_rollout(large, {n, 8 * count + 1, 2}, Activation::modrelu, true, true);
    check_rollout(large, {n, 16 * count + 1, 2}, Activation::tanh, true, true);
  }
  if (!emulated) check_all(large, {1000, 17, 2});
}

TEST_CASE("few sequences over a cluster are the same in every precision", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  const auto states_in = [&](Precision precision, const RolloutSizes& sizes) {
    return found_on({*device, precision, RolloutWay::cluster}, random_numbers(sizes, false, 3),
                    Activation::tanh);
  };
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    for (const RolloutSizes& sizes :
         {RolloutSizes{193, 3, 5}, RolloutSizes{300, 8, 3}, RolloutSizes{385, 2, 3}, RolloutSizes{512, 8, 3},
          RolloutSizes{700, 4, 3}, RolloutSizes{1024, 3, 3}}) {
      INFO(name_of(precision) << " N " << sizes.n);
      const Numbers<float> rounded = states_in(precision, sizes), exact = states_in(Precision::fp32, sizes);
      CHECK(same_bits(rounded.states, exact.states));
      CHECK(same_bits(rounded.d_states, exact.d_states));
      CHECK(same_bits(rounded.d_h0, exact.d_h0));
    }
    const RolloutSizes sizes{300, many, 3};
    CHECK(!same_bits(states_in(precision, sizes).states, states_in(Precision::fp32, sizes).states));
  }
}

TEST_CASE("a rollout over the grid is the recurrence of rounded operands", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Execution execution{*device, precision, RolloutWay::grid};
    for (const RolloutSizes& sizes : {RolloutSizes{1, 1, 1}, RolloutSizes{7, 3, 2}, RolloutSizes{193, 9, 5},
                                      RolloutSizes{500, 3, 3}, RolloutSizes{513, 20, 2}}) {
      check_all(execution, sizes);
    }
    // Sets that are full and not.
    for (const Index batch : {1, 8, 9, 17, 40, 77, 128, 300})
      check_rollout(execution, {260, batch, 3}, Activation::modrelu, true, true);
    // Larger blocks, sets one after another, and launches one after another; all buffers twice and more.
    for (const RolloutSizes& sizes :
         {RolloutSizes{1025, 45, 2}, RolloutSizes{1537, 45, 2}, RolloutSizes{2048, 45, 2},
          RolloutSizes{513, 300, 18}, RolloutSizes{1024, 300, 3}, RolloutSizes{1024, 700, 2}})
      check_rollout(execution, sizes, Activation::relu, true, true);
  }
}

TEST_CASE("few sequences over the grid are the recurrence in fp32", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  // Eight columns a thread and twelve; all buffers of the exchange twice and more.
  for (const RolloutSizes& sizes : {RolloutSizes{1025, 1, 18}, RolloutSizes{1500, 3, 3},
                                    RolloutSizes{2048, 5, 3}, RolloutSizes{2049, 2, 18}}) {
    check_all({*device, Precision::fp32, RolloutWay::grid}, sizes);
  }
  // In every precision, by the bits.
  const RolloutSizes sizes{1100, 1, 5};
  const Numbers<float> given = random_numbers(sizes, true, 3);
  const auto found_in = [&](Precision precision) {
    return found_on({*device, precision, RolloutWay::automatic}, given, Activation::tanh);
  };
  const Numbers<float> exact = found_in(Precision::fp32);
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    const Numbers<float> rounded = found_in(precision);
    CHECK(same_bits(rounded.states, exact.states));
    CHECK(same_bits(rounded.d_states, exact.d_states));
  }
}

TEST_CASE("where no gradients of states are given they are 0", "[cuda][rollout]") {
  const auto device = gpu();
  std::vector<std::pair<Execution, RolloutSizes>> cases = {{Device::cpu(), {7, 3, 4}}};
  if (device) {
    const auto add = [&](RolloutWay way, Precision precision, const RolloutSizes& sizes) {
      cases.push_back({Execution{*device, precision, way}, sizes});
    };
    add(RolloutWay::stepwise, Precision::fp32, {7, 3, 4});
    add(RolloutWay::resident, Precision::fp32, {190, 3, 6});
    for (const RolloutSizes& sizes :
         {RolloutSizes{193, 3, 5}, RolloutSizes{300, 2, 3}, RolloutSizes{385, 3, 3}, RolloutSizes{512, 1, 3}})
      add(RolloutWay::cluster, Precision::fp32, sizes);
    add(RolloutWay::cluster, Precision::fp32, {260, at_a_time(*device, 62), 3});
    add(RolloutWay::cluster, Precision::tf32, {260, at_a_time(*device, 88), 3});
    for (const RolloutSizes& sizes : {RolloutSizes{500, many, 3}, RolloutSizes{600, 17, 3}})
      add(RolloutWay::cluster, Precision::bf16, sizes);
    if (!is_emulated(*device)) {
      for (const RolloutSizes& sizes : {RolloutSizes{260, 9, 5}, RolloutSizes{1025, 2, 5}})
        add(RolloutWay::grid, Precision::fp32, sizes);
      for (const RolloutSizes& sizes : {RolloutSizes{600, 3, 5}, RolloutSizes{768, 40, 3}})
        add(RolloutWay::cluster, Precision::fp32, sizes);
    }
  }
  for (const auto& [execution, sizes] : cases) {
    INFO(name_of(execution.rollout) << " " << name_of(execution.precision) << " N " << sizes.n);
    Numbers<float> given = random_numbers(sizes, true, 40);
    std::fill(given.d_states.begin(), given.d_states.end(), 0.0f);
    const Numbers<float> zeros = found_on(execution, given, Activation::tanh);
    // What their memory holds counts for nothing.
    std::fill(given.d_states.begin(), given.d_states.end(), 7.0f);
    const Numbers<float> none = found_on(execution, given, Activation::tanh, false);
    CHECK(same_bits(none.d_states, zeros.d_states));
    CHECK(same_bits(none.d_h0, zeros.d_h0));
  }
}

TEST_CASE("a rollout of no steps hands its state on", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const Numbers<float> given = random_numbers({7, 3, 0}, false, 9);
  const Numbers<float> found = found_on(*device, given, Activation::tanh);
  CHECK(same_bits(found.states, given.states));
  for (Index b = 0; b < 3; ++b) {
    for (Index i = 0; i < 7; ++i) {
      CHECK(found.h_last(b, i) == given.states(0, b, i));
      CHECK(found.d_h0(b, i) == given.d_h_last(b, i));
    }
  }
  check_says<ValueError>(
      [&] {
        found_on({*device, Precision::fp32, RolloutWay::resident}, given, Activation::tanh);
      },
      {"no steps"});
}

TEST_CASE("a rollout step by step is the recurrence", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const Execution execution{*device, Precision::fp32, RolloutWay::stepwise};
  // With N = 512 products come in parts.
  for (const RolloutSizes& sizes : {RolloutSizes{1, 1, 1}, RolloutSizes{7, 3, 2}, RolloutSizes{190, 5, 6},
                                    RolloutSizes{300, 2, 4}, RolloutSizes{512, 3, 4}}) {
    check_all(execution, sizes);
  }
  // Of copies whose columns begin at multiples of 16 bytes: one product, and parts.
  const Execution rounded{*device, Precision::tf32, RolloutWay::stepwise};
  for (const RolloutSizes& sizes : {RolloutSizes{257, 3, 8}, RolloutSizes{511, 2, 9}})
    check_all(rounded, sizes);
}

TEST_CASE("rollouts of the sizes that are trained are the recurrence", "[cuda][rollout][slow]") {
  const auto device = gpu();
  if (!device) return;
  const RolloutSizes copying{190, 128, 1020}, mnist{512, 128, 100}, large{1024, 128, 40};
  check_rollout({*device, Precision::fp32, RolloutWay::resident}, copying, Activation::modrelu, true, true);
  check_rollout({*device, Precision::fp32, RolloutWay::stepwise}, copying, Activation::modrelu, true, true);
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    check_rollout({*device, precision, RolloutWay::cluster}, mnist, Activation::tanh, true, true);
  }
  check_rollout({*device, Precision::bf16, RolloutWay::cluster}, large, Activation::modrelu, true, true);
  check_rollout({*device, Precision::tf32, RolloutWay::stepwise}, large, Activation::abs, false, true);
}

TEST_CASE("a rollout repeated has the same bits, recorded or not", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  for (const RolloutWay way : {RolloutWay::resident, RolloutWay::cluster, RolloutWay::stepwise}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
      const RolloutSizes sizes{100, precision == Precision::fp32 ? 9 : many, 7};
      const Numbers<float> given = random_numbers(sizes, true, 5);
      const auto transition = make_transition<float>(Unconstrained{}, sizes.n, {*device, precision, way});
      const Tensor<float> q = given.q.copy(*device), bias = given.modrelu_bias.copy(*device);
      const Tensor<float> d_h_last = given.d_h_last.copy(*device);
      const Tensor<std::int32_t> lengths = given.lengths.copy(*device);
      transition->prepare(q);
      RolloutCache<float> cache;
      Tensor<float> states = given.states.copy(*device), h_last(given.h_last.shape(), *device);
      Tensor<float> d_states = given.d_states.copy(*device), d_h0(given.d_h0.shape(), *device);
      std::vector<Tensor<float>> first;
      // Directly, recorded, and from the recording.
      for (int i = 0; i < 4; ++i) {
        copy<float>(given.states, states);
        copy<float>(given.d_states, d_states);
        rollout_forward<float>(*transition, Activation::modrelu, bias, lengths, in_place(states, h_last),
                               cache);
        rollout_backward<float>(*transition, Activation::modrelu, lengths,
                                in_place(states, d_h_last, d_states, d_h0), cache);
        std::vector<Tensor<float>> results;
        for (const Tensor<float>* x : {&states, &h_last, &d_states, &d_h0})
          results.push_back(x->copy(Device::cpu()));
        if (i == 0) first = std::move(results);
        for (std::size_t k = 0; i > 0 && k < first.size(); ++k) CHECK(same_bits(results[k], first[k]));
      }
    }
  }
}

TEST_CASE("a long rollout over clusters loses nobody on the way", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  // Many phases of every barrier, in a few clusters of which each goes at its own pace.
  const Index some = at_a_time(*device, 40);
  // The emulated device took 40 s for as many steps, under sanitizers.
  const Index many_steps = is_emulated(*device) ? 30 : 300, steps = is_emulated(*device) ? 8 : 40;
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Index batch = precision == Precision::fp32 || is_emulated(*device) ? 3 : many;
    check_rollout({*device, precision, RolloutWay::cluster}, {40, batch, many_steps}, Activation::tanh, false,
                  true);
    check_rollout({*device, precision, RolloutWay::cluster}, {300, some, steps}, Activation::tanh, false,
                  true);
  }
  check_rollout({*device, Precision::bf16, RolloutWay::cluster}, {600, some, steps}, Activation::tanh, false,
                true);
}

TEST_CASE("a linear rollout keeps the norms of states and gradients", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  // It takes some hundred steps to see a Q of 11 bits. The emulated device, which has 22 multiprocessors,
  // takes 0.1 s for each, forward and backward: there, this says only that the kernels run.
  const bool emulated = is_emulated(*device);
  const Index length = emulated ? 5 : 1000;
  for (const Init init : {Init::henaff, Init::haar}) {
    for (const Index n : {200, 389, 512}) {
      CAPTURE(name_of(init));
      // 128 sequences are more than four a cluster, whose products have other terms.
      const RolloutSizes sizes{n, emulated ? 8 : n == 512 ? 128 : many, length};
      const Numbers<float> given = linear_numbers(sizes, init);
      for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
        check_norms_are_kept({*device, precision, RolloutWay::cluster}, sizes, given);
        // Over the grid, bf16 has 8 bits of Q.
        if (emulated || precision == Precision::bf16) continue;
        check_norms_are_kept({*device, precision, RolloutWay::grid}, sizes, given);
      }
    }
  }
}

TEST_CASE("a way that does not take the sizes says so", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  const auto way = [&](Index n, const Execution& execution,
                       const TransitionOptions& options = Unconstrained{}, Index batch = 4) {
    return rollout_way(*make_transition<float>(options, n, execution), 10, batch);
  };
  using enum RolloutWay;
  CHECK(way(192, *device) == resident);
  CHECK(way(193, *device) == cluster);
  CHECK(way(512, *device) == cluster);
  // The emulated device has no kernels over the grid.
  const RolloutWay beyond = is_emulated(*device) ? stepwise : grid;
  CHECK(way(513, {*device, Precision::bf16}) == cluster);
  // Few sequences go over larger clusters.
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    CHECK(way(513, {*device, precision}) == cluster);
    CHECK(way(1024, {*device, precision}) == cluster);
    CHECK(way(1025, {*device, precision}) == beyond);
    CHECK(way(513, {*device, precision}, Unconstrained{}, 300) == beyond);
    CHECK(way(1024, {*device, precision}, Unconstrained{}, 128) == beyond);
  }
  CHECK(way(1025, {*device, Precision::bf16}) == beyond);
  CHECK(way(4100, {*device, Precision::bf16}) == stepwise);
  check_says<ValueError>(
      [&] {
        way(9000, {*device, Precision::bf16, grid});
      },
      {"grid", is_emulated(*device) ? "no kernels" : "9000"});
  CHECK(way(2113, *device) == stepwise);
  CHECK(way(64, *device, HouseholderProduct{}) == stepwise);
  CHECK(rollout_way(*make_transition<double>(Unconstrained{}, 64, *device), 10, 4) == stepwise);
  check_says<ValueError>([&] { way(193, {*device, Precision::fp32, resident}); }, {"193"});
  check_says<ValueError>([&] { way(1025, {*device, Precision::bf16, cluster}); }, {"1025", "1024"});
  check_says<ValueError>(
      [&] {
        way(64, {*device, Precision::fp32, resident}, HouseholderProduct{});
      },
      {"sequential"});
}

}  // namespace orthornn::testing
