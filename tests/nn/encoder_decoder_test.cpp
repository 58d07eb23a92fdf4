#include "orthornn/nn/encoder_decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/fields_json.hpp"
#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/optim/gradient_scale.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr Index encoder_steps = 4, decoder_steps = 3, pair_count = 5;

/// What the gradients are of: (1 - e) -log p of the target and e times its mean over all classes, each of
/// which is what the loss is where that class is the target.
double smoothed_loss(EncoderDecoder<double>& model, const Batch& batch) {
  const double smoothing = model.options().label_smoothing;
  double sum = (1 - smoothing) * model.loss(batch).sum;
  if (smoothing == 0) return sum;
  const Index classes = model.options().target_symbols;
  Batch others = batch.copy(Device::cpu());
  for (std::int32_t c = 0; c < classes; ++c) {
    copy<std::int32_t>(batch.integers(batch_names::classes), others.integers(batch_names::classes));
    for (std::int32_t& target : others.integers(batch_names::classes)) target = target < 0 ? -1 : c;
    sum += smoothing / static_cast<double>(classes) * model.loss(others).sum;
  }
  return sum;
}

void draw_parameters(EncoderDecoder<double>& model) {
  copy<double>(normal_tensor<double>(model.parameters().values().shape(), 3, 0.5),
               model.parameters().values());
}

}  // namespace

TEST_CASE("gradients of every encoder-decoder are those of finite differences",
          "[nn][translation][gradient][long]") {
  for (const EncoderDecoderOptions& options : translation_models()) {
    for (const bool with_lengths : {false, true}) {
      // Parts of at most three rows of the softmax.
      EncoderDecoder<double> model(Device::cpu(), options, Undrawn{}, 15);
      draw_parameters(model);
      const Batch batch = translation_batch(options, encoder_steps, decoder_steps, pair_count, with_lengths);
      const BatchLoss loss = model.loss_and_gradient(batch);
      CHECK(loss.sum == model.loss(batch).sum);
      CAPTURE(options.encoder.size(), options.decoder.size(), options.tied, options.label_smoothing,
              with_lengths, model.carries_states());
      const Tensor<double> gradient = model.parameters().gradients().copy();
      const Tensor<double> expected =
          finite_differences(model.parameters().values(), [&] { return smoothed_loss(model, batch); });
      CHECK(relative_error(gradient, expected) < tolerance::finite_difference);
      // Smaller gradients than the largest would hide in it.
      for (const Parameter& p : model.parameters().list()) {
        CAPTURE(p.name);
        const Index count = p.shape.count();
        const TensorView<const double> found = gradient.view().slice(p.offset, count);
        const TensorView<const double> wanted = expected.view().slice(p.offset, count);
        double largest = 0;
        for (Index i = 0; i < count; ++i)
          largest = std::max(largest, std::abs(found.data()[i] - wanted.data()[i]));
        CHECK(largest <= tolerance::finite_difference * (1 + frobenius_norm(wanted)));
      }
    }
  }
}

// The perplexities are those of a numpy program of its own: sequence after sequence and step after step, by
// the formulas of LSTM, attention and softmax. Parameter i in the order of the model file is sin(i + 1) / 2.
TEST_CASE("an encoder-decoder has the perplexity of an independent implementation", "[nn][translation]") {
  const bool other = GENERATE(false, true);
  const LayerOptions one_way = Lstm{4}, two_ways = Bidirectional{{Lstm{2}}};
  const EncoderDecoderOptions options{.source_symbols = 7,
                                      .target_symbols = 6,
                                      .embedding_size = 3,
                                      .encoder = {other ? two_ways : one_way},
                                      .decoder = {Lstm{4}},
                                      .tied = other};
  EncoderDecoder<double> model(Device::cpu(), options, Undrawn{});
  Tensor<double>& values = model.parameters().values();
  REQUIRE(values.size() == (other ? 348 : 413));
  for (Index i = 0; i < values.size(); ++i) values(i) = std::sin(static_cast<double>(i + 1)) / 2;
  // The computation had no scale in its attention, so queries make up for it.
  for (const Parameter& parameter : model.parameters().list()) {
    if (!parameter.name.starts_with("attention/query/")) continue;
    const auto key_size = static_cast<double>(parameter.shape[0]);
    for (Index i = 0; i < parameter.shape.count(); ++i) values(parameter.offset + i) *= std::sqrt(key_size);
  }
  Batch batch;
  const auto fill = [&](std::string_view name, Index length, int by_step, int by_sequence, int first,
                        int symbols) {
    batch.integers(name).resize({length, 2});
    for (int t = 0; t < length; ++t) {
      for (int b = 0; b < 2; ++b)
        batch.integers(name)(t, b) = (by_step * t + by_sequence * b + first) % symbols;
    }
  };
  const auto set_lengths = [&](std::string_view name, std::int32_t first, std::int32_t second) {
    batch.integers(name).resize({2});
    batch.integers(name)(0) = first;
    batch.integers(name)(1) = second;
  };
  fill(batch_names::source, 4, 3, 5, 1, 7);
  fill(batch_names::target, 3, 2, 1, 0, 6);
  fill(batch_names::classes, 3, 4, 3, 2, 6);
  set_lengths(batch_names::source_lengths, 4, 2);
  set_lengths(batch_names::target_lengths, 3, 2);
  const BatchLoss loss = model.loss(batch);
  CHECK(loss.count == 5);
  const double perplexity = other ? 5.778724638384693 : 6.847835968345569;
  CHECK(std::exp(loss.mean()) == Approx(perplexity).epsilon(1e-13));
}

