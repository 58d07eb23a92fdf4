// tools/numpy_model.py, which knows what include/orthornn/io/README.md says and nothing else, against the
// library.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "layers/delta_product_cells.hpp"
#include "layers/random_layers.hpp"
#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/python.hpp"
#include "support/random_tensor.hpp"
#include "support/small_batch.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

const std::string script = ORTHORNN_SOURCE_DIR "/tools/numpy_model.py";

/// Models with their inputs and what the library makes of them in double: model0.h5, input0.h5, output0.h5
/// ...
class Cases {
 public:
  void add(const ModelOptions& options, bool with_lengths = true) {
    SequenceModel<float> model(Device::cpu(), options, 1 + count_);
    disturb(model.parameters());
    SequenceModel<double> exact(Device::cpu(), options, Undrawn{});
    widen(model.parameters(), exact.parameters());
    Batch batch = batch_for(options, 6, 7);
    if (with_lengths) batch.integers(batch_names::lengths) = mixed_lengths(6, 7);
    const Batch& given = batch;
    Hdf5Writer input, output;
    if (std::holds_alternative<DenseInput>(options.input)) {
      input.dataset("x", given.reals(batch_names::features));
    } else {
      input.dataset("x", given.integers(batch_names::symbols));
    }
    if (with_lengths) input.dataset("lengths", given.integers(batch_names::lengths));
    output.dataset("logits", exact.forward(batch));
    write(model, input, output);
  }

  void add(const EncoderDecoderOptions& options) {
    EncoderDecoder<float> model(Device::cpu(), options, 1 + count_);
    disturb(model.parameters());
    EncoderDecoder<double> exact(Device::cpu(), options, Undrawn{});
    widen(model.parameters(), exact.parameters());
    const Batch batch = translation_batch(options, 5, 4, 6, /*with_lengths=*/true);
    Hdf5Writer input, output;
    for (const std::string_view name : {batch_names::source, batch_names::source_lengths, batch_names::target,
                                        batch_names::target_lengths, batch_names::classes})
      input.dataset(std::string(name), batch.integers(name));
    const BatchLoss loss = exact.loss(batch);
    Tensor<double> sums(Shape{2});
    sums(0) = loss.sum;
    sums(1) = loss.count;
    output.dataset("loss", sums);
    write(model, input, output);
  }

  /// Every comparison in one process.
  void compare(const std::string& python, const std::string& tolerance) const {
    const ShellOutput found = shell(
        fmt::format("cd '{}' && {} -B -c \"import sys; sys.path.insert(0, '{}/tools'); import numpy_model\n"
                    "bad = [i for i in range({}) if numpy_model.main([f'model{{i}}.h5', f'input{{i}}.h5', "
                    "'--compare', f'output{{i}}.h5', '--tolerance', '{}'])]\n"
                    "sys.exit(str(bad) if bad else 0)\"",
                    folder_.path().string(), python, ORTHORNN_SOURCE_DIR, count_, tolerance),
        folder_ / "text");
    CAPTURE(found.text);
    CHECK(found.status == 0);
    CHECK(lines(found.text) == count_);
  }

 private:
  /// No parameter keeps a special value: biases are not 0, gains are not 1.
  static void disturb(ParameterSet<float>& parameters) {
    RandomStream random(3, RandomPurpose::test);
    for (float& x : parameters.values()) x += 0.3F * static_cast<float>(random.normal());
  }

  static void widen(const ParameterSet<float>& from, ParameterSet<double>& to) {
    std::ranges::copy(from.values(), to.values().begin());
  }

  void write(const Model<float>& model, Hdf5Writer& input, Hdf5Writer& output) {
    save_model(folder_ / fmt::format("model{}.h5", count_), model);
    input.commit(folder_ / fmt::format("input{}.h5", count_));
    output.commit(folder_ / fmt::format("output{}.h5", count_));
    ++count_;
  }

  TemporaryFolder folder_;
  long count_ = 0;
};

// Both compute in double, some hundred operations for each number; a wrong formula differs in the first
// digits.
constexpr const char* rounding_of_double = "1e-11";

}  // namespace

