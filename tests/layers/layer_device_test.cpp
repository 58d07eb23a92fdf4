// Every layer on a GPU is that of the CPU, in several sizes, with lengths, from symbols, and when its steps
// are recorded.

#include <initializer_list>

#include "layers/all_layers.hpp"
#include "layers/long_sequences.hpp"
#include "layers/random_layers.hpp"
#include "orthornn/core/error.hpp"
#include "support/gpu.hpp"
#include "support/graph_launches.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {
namespace {

/// What a forward and a backward give, on the host.
template <class T>
struct LayerResults {
  std::vector<Tensor<T>> tensors;
  std::vector<std::string> names;

  explicit LayerResults(LayerCase<T>& c) {
    c.forward();
    c.backward();
    const auto add = [&](const char* name, const Tensor<T>& tensor) {
      if (tensor.empty()) return;
      tensors.push_back(tensor.copy(Device::cpu()));
      names.push_back(name);
    };
    add("outputs", c.y);
    add("dx", c.dx);
    add("gradients", c.parameters.gradients());
    for (const Tensor<T>& state : c.last) add("last state", state);
    for (const Tensor<T>& d : c.d_start) add("d_start", d);
  }
};

/// Loops over the steps in a forward of such a layer.
std::uint64_t loops_of(const LayerDescription& layer) {
  std::uint64_t loops = layer.rollout.empty() ? 0 : 1;
  for (const LayerDescription& inner : layer.layers) loops += loops_of(inner);
  return loops;
}

}  // namespace

TEMPLATE_TEST_CASE("layers on a GPU are those of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index n, k, t, b;
  };
  for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{7, 3, 4, 5}, Sizes{65, 40, 3, 33}, Sizes{130, 5, 6, 4}}) {
    const auto kinds = all_layers<TestType>(s.k, s.n);
    const auto exact = all_layers<double>(s.k, s.n);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      for (const bool symbols : {false, true}) {
        if (!(symbols ? kinds[i].reads_symbols : kinds[i].reads_vectors)) continue;
        for (const bool with_lengths : {false, true}) {
          CAPTURE(kinds[i].name, s.n, s.k, s.t, s.b, symbols, with_lengths);
          const double deviation = 1 / std::sqrt(static_cast<double>(s.n));
          LayerCase<double> here(exact[i].make(Device::cpu()), s.t, s.b, symbols, Device::cpu(), deviation);
          LayerCase<TestType> there(kinds[i].make(*device), s.t, s.b, symbols, *device, deviation);
          if (with_lengths) {
            std::vector<std::int32_t> lengths;
            for (Index b = 0; b < s.b; ++b) lengths.push_back(static_cast<std::int32_t>(b % (s.t + 1)));
            here.set_lengths(lengths);
            there.set_lengths(lengths);
          }
          here.set_noise(7);
          there.set_noise(7);
          const LayerResults<double> expected(here);
          const LayerResults<TestType> found(there);
          REQUIRE(found.names == expected.names);
          // Sums over the columns, or along a row, in each of the steps; 1 - h^2 costs another two bits.
          const double bound = 4 * static_cast<double>(s.t) * tolerance::rounding<TestType>(s.n + s.t * s.b);
          for (std::size_t k = 0; k < found.tensors.size(); ++k) {
            INFO(found.names[k]);
            // Nothing depends on a first state where all sequences end before it is used.
            if (frobenius_norm(expected.tensors[k]) == 0) {
              CHECK(frobenius_norm(found.tensors[k]) == 0);
            } else {
              CHECK(relative_error(found.tensors[k], expected.tensors[k]) <= bound);
            }
          }
          // What is recorded has the bits of what runs directly.
          for (int repetition = 0; repetition < 2; ++repetition) {
            const LayerResults<TestType> again(there);
            for (std::size_t k = 0; k < found.tensors.size(); ++k)
              CHECK(equal(again.tensors[k], found.tensors[k]));
          }
        }
      }
    }
  }
}

