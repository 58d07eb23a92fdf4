// What a model computes of a caller's sequences: as whole sequences, step by step, or as translations.

#include "c_api/model.hpp"
#include "core/checked_json.hpp"
#include "orthornn/tasks/task.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "train/generate_text.hpp"
#include "train/predictions.hpp"

/// A generator with what its handle needs besides.
struct orthornn_generator {
  orthornn_generator(orthornn_model& of, orthornn::Index sequences) : model(of), batch(sequences) { reset(); }

  /// Starts all sequences anew. Where that throws, they are as they were.
  void reset() {
    steps = std::make_unique<orthornn::SequenceModel<float>::Generator>(model.sequence_model(), batch);
  }

  orthornn_model& model;
  orthornn::Index batch;
  std::unique_ptr<orthornn::SequenceModel<float>::Generator> steps;
};

namespace orthornn::c_api {
namespace {

/// Sequences of a caller, as it gives them.
struct CallerSequences {
  Index length, batch;
  const float* features;
  const std::int32_t* symbols;
  const std::int32_t* lengths;
};

/// Throws ArgumentError unless the one array is given that the model reads.
void check_one_input(const std::optional<Index>& numbers, const void* features, const void* symbols) {
  const bool reads_features = numbers.has_value();
  not_null(reads_features ? "features" : "symbols",
           static_cast<const char*>(reads_features ? features : symbols));
  if ((reads_features ? symbols : features) != nullptr) {
    throw ArgumentError(fmt::format("{} must be NULL: this model reads {}",
                                    reads_features ? "symbols" : "features",
                                    reads_features ? "features" : "symbols"));
  }
}

PredictInput input_of(orthornn_model& handle, const CallerSequences& given) {
  const auto [length, batch, features, symbols, lengths] = given;
  const std::optional<Index> numbers = handle.caller_numbers();
  check_one_input(numbers, features, symbols);
  PredictInput input{.steps_first = length, .array = "features"};
  if (numbers) {
    input.features = one_after_the_other<float>(
        view_of<const float>("features", features, {length, batch, *numbers}, Device::cpu()));
  } else {
    input.symbols = one_after_the_other<std::int32_t>(
        view_of<const std::int32_t>("symbols", symbols, {length, batch}, Device::cpu()));
  }
  for (Index b = 0; b < batch; ++b) {
    const Index steps = lengths == nullptr ? length : lengths[b];
    if (steps < 0 || steps > length)
      throw ValueError(fmt::format("lengths[{}] is {}, expected 0 to {}", b, steps, length));
    input.lengths.push_back(static_cast<std::int32_t>(steps));
  }
  bring_to_model(input, handle.sequence_model().options(), handle.order(), handle.task.get());
  return input;
}

Shape output_shape(orthornn_model& handle, Index length, Index batch) {
  const ReadoutOptions& readout = handle.sequence_model().options().readout;
  const Index outputs = output_size_of(readout);
  return answers_every_step(readout) ? Shape{length, batch, outputs} : Shape{batch, outputs};
}

/// An array of the caller for each state, of so many rows; empty where none are wanted.
std::vector<TensorView<float>> state_views(const char* name, const SequenceModel<float>& model, Index rows,
                                           float* const* arrays) {
  std::vector<TensorView<float>> views;
  if (arrays == nullptr) return views;
  for (Index cell = 0; cell < model.cell_count(); ++cell) {
    const Layer<float>& layer = model.cell(cell);
    for (Index i = 0; i < layer.state_count(); ++i) {
      views.push_back(view_of<float>(name, arrays[views.size()], layer.state_shape(i, rows), Device::cpu()));
    }
  }
  return views;
}

void copy_states(const std::vector<NamedStates>& states, const std::vector<TensorView<float>>& views) {
  for (std::size_t i = 0; i < views.size(); ++i) copy<float>(states[i].values, views[i]);
}

/// Steps T of a call: one or more, and as many as lengths in 32 bits can say.
Index checked_length(std::int64_t length) {
  return size_of("length", length, 1, std::numeric_limits<std::int32_t>::max());
}

Translator& translator_of(orthornn_model& handle) {
  handle.prepare();
  if (!handle.translator) {
    EncoderDecoder<float>& model = handle.encoder_decoder();
    const auto* task = dynamic_cast<const TranslationTask*>(handle.task.get());
    if (task == nullptr)
      throw ValueError("the model has no vocabularies; expected the file of a training on translations");
    handle.translator = std::make_unique<Translator>(model, *task);
  }
  return *handle.translator;
}

/// False for null.
bool is_on_gpu(const orthornn_generator* generator) {
  return generator != nullptr && c_api::is_on_gpu(&generator->model);
}

/// State number i of a generator, whose `count` numbers the caller has.
TensorView<float> generator_state(orthornn_generator* generator, std::int64_t state, std::int64_t count) {
  ModelState<float>& states = not_null("generator", generator).steps->state();
  const Index place = size_of("state", state, 0, std::ssize(states) - 1);
  const TensorView<float> found = states[static_cast<std::size_t>(place)];
  if (count != found.size()) {
    throw ArgumentError(fmt::format("count is {}, expected {} for a state of shape {}", count, found.size(),
                                    to_string(found.shape())));
  }
  return found;
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_model_output_shape(orthornn_model* model, int64_t length, int64_t batch,
                                            int64_t shape[3], int32_t* rank) {
  return with_model(model, [&](orthornn_model& handle) {
    const Shape found = output_shape(handle, checked_length(length), size_of("batch", batch, 0));
    not_null("shape", shape);
    not_null("rank", rank) = found.rank();
    std::copy(found.begin(), found.end(), shape);
  });
}

orthornn_status orthornn_model_outputs(orthornn_model* model, int64_t length, int64_t batch,
                                       const float* features, const int32_t* symbols, const int32_t* lengths,
                                       float* outputs, float* const* last_states, float* const* states) {
  return with_model(model, [&](orthornn_model& handle) {
    const Shape shape = output_shape(handle, checked_length(length), size_of("batch", batch, 0));
    const auto results = view_of<float>("outputs", outputs, shape, Device::cpu());
    const SequenceModel<float>& sequences = handle.sequence_model();
    const auto last = state_views("an array of last_states", sequences, batch, last_states);
    const auto all = state_views("an array of states", sequences, length * batch, states);
    if (batch == 0) return;
    handle.prepare();
    std::vector<PredictInput> inputs;
    inputs.push_back(input_of(handle, {length, batch, features, symbols, lengths}));
    const Predictions found =
        predictions_of(handle.sequence_model(), inputs, handle.task.get(), {.states = states != nullptr});
    copy<float>(found.outputs.view().reshaped(shape), results);
    copy_states(found.last, last);
    copy_states(found.states, all);
  });
}

orthornn_status orthornn_model_translate(orthornn_model* model, const char* const* sentences, int64_t count,
                                         int64_t beam, const char** json) {
  return with_model(model, [&](orthornn_model& handle) {
    not_null("json", json);
    size_of("count", count, 0);
    std::vector<std::string> texts;
    for (Index i = 0; i < count; ++i)
      texts.emplace_back(&not_null("a sentence", (&not_null("sentences", sentences))[i]));
    Json all = Json::array();
    for (const auto& found : translator_of(handle).translate(texts, {.beam = size_of("beam", beam, 1)})) {
      Json of_sentence = Json::array();
      for (const Translation& translation : found) {
        of_sentence.push_back({{"text", translation.text},
                               {"log_probability", translation.log_probability},
                               {"score", translation.score},
                               {"complete", translation.complete}});
      }
      all.push_back(std::move(of_sentence));
    }
    handle.translations = json_text(all, -1);
    *json = handle.translations.c_str();
  });
}

orthornn_status orthornn_model_generate(orthornn_model* model, const char* prompt, int64_t symbols,
                                        double temperature, uint64_t seed, const char** text,
                                        int64_t* bytes) {
  return with_model(model, [&](orthornn_model& handle) {
    const GenerateOptions options{.symbols = size_of("symbols", symbols, 1),
                                  .temperature = temperature,
                                  .prompt = &not_null("prompt", prompt),
                                  .seed = seed};
    if (!domain::not_negative.contains(temperature))
      throw ArgumentError(fmt::format("temperature is {}, expected a number, at least 0", temperature));
    not_null("text", text);
    not_null("bytes", bytes);
    const Task* const task = handle.task.get();
    if (task == nullptr || task->text() == nullptr)
      throw ValueError("the model knows no text; expected the file of a training on texts");
    handle.prepare();
    std::string found;
    generate_text(handle.sequence_model(), *task, options, [&](std::string_view more) { found += more; });
    handle.generated = std::move(found);
    *text = handle.generated.c_str();
    *bytes = std::ssize(handle.generated);
  });
}

orthornn_status orthornn_generator_create(orthornn_model* model, int64_t batch,
                                          orthornn_generator** generator) {
  return with_model(model, [&](orthornn_model& handle) {
    const Index sequences = size_of("batch", batch, 1);
    not_null("generator", generator) = nullptr;
    if (!handle.order().empty()) {
      throw ValueError(
          fmt::format("the model reads {} steps in an order of its own, so that it cannot run step "
                      "by step; give it whole sequences",
                      handle.order().size()));
    }
    handle.prepare();
    *generator = std::make_unique<orthornn_generator>(handle, sequences).release();
  });
}

void orthornn_generator_free(orthornn_generator* generator) {
  const CallersGpu gpu(is_on_gpu(generator));
  delete generator;
}

orthornn_status orthornn_generator_step(orthornn_generator* generator, const float* features,
                                        const int32_t* symbols, float* outputs) {
  return guarded(is_on_gpu(generator), [&] {
    orthornn_generator& g = not_null("generator", generator);
    orthornn_model& handle = g.model;
    const Index classes = output_shape(handle, 1, g.batch)[-1];
    const auto results = view_of<float>("outputs", outputs, {g.batch, classes}, Device::cpu());
    handle.prepare();
    const PredictInput input = input_of(handle, {1, g.batch, features, symbols, nullptr});
    const TensorView<const float> found = input.symbols.empty()
                                              ? g.steps->step(TensorView<const float>(input.features))
                                              : g.steps->step(TensorView<const std::int32_t>(input.symbols));
    copy<float>(found, results);
    if (handle.task) handle.task->restore_outputs(results);
  });
}

orthornn_status orthornn_generator_reset(orthornn_generator* generator) {
  return guarded(is_on_gpu(generator), [&] {
    orthornn_generator& g = not_null("generator", generator);
    g.model.prepare();
    g.reset();
  });
}

orthornn_status orthornn_generator_get_state(orthornn_generator* generator, int64_t state, float* values,
                                             int64_t count) {
  return guarded(is_on_gpu(generator), [&] {
    const TensorView<float> found = generator_state(generator, state, count);
    copy<float>(found, view_of<float>("values", values, found.shape(), Device::cpu()));
  });
}

orthornn_status orthornn_generator_set_state(orthornn_generator* generator, int64_t state,
                                             const float* values, int64_t count) {
  return guarded(is_on_gpu(generator), [&] {
    const TensorView<float> found = generator_state(generator, state, count);
    copy<float>(view_of<const float>("values", values, found.shape(), Device::cpu()), found);
  });
}
