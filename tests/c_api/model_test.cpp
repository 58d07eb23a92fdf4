// Models through the C interface, against the C++ one.

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "c_api/c_case.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/translator.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "train/generate_text.hpp"

namespace orthornn::testing {
namespace {

using nlohmann::json;

/// A handle that gives its model back.
struct Model {
  orthornn_model* handle = nullptr;
  Model() = default;
  explicit Model(const std::filesystem::path& file) {
    require_status(orthornn_model_load(file.c_str(), nullptr, ORTHORNN_PRECISION_FP32, &handle));
  }
  ~Model() { orthornn_model_free(handle); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  json description() const {
    const char* text = nullptr;
    require_status(orthornn_model_describe(handle, &text));
    return json::parse(text);
  }
};

struct Generator {
  orthornn_generator* handle = nullptr;
  Generator(const Model& model, std::int64_t batch) {
    require_status(orthornn_generator_create(model.handle, batch, &handle));
  }
  ~Generator() { orthornn_generator_free(handle); }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
};

/// A file of a short training on waves with two inputs and two target numbers for each step. One input is
/// missing here and there.
std::filesystem::path trained_on_waves(const TemporaryFolder& folder) {
  std::ofstream csv(folder / "waves.csv");
  csv << "series,x,y,target\n";
  for (int i = 0; i < 30; ++i) {
    for (int t = 0; t < 6; ++t) {
      csv << "s" << i << "," << 50 + 10 * std::sin(0.3 * t + i) << ",";
      if ((i + t) % 5 != 0) csv << t;
      csv << "," << 1000 + 100 * std::cos(0.3 * t + i) << "\n";
    }
  }
  csv.close();
  SequencesOptions options{.goal = Goal::step_values, .id = "series", .missing = Missing::mask, .batch = 8};
  options.data = folder / "waves.csv";
  const SequencesTask task(options);
  task.load();
  SequenceModel<float> model(
      Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 5}, Lstm{.hidden_size = 4}}), 3);
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 1e-2}});
  trainer.run(3, [](const TrainingStep&) { return true; });
  save_checkpoint(folder / "waves.h5", trainer);
  return folder / "waves.h5";
}

/// Features [T, B, 2] in the units of the waves, with a missing number.
Tensor<float> some_waves(Index length, Index batch) {
  Tensor<float> features = normal_tensor<float>({length, batch, 2}, 4, 10);
  features(0, 0, 1) = std::numeric_limits<float>::quiet_NaN();
  return features;
}

}  // namespace

TEST_CASE("A model of own data predicts through the C interface in the units of its training", "[c_api]") {
  const TemporaryFolder folder;
  const Model model(trained_on_waves(folder));
  const json about = model.description();
  CHECK(about["kind"] == "sequence-model");
  CHECK(about["input"] == "features");
  CHECK(about["input_size"] == 2);
  CHECK(about["outputs"] == 1);
  CHECK(about["every_step"] == true);
  CHECK(about["causal"] == true);
  CHECK(about["states"].size() == 3);
  CHECK(about["states"][2] == json{{"name", "c"}, {"layer", 1}, {"shape", {4}}});
  CHECK(about["task"]["name"] == "sequences");
  CHECK(about["steps"] == 3);

  const Index length = 7, batch = 3;
  const Tensor<float> features = some_waves(length, batch);
  const std::vector<std::int32_t> lengths = {7, 0, 4};
  std::int64_t shape[3];
  std::int32_t rank = 0;
  require_status(orthornn_model_output_shape(model.handle, length, batch, shape, &rank));
  REQUIRE((rank == 3 && shape[0] == length && shape[1] == batch && shape[2] == 1));
  Tensor<float> outputs({length, batch, 1}), last_h({batch, 5}), last_1h({batch, 4}), last_1c({batch, 4}),
      h({length, batch, 5}), h1({length, batch, 4}), c1({length, batch, 4});
  float* const last[] = {last_h.data(), last_1h.data(), last_1c.data()};
  float* const all[] = {h.data(), h1.data(), c1.data()};
  require_status(orthornn_model_outputs(model.handle, length, batch, features.data(), nullptr, lengths.data(),
                                        outputs.data(), last, all));

  ModelFileInfo info;
  const auto expected = load_model(folder / "waves.h5", {}, &info);
  const auto task = task_of_model(info);
  Batch read;
  const Tensor<float> normalized = task->own_features(features);
  REQUIRE(normalized.shape() == Shape{length, batch, 4});
  read.reals(batch_names::features).resize(normalized.shape());
  for (Index t = 0; t < length; ++t) {
    for (Index b = 0; b < batch; ++b) {
      for (Index k = 0; k < 4 && t < lengths[static_cast<std::size_t>(b)]; ++k)
        read.reals(batch_names::features)(t, b, k) = normalized(t, b, k);
    }
  }
  read.integers(batch_names::lengths).resize({batch});
  std::copy(lengths.begin(), lengths.end(), read.integers(batch_names::lengths).begin());
  Tensor<float> found =
      expected->forward(read).size() == 0 ? Tensor<float>() : Tensor<float>({length, batch, 1});
  copy<float>(expected->forward(read), found);
  task->restore_outputs(found);
  CHECK(same_bits(outputs, found));
  CHECK(std::abs(outputs(0, 0, 0) - 1000) < 500);
  ModelState<float> state;
  expected->final_state(state);
  CHECK(same_bits(last_h, state[0]));
  CHECK(same_bits(last_1c, state[2]));
  for (Index k = 0; k < 4; ++k) {
    CHECK(c1(3, 2, k) == last_1c(2, k));
    CHECK(c1(4, 2, k) == 0);
  }

  // The same numbers step by step, also from states that were taken out and put back.
  const Generator generator(model, batch);
  Tensor<float> step({batch, 1}), carried({batch, 5});
  for (int round = 0; round < 2; ++round) {
    for (Index t = 0; t < length; ++t) {
      require_status(
          orthornn_generator_step(generator.handle, features.view()[t].data(), nullptr, step.data()));
      CHECK(step(0, 0) == outputs(t, 0, 0));
      require_status(orthornn_generator_get_state(generator.handle, 0, carried.data(), carried.size()));
      CHECK(carried(0, 2) == h(t, 0, 2));
      require_status(orthornn_generator_set_state(generator.handle, 0, carried.data(), carried.size()));
    }
    require_status(orthornn_generator_reset(generator.handle));
  }
}