TEST_CASE("a gradient of the output that is 0 counts as 0 on a GPU, whatever its memory holds", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const LayerKind<float>& kind : all_layers<float>(3, 7)) {
    for (const bool symbols : {false, true}) {
      if (!(symbols ? kind.reads_symbols : kind.reads_vectors)) continue;
      CAPTURE(kind.name, symbols);
      LayerCase<float> c(kind.make(*device), 4, 5, symbols, *device);
      c.set_noise(7);
      const Tensor<float> other = c.dy.copy();
      copy<float>(Tensor<float>(c.dy.shape()), c.dy);
      const LayerResults<float> expected(c);
      copy<float>(other, c.dy);
      c.dy_is_zero = true;
      const LayerResults<float> found(c);
      REQUIRE(found.names == expected.names);
      for (std::size_t k = 0; k < found.tensors.size(); ++k) {
        INFO(found.names[k]);
        CHECK(equal(found.tensors[k], expected.tensors[k]));
      }
    }
  }
}

TEST_CASE("gated recurrences over the grid are those of the CPU in every precision", "[cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  struct Sizes {
    Index n, t, b;
  };
  // Blocks that are full and not, and more sequences than a launch carries.
  for (const Sizes& s : {Sizes{16, 4, 8}, Sizes{33, 5, 9}, Sizes{100, 3, 600}, Sizes{520, 3, 40}}) {
    const auto exact = all_layers<double>(3, s.n);
    const auto kinds = all_layers<float>(3, s.n);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i].name != "lstm" && kinds[i].name != "gru") continue;
      const double deviation = 1 / std::sqrt(static_cast<double>(s.n));
      LayerCase<double> here(exact[i].make(Device::cpu()), s.t, s.b, false, Device::cpu(), deviation);
      std::vector<std::int32_t> lengths;
      for (Index b = 0; b < s.b; ++b) lengths.push_back(static_cast<std::int32_t>(b % (s.t + 1)));
      here.set_lengths(lengths);
      // A gradient of the last c alone.
      const bool without_h = here.d_last.size() == 2 && s.n == 33;
      if (without_h) here.d_last[0] = Tensor<double>();
      const LayerResults<double> expected(here);
      for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
        CAPTURE(kinds[i].name, s.n, s.t, s.b, name_of(precision));
        LayerCase<float> there(kinds[i].make(Execution(*device, precision, RolloutWay::grid)), s.t, s.b,
                               false, *device, deviation);
        there.set_lengths(lengths);
        if (without_h) there.d_last[0] = Tensor<float>();
        CHECK(there.layer->describe(s.t, s.b).rollout == "grid");
        const LayerResults<float> found(there);
        // Eleven bits of the products outside of the recurrence in tf32, eight of its state and matrix in
        // bf16.
        const double unit = precision == Precision::fp32   ? 0
                            : precision == Precision::tf32 ? std::exp2(-11)
                                                           : std::exp2(-8);
        const double bound =
            4 * static_cast<double>(s.t) * (tolerance::rounding<float>(s.n + s.t * s.b) + unit);
        for (std::size_t k = 0; k < found.tensors.size(); ++k) {
          INFO(found.names[k]);
          CHECK(relative_error(found.tensors[k], expected.tensors[k]) <= bound);
        }
        const LayerResults<float> again(there);
        for (std::size_t k = 0; k < found.tensors.size(); ++k)
          CHECK(equal(again.tensors[k], found.tensors[k]));
      }
    }
  }
}

TEST_CASE("maps of few inputs and of more on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  // Up to 16 inputs have a kernel of their own, and up to 8 one for the gradients. A thread has four outputs
  // of such a map where it can, and one column in so many of a block.
  for (const Index inputs : {1, 8, 15, 16, 17}) {
    for (const Index outputs : {3, 64}) {
      CAPTURE(inputs, outputs);
      const auto run = [&](Device where) {
        LayerCase<double> c(
            [&](ParameterSet<double>& set) {
              return make_layer<double>(set, "layer", Linear{.outputs = outputs}, inputs, where);
            },
            30, 40, false, where, 0.4, 1);
        return LayerResults<double>(c);
      };
      const LayerResults<double> expected = run(Device::cpu()), found = run(*device);
      REQUIRE(found.names == expected.names);
      for (std::size_t k = 0; k < found.tensors.size(); ++k) {
        INFO(found.names[k]);
        CHECK(relative_error(found.tensors[k], expected.tensors[k]) <= tolerance::rounding<double>(30 * 40));
      }
    }
  }
}