TEST_CASE("the numpy reader computes every orthogonal cell, LSTM and GRU", "[cli][numpy][long]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  const auto both = [&](const LayerOptions& layer) {
    cases.add({DenseInput{3}, {layer}, EveryStep{4}});
    cases.add({OneHot{3}, {layer}, LastStep{4}});
  };
  for (const TransitionOptions& transition :
       {TransitionOptions(Cwy{.reflections = 3}), TransitionOptions(HouseholderProduct{.reflections = 2}),
        TransitionOptions(ScaledCayley{.negative_signs = 2}), TransitionOptions(MatrixExponential{}),
        TransitionOptions(WeightNormalization{}), TransitionOptions(OrthogonalMatrix{}),
        TransitionOptions(Unconstrained{})})
    both(OrthogonalCell{.hidden_size = 5, .transition = transition});
  for (const Activation activation :
       {Activation::tanh, Activation::relu, Activation::abs, Activation::identity})
    both(OrthogonalCell{.hidden_size = 5, .activation = activation});
  both(OrthogonalCell{.hidden_size = 5, .input_matrix = InputMatrix::stiefel, .learn_initial_state = true});
  both(OrthogonalCell{.hidden_size = 5, .input_matrix = InputMatrix::own});
  both(OrthogonalCell{.hidden_size = 5, .input_matrix = InputMatrix::matrix});
  both(Lstm{5});
  both(Gru{5});
  cases.add({TokenEmbedding{6, 3}, {Lstm{4}, Gru{5}, OrthogonalCell{.hidden_size = 4}}, LastStep{2}});
  cases.add({DenseInput{3}, {Gru{5}}, LastStep{2}}, /*with_lengths=*/false);
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader computes layers of frames and answers at their pixels", "[cli][numpy]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  for (const auto& [name, hidden] : Names<HiddenKernel>::list) {
    const ConvNeru cell{.hidden_size = 3, .height = 3, .width = 4, .hidden_kernel = hidden};
    cases.add({DenseInput{24}, {cell}, EveryPixel{.outputs = 24, .pixels = 12}, Loss::mean_squared_error});
    cases.add({DenseInput{24}, {cell, cell}, LastStep{4}});
  }
  for (const bool peepholes : {false, true}) {
    const ConvLstm cell{.hidden_size = 3, .height = 3, .width = 4, .peepholes = peepholes};
    cases.add({DenseInput{24}, {cell}, EveryPixel{.outputs = 12, .pixels = 12}, Loss::mean_squared_error});
    cases.add({DenseInput{24}, {cell, cell}, LastStep{4}});
  }
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const Index q : {1, 3}) {
      for (const Index channels : {0, 1, 20}) {  // C = 2: a point, its transpose, as many as it reads
        const OrthogonalConv map{
            .channels = channels, .height = 3, .width = 4, .kernel_size = q, .kernel = kind};
        cases.add({DenseInput{24}, {map}, EveryPixel{.outputs = 24, .pixels = 12}, Loss::mean_squared_error});
      }
    }
  }
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader computes orthogonal maps", "[cli][numpy]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const Index outputs : {0, 2, 7}) {
      const OrthogonalLinear map{.outputs = outputs, .matrix = kind};
      cases.add({DenseInput{5}, {map, Gru{3}, map}, EveryStep{4}});
      cases.add({OneHot{5}, {map}, LastStep{4}});
    }
  }
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader computes DeltaProduct layers with all their options", "[cli][numpy][long]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  for (const auto& [name, cell] : delta_product_cells()) {
    cases.add({DenseInput{3}, {cell}, EveryStep{4}});
    cases.add({OneHot{3}, {cell}, LastStep{4}});
  }
  cases.add({TokenEmbedding{6, 3}, small_delta_blocks(), EveryStep{4}});
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader computes layers within layers", "[cli][numpy][long]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  for (std::uint64_t seed = 1; seed <= 24; ++seed)
    cases.add({TokenEmbedding{6, 4}, {random_layer(seed, 4)}, EveryStep{3}});
  cases.add({DenseInput{3},
             {Linear{4}, Positions{9}, Residual{{RmsNorm{}, GatedMlp{}, Dropout{0.5}}},
              Bidirectional{{Lstm{3}, OrthogonalCell{.hidden_size = 2}}}, Gru{5}, Residual{{Linear{5}}}},
             LastStep{2}});
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader computes an encoder and a decoder with attention", "[cli][numpy]") {
  const auto found = python();
  if (!found) return;
  Cases cases;
  for (const EncoderDecoderOptions& options : translation_models()) cases.add(options);
  EncoderDecoderOptions counted = translation_models()[0];  // the decoder counts on from the encoder's steps
  counted.encoder = counted.decoder = {Positions{12}, Gru{4}};
  cases.add(counted);
  cases.compare(*found, rounding_of_double);
}

TEST_CASE("the numpy reader agrees with predict, and says what it cannot read", "[cli][numpy][long]") {
  const auto found = python();
  if (!found) return;
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  check_success(run(train_mnist(folder / "data", folder / "run", {"--permuted", "--steps", "3"})));
  const std::string model = folder / "run/model.h5", input = folder / "in.h5", output = folder / "out.h5";
  Hdf5Writer writer;
  writer.dataset("x", normal_tensor<float>({12, 3, 1}, 1));
  writer.commit(input);
  check_success(run({"predict", model, input, "-o", output}));
  const auto reader = [&](const std::string& arguments) {
    return shell(fmt::format("{} -B '{}' {}", *found, script, arguments), folder / "text");
  };
  // A hundred roundings of float32.
  const ShellOutput same = reader(fmt::format("'{}' '{}' --compare '{}' --tolerance 1e-5 -o '{}'", model,
                                              input, output, (folder / "own.h5").string()));
  CAPTURE(same.text);
  CHECK(same.status == 0);
  CHECK(Hdf5Reader(folder / "own.h5").shape("logits") == Shape{3, 10});
  Hdf5Writer other;
  other.dataset("logits", normal_tensor<float>({3, 10}, 1));
  other.commit(output);
  const ShellOutput different = reader(fmt::format("'{}' '{}' --compare '{}'", model, input, output));
  CHECK(different.status == 1);
  CHECK_THAT(different.text, contains("NOT EQUAL"));
  const ShellOutput foreign = reader(fmt::format("'{}' '{}' --compare '{}'", input, input, output));
  CHECK(foreign.status == 1);
  CHECK_THAT(foreign.text, contains("no model of orthornn"));
}
