// DeltaProduct layers on a GPU with each of their options are those of the CPU.

#include <initializer_list>

#include "layers/delta_product_cells.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/gpu.hpp"
#include "support/graph_launches.hpp"

namespace orthornn::testing {
namespace {

/// Runs both and compares everything they write, twice, for the same bits.
template <class T>
void check_like_cpu(LayerCase<T>& there, LayerCase<double>& here, double bound) {
  here.forward();
  here.backward();
  for (int repetition = 0; repetition < 3; ++repetition) {
    there.forward();
    there.backward();
    const auto check = [&](const char* name, const Tensor<T>& found, const Tensor<double>& expected) {
      INFO(name);
      CHECK(relative_error(found.copy(Device::cpu()), expected) <= bound);
    };
    check("outputs", there.y, here.y);
    check("dx", there.dx, here.dx);
    check("gradients", there.parameters.gradients(), here.parameters.gradients());
    for (std::size_t i = 0; i < here.last.size(); ++i) {
      check("last state", there.last[i], here.last[i]);
      check("d_start", there.d_start[i], here.d_start[i]);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("DeltaProduct layers on a GPU are those of the CPU", "[cuda][delta]", float, double) {
  const auto device = gpu();
  if (!device) return;
  for (auto [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    for (const Index size : {1, 3, 40}) {  // narrower and wider than a warp
      CAPTURE(size);
      cell.key_size = size;
      cell.value_size = size + 1;
      LayerCase<TestType> there(delta_product_maker<TestType>(cell, *device), 6, 4, false, *device);
      LayerCase<double> here(delta_product_maker<double>(cell, Device::cpu()), 6, 4);
      for (const bool with_lengths : {false, true}) {
        CAPTURE(with_lengths);
        if (with_lengths) {
          there.set_lengths({6, 0, 2, 1});
          here.set_lengths({6, 0, 2, 1});
        }
        // Sums of all steps and sequences, of which SiLU, norms and gates make others.
        check_like_cpu(there, here, 16 * tolerance::rounding<TestType>(6 * 4 * 4 + 2 * size));
      }
    }
  }
}

TEST_CASE("DeltaProduct layers in chunks on a GPU are those of the CPU", "[cuda][delta]") {
  const auto device = gpu();
  if (!device || !has_chunked_form(*device)) return;
  for (auto [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    if (cell.factor == DeltaFactorKind::rwkv7) continue;  // without chunks
    cell.key_size = 32;
    cell.value_size = 24;
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
      CAPTURE(name_of(precision));
      LayerCase<float> there(delta_product_maker<float>(cell, Execution(*device, precision)), 70, 3, false,
                             *device);
      REQUIRE(there.layer->describe(70, 3).form == "chunked");
      LayerCase<double> here(delta_product_maker<double>(cell, Device::cpu()), 70, 3);
      there.set_lengths({70, 41, 0});
      here.set_lengths({70, 41, 0});
      // Operands of 24, 11 and 8 bits in products one after the other; parameters and states are floats.
      const double bound = precision == Precision::fp32   ? 32 * tolerance::rounding<float>(70 * 4)
                           : precision == Precision::tf32 ? 1e-2
                                                          : 5e-2;
      check_like_cpu(there, here, bound);
    }
  }
}

TEST_CASE("small states of a DeltaProduct layer on a GPU are those of fp32 for any batch", "[cuda][delta]") {
  const auto device = gpu();
  if (!device) return;
  // Longer keys of an odd number too: norms of more numbers than a warp has lanes, one at a time.
  for (const Index key : {12, 37, 130}) {
    CAPTURE(key);
    const DeltaProductCell cell{.hidden_size = 6,
                                .heads = key == 12 ? 2 : 1,
                                .key_size = key,
                                .value_size = 5,
                                .householder = 3,
                                .learn_initial_state = true};
    const bool small = key == 12;
    for (const Index batch : {3, 40}) {
      CAPTURE(batch);
      const Precision precision = small ? Precision::bf16 : Precision::fp32;
      LayerCase<float> there(delta_product_maker<float>(cell, Execution(*device, precision)), 20, batch,
                             false, *device);
      const bool chunked = has_chunked_form(*device) && !(small && batch == 40);
      CHECK(there.layer->describe(20, batch).form == (chunked ? "chunked" : "recurrent"));
      LayerCase<double> here(delta_product_maker<double>(cell, Device::cpu()), 20, batch);
      // In bf16 the projections have operands of 11 bits, and nothing has fewer.
      check_like_cpu(there, here, small ? 1e-2 : 32 * tolerance::rounding<float>(20 * batch * 3 + 130));
    }
  }
}

TEST_CASE("a DeltaProduct network trains on a GPU as on the CPU, recorded", "[cuda][delta]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 3, .batch = 4});
  const DeltaProductCell cell{.hidden_size = 6,
                              .heads = 2,
                              .key_size = 4,
                              .value_size = 3,
                              .state_decay = true,
                              .convolution = 3,
                              .output_gate = true};
  ModelOptions options = model_for(task.data(), delta_product_blocks(cell, GatedMlp{}, 1));
  options.input = TokenEmbedding{.tokens = task.symbols(), .size = 6};
  const auto trained = [&](Device where) {
    SequenceModel<float> model(where, options);
    Trainer trainer(model, task, {.optimizer = Sgd{.lr = 0.1}, .schedule = {.total_steps = 5}});
    trainer.run(5, [](const TrainingStep&) { return true; });
    return model.parameters().values().copy(Device::cpu());
  };
  const std::uint64_t before = graph_launches();
  const Tensor<float> there = trained(*device);
  CHECK(graph_launches() > before);
  CHECK(equal(trained(*device), there));
  // Rounding of five steps, of which norms and gates make others.
  CHECK(relative_error(there, trained(Device::cpu())) <= 1e-5);
}

TEST_CASE("a gated MLP on a GPU is that of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index size : {1, 70}) {
    CAPTURE(size);
    LayerCase<float> there(delta_product_maker<float>(GatedMlp{size}, *device), 3, 5, false, *device);
    LayerCase<double> here(delta_product_maker<double>(GatedMlp{size}, Device::cpu()), 3, 5);
    check_like_cpu(there, here, 4 * tolerance::rounding<float>(15 + size));
  }
}

}  // namespace orthornn::testing