TEST_CASE("parameters of an encoder-decoder have the names of the model file", "[nn][translation]") {
  const auto names = [](const EncoderDecoderOptions& options) {
    const EncoderDecoder<float> model(Device::cpu(), options);
    std::vector<std::string> result;
    for (const Parameter& p : model.parameters().list()) result.push_back(p.name + " " + to_string(p.shape));
    const ParameterSet<float> layout = parameter_layout<float>(options);
    CHECK(layout.list().size() == result.size());
    CHECK(layout.count() == model.parameters().count());
    return result;
  };
  EncoderDecoderOptions options{.source_symbols = 6,
                                .target_symbols = 5,
                                .embedding_size = 3,
                                .encoder = {Bidirectional{{Linear{2}}}},
                                .decoder = {Linear{7}, Linear{4}}};
  CHECK(names(options) ==
        std::vector<std::string>{"source_embedding/vectors [6, 3]", "encoder/0/forward/0/weight [2, 3]",
                                 "encoder/0/forward/0/bias [2]", "encoder/0/backward/0/weight [2, 3]",
                                 "encoder/0/backward/0/bias [2]", "target_embedding/vectors [5, 3]",
                                 "decoder/0/weight [7, 3]", "decoder/0/bias [7]", "decoder/1/weight [4, 7]",
                                 "decoder/1/bias [4]", "attention/query/weight [4, 4]",
                                 "attention/query/bias [4]", "attention/vector/weight [4, 8]",
                                 "attention/vector/bias [4]", "output/weight [5, 4]", "output/bias [5]"});
  options.tied = true;
  const std::vector<std::string> tied = names(options);
  CHECK(tied[12] == "attention/vector/weight [3, 8]");
  CHECK(tied.back() == "output/bias [5]");
  CHECK(tied.size() == 15);
}

TEST_CASE("a decoder starts from the encoder's states where they fit", "[nn][translation]") {
  const auto carries = [](std::vector<LayerOptions> encoder, std::vector<LayerOptions> decoder) {
    return EncoderDecoder<float>(Device::cpu(),
                                 {.encoder = std::move(encoder), .decoder = std::move(decoder)})
        .carries_states();
  };
  CHECK(carries({Lstm{4}}, {Lstm{4}}));
  CHECK(carries({Dropout{}, Gru{4}, Linear{3}}, {Gru{4}}));
  CHECK_FALSE(carries({Lstm{4}}, {Lstm{5}}));
  CHECK_FALSE(carries({Lstm{4}}, {Gru{4}}));
  CHECK_FALSE(carries({Linear{4}}, {Linear{4}}));
  CHECK_FALSE(carries({Bidirectional{{Lstm{2}}}}, {Lstm{4}}));
  CHECK_FALSE(carries({DeltaProductCell{.hidden_size = 4}}, {Gru{4}}));
  CHECK(carries({DeltaProductCell{}}, {DeltaProductCell{}}));
}

TEST_CASE("padding of sources and answers changes no loss and no gradient", "[nn][translation]") {
  for (const EncoderDecoderOptions& options : translation_models()) {
    EncoderDecoder<double> model(Device::cpu(), options, 5);
    Batch batch = translation_batch(options, encoder_steps, decoder_steps, pair_count, true);
    const double loss = model.loss_and_gradient(batch).sum;
    const Tensor<double> gradient = model.parameters().gradients().copy();
    const auto change = [&](std::string_view name, std::string_view lengths, std::int32_t symbols) {
      Tensor<std::int32_t>& tensor = batch.integers(name);
      for (Index b = 0; b < pair_count; ++b) {
        for (Index t = batch.integers(lengths)(b); t < tensor.shape()[0]; ++t)
          tensor(t, b) = (tensor(t, b) + 1) % symbols;
      }
    };
    change(batch_names::source, batch_names::source_lengths, 6);
    change(batch_names::target, batch_names::target_lengths, 5);
    change(batch_names::classes, batch_names::target_lengths, 5);
    CHECK(model.loss_and_gradient(batch).sum == loss);
    CHECK(equal(model.parameters().gradients(), gradient));
  }
}