TEST_CASE("A model is made, filled, saved and loaded through the C interface to the bit", "[c_api]") {
  const TemporaryFolder folder;
  const CopyingTask task({.delay = 5, .batch = 4});
  const ModelOptions options = model_for(task.data(), {OrthogonalCell{.hidden_size = 6}});
  const SequenceModel<float> source(Device::cpu(), options, 11);
  Model made;
  require_status(orthornn_model_create(to_json(options).c_str(), 3, nullptr, 0, &made.handle));
  CHECK(made.description()["input"] == "symbols");
  CHECK(made.description()["task"].is_null());
  for (const Parameter& parameter : source.parameters().list()) {
    const TensorView<const float> value = source.parameters().value(source.parameters().find(parameter.name));
    require_status(
        orthornn_model_set_parameter(made.handle, parameter.name.c_str(), value.data(), value.size()));
  }
  require_status(orthornn_model_save(made.handle, (folder / "made.h5").c_str()));
  const auto loaded = load_model(folder / "made.h5");
  CHECK(same_bits(loaded->parameters().values(), source.parameters().values()));
  CHECK(loaded->options_text() == source.options_text());

  const Model again(folder / "made.h5");
  std::vector<float> bias(6);
  require_status(orthornn_model_get_parameter(again.handle, "cell/bias", bias.data(), 6));
  CHECK(std::equal(bias.begin(), bias.end(),
                   source.parameters().value(source.parameters().find("cell/bias")).begin()));
  const std::vector<std::int32_t> symbols = {0, 1, 2, 3, 4, 5};
  Batch batch;
  batch.integers(batch_names::symbols).resize({3, 2});
  std::copy(symbols.begin(), symbols.end(), batch.integers(batch_names::symbols).begin());
  Tensor<float> outputs({3, 2, task.data().classes}), expected(outputs.shape());
  copy<float>(loaded->forward(batch), expected);
  require_status(orthornn_model_outputs(again.handle, 3, 2, nullptr, symbols.data(), nullptr, outputs.data(),
                                        nullptr, nullptr));
  CHECK(same_bits(outputs, expected));
  require_status(
      orthornn_model_outputs(again.handle, 3, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  // A parameter that was set counts in the next outputs.
  bias.assign(6, 1);
  require_status(orthornn_model_set_parameter(again.handle, "cell/bias", bias.data(), 6));
  require_status(orthornn_model_outputs(again.handle, 3, 2, nullptr, symbols.data(), nullptr, outputs.data(),
                                        nullptr, nullptr));
  CHECK_FALSE(same_bits(outputs, expected));
}

TEST_CASE("A translation through the C interface is that of the Translator", "[c_api]") {
  const TemporaryFolder folder;
  write_text(folder / "pairs.txt", number_pairs(200));
  TranslationOptions options{.direction = Direction::second_to_first};
  options.data = folder.path();
  options.batch = 16;
  const TranslationTask task(options);
  const OrthogonalCell cell{.hidden_size = 8};
  EncoderDecoder<float> model(Device::cpu(),
                              {.source_symbols = task.source_tokenizer().size(),
                               .target_symbols = task.target_tokenizer().size(),
                               .embedding_size = 6,
                               .encoder = {cell},
                               .decoder = {cell}},
                              3);
  Trainer trainer(model, task, {});
  save_checkpoint(folder / "pairs.h5", trainer);
  const Model loaded(folder / "pairs.h5");
  CHECK(loaded.description()["kind"] == "encoder-decoder");
  const std::vector<std::string> sentences = {"one hundred twelve", "seven"};
  const auto expected = Translator(model, task).translate(sentences, {.beam = 2});
  const char* const texts[] = {sentences[0].c_str(), sentences[1].c_str()};
  const char* found = nullptr;
  require_status(orthornn_model_translate(loaded.handle, texts, 2, 2, &found));
  const json answers = json::parse(found);
  REQUIRE(answers.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(answers[i].size() == expected[i].size());
    CHECK(answers[i][0]["text"] == expected[i][0].text);
    CHECK(answers[i][0]["score"] == expected[i][0].score);
  }
  std::vector<float> outputs(8);
  std::int64_t shape[3];
  std::int32_t rank = 0;
  require_error(orthornn_model_output_shape(loaded.handle, 1, 1, shape, &rank), ORTHORNN_INVALID_VALUE,
                "is an encoder-decoder");
  // Made from its options again.
  Model made;
  require_status(orthornn_model_create(model.options_text().c_str(), 1, nullptr, 0, &made.handle));
  require_error(orthornn_model_translate(made.handle, texts, 2, 2, &found), ORTHORNN_INVALID_VALUE,
                "no vocabularies");
}

TEST_CASE("A text through the C interface is that of the library", "[c_api]") {
  const TemporaryFolder folder;
  SequencesOptions options{.length = 8, .batch = 4};
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "to be or not to be\nthat is the question\n";
  options.data = write_text(folder / "own.txt", lines);
  const SequencesTask task(options);
  task.load();
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 5}}), 3);
  Trainer trainer(model, task, {});
  save_checkpoint(folder / "own.h5", trainer);
  model.prepare();
  const Model loaded(folder / "own.h5");
  const char* text = nullptr;
  std::int64_t bytes = 0;
  const auto generate = [&](const GenerateOptions& how) {
    return orthornn_model_generate(loaded.handle, how.prompt.c_str(), how.symbols, how.temperature, how.seed,
                                   &text, &bytes);
  };
  for (const GenerateOptions& how :
       {GenerateOptions{.symbols = 30, .temperature = 0.5, .prompt = "to"},
        GenerateOptions{.symbols = 30, .seed = 7}, GenerateOptions{.symbols = 30, .temperature = 0}}) {
    std::string expected;
    generate_text(model, task, how, [&](std::string_view more) { expected += more; });
    require_status(generate(how));
    CHECK(bytes == 30);
    CHECK(text == expected);
  }
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  require_error(generate({.symbols = 0}), bad, "symbols is 0");
  require_error(generate({.symbols = 1, .temperature = -1}), bad, "temperature is -1");
  require_error(orthornn_model_generate(loaded.handle, nullptr, 1, 1, 1, &text, &bytes), bad,
                "prompt is NULL");
  Model made;
  require_status(orthornn_model_create(model.options_text().c_str(), 1, nullptr, 0, &made.handle));
  require_error(orthornn_model_generate(made.handle, "", 1, 1, 1, &text, &bytes), ORTHORNN_INVALID_VALUE,
                "knows no text");
}