TEST_CASE("random layers within layers on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const LayerOptions options = random_layer(seed, 3);
    const auto run = [&](Device where) {
      LayerCase<double> c(
          [&](ParameterSet<double>& set) { return make_layer<double>(set, "layer", options, 3, where); }, 4,
          3, false, where, 0.4, seed);
      if (seed % 2 == 0) c.set_lengths({4, 0, 2});
      c.set_noise(seed);
      return LayerResults<double>(c);
    };
    const LayerResults<double> expected = run(Device::cpu()), found = run(*device);
    REQUIRE(found.names == expected.names);
    for (std::size_t k = 0; k < found.tensors.size(); ++k) {
      INFO(found.names[k]);
      // Some ten layers at most, whose errors of 4 steps add up.
      CHECK(relative_error(found.tensors[k], expected.tensors[k]) <= 40 * tolerance::rounding<double>(4 * 3));
    }
  }
}

TEST_CASE("the loop of a layer over its steps becomes one launch on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const auto& kind : all_layers<float>(3, 7)) {
    if (!kind.reads_vectors) continue;
    CAPTURE(kind.name);
    LayerCase<float> c(kind.make(Execution(*device, Precision::fp32, RolloutWay::stepwise)), 6, 5, false,
                       *device);
    const auto launches_of_a_pass = [&] {
      const std::uint64_t before = graph_launches();
      c.forward();
      c.backward();
      return graph_launches() - before;
    };
    const std::uint64_t expected = 2 * loops_of(c.layer->describe(6, 5));
    // One kernel goes through all steps of a delta product.
    const bool carries = c.layer->state_count() > 0 && kind.name != "delta product";
    CHECK((expected > 0) == carries);
    CHECK(launches_of_a_pass() == 0);  // memory is taken
    launches_of_a_pass();
    CHECK(launches_of_a_pass() == expected);
    CHECK(launches_of_a_pass() == expected);
  }
}

TEST_CASE("recurrences on a GPU take more than 65,535 steps", "[cuda][slow]") {
  const auto device = gpu();
  if (device) check_long_sequences(*device);
}

TEST_CASE("tensors on the wrong device are refused by a layer", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const auto& kind : all_layers<float>(3, 7)) {
    CAPTURE(kind.name);
    LayerCase<float> here(kind.make(Device::cpu()), 2, 3, !kind.reads_vectors),
        there(kind.make(*device), 2, 3, !kind.reads_vectors, *device);
    there.layer->prepare();
    CHECK_THROWS_AS(there.layer->forward(here.input(), {}, {}, there.saved), DeviceError);
    CHECK_THROWS_AS(there.layer->forward(there.input(), {}, {}, here.saved), DeviceError);
    here.layer->prepare();
    CHECK_THROWS_AS(here.layer->forward(there.input(), {}, {}, here.saved), DeviceError);
    there.set_noise(1);
    here.noise = there.noise.copy();
    CHECK_THROWS_AS(here.layer->forward(here.input(), {}, {}, here.saved), DeviceError);
    there.forward();
    CHECK_THROWS_AS(
        there.layer->backward(there.input(), {.d_output = here.d_output}, there.saved, there.scratch),
        DeviceError);
  }
}

TEST_CASE("one step of a layer at a time on a GPU carries the state of the whole", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const auto& kind : all_layers<double>(3, 7)) {
    if (!kind.reads_vectors) continue;
    CAPTURE(kind.name);
    LayerCase<double> c(kind.make(*device), 4, 5, false, *device);
    if (!c.layer->is_causal()) continue;
    c.forward();
    std::vector<Tensor<double>> state;
    for (const Tensor<double>& s : c.start) state.push_back(s.copy());
    for (Index t = 0; t < c.length; ++t) {
      c.saved.clear();
      const SequenceInput<double> step{.vectors = std::as_const(c.x).view().slice(t, 1)};
      const TensorView<const double> y =
          c.layer->forward(step, const_views_of(state), views_of(state), c.saved);
      Tensor<double> found(y.shape()), expected(y.shape());
      copy<double>(y, found);
      copy<double>(std::as_const(c.y).view().slice(t, 1), expected);
      CHECK(relative_error(found, expected) <= tolerance::rounding<double>(7 * c.length));
    }
    for (std::size_t i = 0; i < state.size(); ++i) {
      CHECK(relative_error(state[i].copy(Device::cpu()), c.last[i].copy(Device::cpu())) <=
            tolerance::rounding<double>(7 * c.length));
    }
  }
}

}  // namespace orthornn::testing