TEST_CASE("a sentence has the loss and the gradients that it has beside longer ones", "[nn][translation]") {
  // The longest one goes through the delta product in chunks, the others alone step by step.
  constexpr Index longest = 40;
  for (const EncoderDecoderOptions& options : translation_models()) {
    EncoderDecoder<double> model(Device::cpu(), options, 5);
    Batch batch = translation_batch(options, longest, longest, 3, false);
    for (const std::string_view name : {batch_names::source_lengths, batch_names::target_lengths}) {
      batch.integers(name).resize({3});
      std::ranges::copy(std::array<std::int32_t, 3>{5, longest, 1}, batch.integers(name).begin());
    }
    const double together = model.loss_and_gradient(batch).sum;
    const Tensor<double> expected = model.parameters().gradients().copy();
    double sum = 0;
    Tensor<double> gradient(expected.shape());
    for (Index b = 0; b < 3; ++b) {
      const std::int32_t length = batch.integers(batch_names::source_lengths)(b);
      Batch alone;
      for (const std::string_view name : {batch_names::source, batch_names::target, batch_names::classes}) {
        alone.integers(name).resize({length, 1});
        for (Index t = 0; t < length; ++t) alone.integers(name)(t, 0) = batch.integers(name)(t, b);
      }
      sum += model.loss_and_gradient(alone).sum;
      for (Index i = 0; i < gradient.size(); ++i)
        gradient.data()[i] += model.parameters().gradients().data()[i];
    }
    CAPTURE(options.encoder.size(), options.decoder.size(), options.tied, options.label_smoothing);
    const double bound = 10 * tolerance::rounding<double>(longest * 9);
    CHECK(std::abs(sum - together) <= bound * together);
    CHECK(relative_error(gradient, expected) <= bound);
  }
}

TEST_CASE("an encoder-decoder learns four pairs by heart", "[nn][translation]") {
  // Answers of 2 to 4 symbols and the end symbol 1, each after the begin symbol 0.
  const std::vector<std::vector<std::int32_t>> sources = {{2, 3, 4}, {4, 3, 2, 2}, {5}, {3, 5}};
  const std::vector<std::vector<std::int32_t>> answers = {{2, 2, 3}, {4, 2}, {3, 4, 5, 2}, {5, 5}};
  Batch batch;
  const auto fill = [&](std::string_view name, Index length, const auto& symbol) {
    batch.integers(name).resize({length, 4});
    for (Index t = 0; t < length; ++t) {
      for (Index b = 0; b < 4; ++b)
        batch.integers(name)(t, b) = symbol(static_cast<std::size_t>(t), static_cast<std::size_t>(b));
    }
  };
  fill(batch_names::source, 4, [&](auto t, auto b) { return t < sources[b].size() ? sources[b][t] : 1; });
  fill(batch_names::target, 5, [&](auto t, auto b) {
    return t == 0 ? 0 : t <= answers[b].size() ? answers[b][t - 1] : 1;
  });
  fill(batch_names::classes, 5, [&](auto t, auto b) {
    return t < answers[b].size() ? answers[b][t] : t == answers[b].size() ? 1 : -1;
  });
  batch.integers(batch_names::source_lengths).resize({4});
  for (Index b = 0; b < 4; ++b)
    batch.integers(batch_names::source_lengths)(b) =
        static_cast<std::int32_t>(sources[static_cast<std::size_t>(b)].size());
  const bool tied = GENERATE(false, true);
  const OrthogonalCell cell{.hidden_size = 16};
  EncoderDecoder<float> model(Device::cpu(), {.source_symbols = 6,
                                              .target_symbols = 6,
                                              .embedding_size = 8,
                                              .encoder = {cell},
                                              .decoder = {cell},
                                              .tied = tied});
  const auto optimizer = make_optimizer<float>(Adam{.lr = 1e-2, .lr_orthogonal = 1e-3}, model.parameters());
  Tensor<double> scale(Shape{2});
  double loss = 0;
  for (int step = 0; step < 400; ++step) {
    loss = model.loss_and_gradient(batch).mean();
    gradient_scale<float>(model.parameters().gradients(), model.last_loss(), 1, scale);
    optimizer->step(model.parameters(), {.gradient_scale = scale.view().slice(1, 1)});
  }
  CHECK(loss < 0.01);
}