TEST_CASE("Options that a layer cannot have are named", "[c_api]") {
  const json cell = json::parse(to_json(ModelOptions{.cells = {DeltaProductCell{}}}))["cells"][0];
  require_status(orthornn_layer_check(cell.dump().c_str()));
  json wrong = cell;
  wrong["householder"] = 65;
  require_error(orthornn_layer_check(wrong.dump().c_str()), ORTHORNN_INVALID_VALUE,
                "'householder' is 65; expected a whole number from 1 to 64");
  require_error(orthornn_layer_check(R"({"kind": "theirs"})"), ORTHORNN_INVALID_VALUE, "'kind' is");
  require_error(orthornn_layer_check(nullptr), ORTHORNN_INVALID_ARGUMENT, "options is NULL");
}

TEST_CASE("A parameter that is set counts in the next step of a running generator", "[c_api]") {
  Model model;
  const ModelOptions options{.input = DenseInput{2}, .cells = {OrthogonalCell{.hidden_size = 3}}};
  require_status(orthornn_model_create(to_json(options).c_str(), 1, nullptr, 0, &model.handle));
  const Generator running(model, 1);
  const Index classes = model.description()["outputs"];
  Tensor<float> x = normal_tensor<float>({1, 2}, 1), state({1, 3}), found({1, classes}),
                expected({1, classes});
  require_status(orthornn_generator_step(running.handle, x.data(), nullptr, found.data()));
  require_status(orthornn_generator_get_state(running.handle, 0, state.data(), 3));
  const Tensor<float> vectors = normal_tensor<float>({3, 3}, 2);
  require_status(orthornn_model_set_parameter(model.handle, "cell/reflection_vectors", vectors.data(), 9));
  require_status(orthornn_generator_step(running.handle, x.data(), nullptr, found.data()));
  const Generator later(model, 1);  // its model is prepared with the new vectors
  require_status(orthornn_generator_set_state(later.handle, 0, state.data(), 3));
  require_status(orthornn_generator_step(later.handle, x.data(), nullptr, expected.data()));
  CHECK(same_bits(found, expected));
  const Tensor<float> zeros({3, 3});
  require_status(orthornn_model_set_parameter(model.handle, "cell/reflection_vectors", zeros.data(), 9));
  require_status(orthornn_generator_step(running.handle, x.data(), nullptr, found.data()),
                 ORTHORNN_INVALID_VALUE);
}

