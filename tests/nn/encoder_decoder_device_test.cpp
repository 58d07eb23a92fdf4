#include <cmath>
#include <initializer_list>

#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/core/repeated_operations.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEMPLATE_TEST_CASE("encoder-decoders on a GPU have the losses and gradients of the CPU",
                   "[cuda][translation]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  const Index source_length = 5, target_length = 4;
  for (const EncoderDecoderOptions& options : translation_models()) {
    for (const bool with_lengths : {false, true}) {
      CAPTURE(options.encoder.size(), options.decoder.size(), options.tied, with_lengths);
      EncoderDecoder<double> expected(Device::cpu(), options, 3);
      EncoderDecoder<T> found(*device, options, 3, /*most_outputs=*/20);
      const Batch batch = translation_batch(options, source_length, target_length, 3, with_lengths);
      const Batch there = batch.copy(*device);
      const double expected_loss = expected.loss_and_gradient(batch).mean();
      const double loss = found.loss_and_gradient(there).mean();
      // As of a sequence model, through two networks and the softmax between them.
      const double bound =
          20 * static_cast<double>(source_length + target_length) * tolerance::rounding<T>(9);
      CHECK(std::abs(loss - expected_loss) <= bound * (1 + expected_loss));
      const Tensor<T> gradient = found.parameters().gradients().copy(Device::cpu());
      CHECK(relative_error(gradient, expected.parameters().gradients()) <= bound);
      CHECK(found.loss(there).mean() == loss);
      CHECK(found.loss_and_gradient(there).mean() == loss);
      CHECK(same_bits(found.parameters().gradients().copy(Device::cpu()), gradient));

      // Step by step, and with other answers.
      typename EncoderDecoder<double>::Generator here(expected);
      typename EncoderDecoder<T>::Generator generator(found);
      here.start(batch);
      generator.start(there);
      const std::vector<Index> rows = {2, 2, 0};
      for (Index t = 0; t < target_length; ++t) {
        const TensorView<const double> wanted = here.step(batch.integers(batch_names::target)[t]);
        const TensorView<const T> step = generator.step(batch.integers(batch_names::target)[t]);
        Tensor<T> answer(step.shape()), weights(generator.attention().shape());
        copy<T>(step, answer);
        copy<T>(generator.attention(), weights);
        CHECK(relative_error(answer, wanted) <= bound);
        CHECK(relative_error(weights, here.attention()) <= bound);
        here.select(rows);
        generator.select(rows);
      }
    }
  }
}

TEST_CASE("a recorded step of an encoder-decoder is that step", "[cuda][translation]") {
  const auto device = gpu();
  if (!device) return;
  EncoderDecoderOptions options = translation_models()[0];
  options.tied = true;
  options.dropout = 0.3;
  EncoderDecoder<float> model(*device, options, 3, /*most_outputs=*/20);
  const Batch batch = translation_batch(options, 5, 4, 3, true).copy(*device);
  REQUIRE(model.recordable(batch));
  const auto step = [&] {
    model.prepare();
    model.loss_and_gradient_of_prepared(batch);
  };
  RepeatedOperations repeated(*device);
  for (std::uint64_t key = 1; key <= 4; ++key) {
    model.set_noise(key);
    step();
    const Tensor<float> expected = model.parameters().gradients().copy(Device::cpu());
    const Tensor<float> nothing(model.parameters().gradients().shape());
    copy<float>(nothing, model.parameters().gradients());
    repeated.run(step);
    CHECK(same_bits(model.parameters().gradients().copy(Device::cpu()), expected));
  }
}

TEST_CASE("an encoder-decoder on a GPU says what does not fit when somebody waits", "[cuda][translation]") {
  const auto device = gpu();
  if (!device) return;
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<float> model(*device, options);
  const Batch good = translation_batch(options, 5, 4, 3, true);
  const auto refused = [&](const auto& spoil, const char* words) {
    Batch batch = good.copy(Device::cpu());
    spoil(batch);
    CHECK_THROWS_WITH(model.loss(batch.copy(*device)), contains(words));
  };
  refused([](Batch& b) { b.integers(batch_names::source)(1, 1) = 6; }, "token at position 4");
  refused([](Batch& b) { b.integers(batch_names::target)(0, 2) = -1; }, "token at position 2");
  refused([](Batch& b) { b.integers(batch_names::classes)(0, 0) = 5; }, "class at position 0");
  refused([](Batch& b) { b.integers(batch_names::source_lengths)(1) = 6; }, "length of sequence 1");
  CHECK(model.loss(good.copy(*device)).count > 0);
  EncoderDecoder<float>::Generator generator(model);
  generator.start(good.copy(*device));
  Tensor<std::int32_t> symbols(Shape{3});
  symbols(2) = 5;
  generator.step(symbols);
  CHECK_THROWS_WITH(model.synchronize(), contains("token at position 2"));
}