TEST_CASE("dropout of an encoder-decoder changes gradients with its key, and no evaluation",
          "[nn][translation]") {
  EncoderDecoderOptions options = translation_models()[1];
  options.dropout = 0.5;
  EncoderDecoder<double> model(Device::cpu(), options, 5);
  const Batch batch = translation_batch(options, encoder_steps, decoder_steps, pair_count, true);
  const double expected = model.loss(batch).sum;
  const auto gradients = [&](std::uint64_t key) {
    model.set_noise(key);
    model.loss_and_gradient(batch);
    return model.parameters().gradients().copy();
  };
  const Tensor<double> first = gradients(1);
  CHECK_FALSE(equal(gradients(2), first));
  CHECK(equal(gradients(1), first));
  CHECK(model.loss(batch).sum == expected);
  options.dropout = 0;
  EncoderDecoder<double> without(Device::cpu(), options, Undrawn{});
  copy<double>(model.parameters().values(), without.parameters().values());
  CHECK(without.loss(batch).sum == expected);
  // The mask is a linear map that is known to be the same in each pass of one key.
  model.set_noise(3);
  model.loss_and_gradient(batch);
  const Tensor<double> found = model.parameters().gradients().copy();
  const auto loss = [&] { return model.loss_and_gradient(batch).sum; };
  CHECK(relative_error(found, finite_differences(model.parameters().values(), loss)) <
        tolerance::finite_difference);
}

TEST_CASE("an encoder-decoder refuses what does not fit, naming it", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<float> model(Device::cpu(), options);
  const Batch good = translation_batch(options, encoder_steps, decoder_steps, 2, true);
  const auto refused = [&](const auto& spoil, const char* words) {
    Batch batch = good.copy(Device::cpu());
    spoil(batch);
    CHECK_THROWS_WITH(model.loss(batch), contains(words));
  };
  refused([](Batch& b) { b.integers(batch_names::source)(1, 1) = 6; }, "symbol 6");
  refused([](Batch& b) { b.integers(batch_names::target)(0, 0) = 5; }, "symbol 5");
  refused([](Batch& b) { b.integers(batch_names::classes)(0, 0) = 5; }, "class 5");
  refused([](Batch& b) { b.integers(batch_names::source_lengths)(1) = 5; }, "length 5");
  refused([](Batch& b) { b.integers(batch_names::target_lengths)(1) = 4; }, "length 4");
  refused([](Batch& b) { b.integers(batch_names::source).resize({4}); }, "source");
  refused([](Batch& b) { b.integers(batch_names::target).resize({3, 3}); }, "target");
  refused([](Batch& b) { b.integers(batch_names::classes).resize({3, 3}); }, "classes");
  for (const std::string_view missing : {batch_names::source, batch_names::target, batch_names::classes}) {
    Batch batch;
    for (const std::string_view name : {batch_names::source, batch_names::target, batch_names::classes})
      batch.integers(name == missing ? "other" : name) = good.copy(Device::cpu()).integers(name).copy();
    const std::string words = "the batch has no tensor '" + std::string(missing) + "'";
    CHECK_THROWS_WITH(model.loss(batch), contains(words) && contains("'other'"));
  }
  CHECK(model.loss(good).count > 0);

  const auto impossible = [](EncoderDecoderOptions wrong, const char* words) {
    CHECK_THROWS_WITH(EncoderDecoder<float>(Device::cpu(), wrong), contains(words));
  };
  EncoderDecoderOptions wrong = options;
  wrong.decoder = {Bidirectional{{Gru{2}}}};
  impossible(wrong, "decoder reads backward in time");
  wrong = options;
  wrong.encoder = {};
  impossible(wrong, "encoder: no layers");
  wrong = options;
  wrong.label_smoothing = 1;
  impossible(wrong, "label_smoothing");
  wrong = options;
  wrong.target_symbols = 0;
  impossible(wrong, "target_symbols");
}

TEST_CASE("an encoder-decoder describes its layers and options", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[2];
  EncoderDecoder<float> model(Device::cpu(), options);
  std::vector<std::string> kinds;
  for (const LayerDescription& layer : model.describe(3, 2)) kinds.push_back(layer.kind);
  CHECK(kinds == std::vector<std::string>{"lstm", "gru", "lstm", "rms_norm", "gru"});
  CHECK_FALSE(model.orthogonality_error());
  for (const char* words : {R"("decoder":[{)", R"("tied":false)", R"("source_symbols":6)"})
    CHECK_THAT(model.options_text(), contains(words));
  EncoderDecoderOptions read;
  read_fields(parse_json(model.options_text()), read);
  CHECK(json_object(read).dump() == model.options_text());
  EncoderDecoder<float> orthogonal(Device::cpu(), translation_models()[0]);
  CHECK(orthogonal.orthogonality_error().value() < 1e-5);
}