TEST_CASE("Padding of a model's features may be any number", "[c_api]") {
  Model model;
  const ModelOptions options{.input = DenseInput{2}, .cells = {OrthogonalCell{.hidden_size = 3}}};
  require_status(orthornn_model_create(to_json(options).c_str(), 1, nullptr, 0, &model.handle));
  Tensor<float> x = normal_tensor<float>({4, 2, 2}, 1);
  const std::vector<std::int32_t> lengths = {4, 1};
  std::int64_t shape[3];
  std::int32_t rank = 0;
  require_status(orthornn_model_output_shape(model.handle, 4, 2, shape, &rank));
  const Shape outputs(shape, shape + rank);
  Tensor<float> expected(outputs), found(outputs);
  const auto compute = [&](Tensor<float>& to) {
    return orthornn_model_outputs(model.handle, 4, 2, x.data(), nullptr, lengths.data(), to.data(), nullptr,
                                  nullptr);
  };
  require_status(compute(expected));
  for (Index t = 1; t < 4; ++t) x(t, 1, 1) = std::numeric_limits<float>::quiet_NaN();
  require_status(compute(found));
  CHECK(same_bits(found, expected));
  x(0, 1, 1) = std::numeric_limits<float>::quiet_NaN();
  require_error(compute(found), ORTHORNN_INVALID_VALUE, "not finite");
}

TEST_CASE("A function of a model that refuses an argument has written nothing", "[c_api]") {
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  Model model;
  const ModelOptions options{.input = DenseInput{2}, .cells = {OrthogonalCell{.hidden_size = 3}}};
  require_status(orthornn_model_create(to_json(options).c_str(), 1, nullptr, 0, &model.handle));
  std::int64_t shape[3] = {-7, -7, -7};
  std::int32_t rank = -7;
  require_error(orthornn_model_output_shape(model.handle, 1, 1, shape, nullptr), bad, "rank is NULL");
  CHECK(shape[0] == -7);
  require_error(orthornn_model_output_shape(model.handle, 1, 1, nullptr, &rank), bad, "shape is NULL");
  CHECK(rank == -7);
  std::vector<float> x(2), y(8, -7);
  float* const missing[] = {nullptr};
  require_error(
      orthornn_model_outputs(model.handle, 1, 1, x.data(), nullptr, nullptr, y.data(), missing, nullptr), bad,
      "an array of last_states is NULL");
  require_error(
      orthornn_model_outputs(model.handle, 1, 1, x.data(), nullptr, nullptr, y.data(), nullptr, missing), bad,
      "an array of states is NULL");
  CHECK(y == std::vector<float>(8, -7));
  require_error(orthornn_model_describe(model.handle, nullptr), bad, "json is NULL");
  orthornn_model* kept = model.handle;
  require_error(orthornn_model_load(nullptr, nullptr, 0, &kept), bad, "path is NULL");
  require_error(orthornn_model_load("x.h5", nullptr, 7, &kept), bad, "precision is 7");
  require_error(orthornn_model_create(nullptr, 1, nullptr, 0, &kept), bad, "options is NULL");
  CHECK(kept == model.handle);
}

TEST_CASE("Bad arguments of models are statuses that name the argument", "[c_api]") {
  const TemporaryFolder folder;
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  orthornn_model* none = nullptr;
  require_error(orthornn_model_load(nullptr, nullptr, 0, &none), bad, "path is NULL");
  require_error(orthornn_model_load("x.h5", nullptr, 0, nullptr), bad, "model is NULL");
  require_error(orthornn_model_load("x.h5", nullptr, 7, &none), bad, "precision is 7");
  require_error(orthornn_model_load((folder / "none.h5").c_str(), nullptr, 0, &none), ORTHORNN_FILE_ERROR,
                "none.h5");
  CHECK(none == nullptr);
  require_error(orthornn_model_create("{", 1, nullptr, 0, &none), ORTHORNN_INVALID_VALUE, "JSON");
  require_status(orthornn_model_create(R"({"kind": "theirs"})", 1, nullptr, 0, &none),
                 ORTHORNN_INVALID_VALUE);
  require_error(orthornn_model_save(nullptr, "x.h5"), bad, "model is NULL");
  orthornn_model_free(nullptr);
  orthornn_generator_free(nullptr);

  Model model;
  const ModelOptions options{.input = DenseInput{2}, .cells = {OrthogonalCell{.hidden_size = 3}}};
  require_status(orthornn_model_create(to_json(options).c_str(), 1, nullptr, 0, &model.handle));
  std::vector<float> x(6), y(6), state(3);
  const std::vector<std::int32_t> long_one = {4};
  const auto outputs = [&](std::int64_t length, std::int64_t batch, const float* features,
                           const std::int32_t* symbols, const std::int32_t* lengths, float* to) {
    return orthornn_model_outputs(model.handle, length, batch, features, symbols, lengths, to, nullptr,
                                  nullptr);
  };
  require_status(outputs(3, 1, x.data(), nullptr, nullptr, y.data()));
  require_error(outputs(0, 1, x.data(), nullptr, nullptr, y.data()), bad, "length is 0");
  require_error(outputs(3, -1, x.data(), nullptr, nullptr, y.data()), bad, "batch is -1");
  require_error(outputs(3, 1, nullptr, nullptr, nullptr, y.data()), bad, "features is NULL");
  require_error(outputs(3, 1, x.data(), long_one.data(), nullptr, y.data()), bad, "symbols must be NULL");
  require_error(outputs(3, 1, x.data(), nullptr, nullptr, nullptr), bad, "outputs is NULL");
  require_error(outputs(3, 1, x.data(), nullptr, long_one.data(), y.data()), ORTHORNN_INVALID_VALUE,
                "lengths[0] is 4");
  x[2] = std::numeric_limits<float>::infinity();
  require_error(outputs(3, 1, x.data(), nullptr, nullptr, y.data()), ORTHORNN_INVALID_VALUE,
                "features holds a value that is not finite");
  require_error(orthornn_model_get_parameter(model.handle, "cell/none", y.data(), 3), ORTHORNN_INVALID_VALUE,
                "cell/none");
  require_error(orthornn_model_get_parameter(model.handle, "cell/bias", y.data(), 4), bad,
                "count is 4, expected 3");
  require_error(orthornn_model_get_parameter(model.handle, "cell/bias", nullptr, 3), bad, "values is NULL");
  const Generator generator(model, 1);
  require_error(orthornn_generator_get_state(generator.handle, 1, state.data(), 3), bad, "state is 1");
  require_error(orthornn_generator_set_state(generator.handle, 0, state.data(), 2), bad, "count is 2");
  require_error(orthornn_generator_step(nullptr, x.data(), nullptr, y.data()), bad, "generator is NULL");
  orthornn_generator* nothing = nullptr;
  require_error(orthornn_generator_create(model.handle, 0, &nothing), bad, "batch is 0");
}

}  // namespace orthornn::testing
