// orthornn predict for own sequences: the library's outputs, in every form of file.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_program.hpp"
#include "io/npz_file.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"
#include "support/npz_reader.hpp"
#include "support/python.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Series of `least` steps and up to three more, with two inputs; the class says whether they rise, and has a
/// comma in its name. Without targets for predict.
void write_series_csv(const fs::path& file, int count, int least, bool with_targets) {
  std::ofstream csv(file);
  csv << "series,x,y" << (with_targets ? ",direction\n" : "\n");
  for (int i = 0; i < count; ++i) {
    const double slope = (i % 2 == 0 ? 1 : -1) * (1 + 0.1 * (i % 7));
    for (int t = 0; t < least + i % 4; ++t) {
      csv << "s" << i << "," << 50 + slope * t << "," << t;
      csv << (!with_targets ? "\n" : slope > 0 ? ",\"up, fast\"\n" : ",down\n");
    }
  }
}

/// A training of a small model on such series.
fs::path trained_on_series(const fs::path& folder, const Arguments& more = {}) {
  write_series_csv(folder / "own.csv", 40, 3, true);
  check_success(run(Arguments{"train", "sequences", "--data", "own.csv", "--id", "series", "--target",
                              "direction", "--hidden", "6", "--batch", "8", "--steps", "4", "--out", "run"} +
                        more,
                    {.folder = folder}));
  return folder / "run/model.h5";
}

/// The steps of one sequence of a CSV of series as the model reads them.
Batch batch_of_series(const Task& task, const SequenceInputs& inputs, Index i) {
  Index start = 0;
  for (Index k = 0; k < i; ++k) start += inputs.lengths[static_cast<std::size_t>(k)];
  const Index length = inputs.lengths[static_cast<std::size_t>(i)];
  const Tensor<float> features = task.own_features(inputs.features.view().slice(start, length));
  Batch batch;
  batch.reals(batch_names::features).reserve({length, 1, features.shape()[1]});
  std::ranges::copy(features, batch.reals(batch_names::features).begin());
  return batch;
}

/// The model and the task of a file.
struct Loaded {
  explicit Loaded(const fs::path& file) : model(load_model(file, {}, &info)) {
    task = make_task(info.task_config, {.batch = 1, .seed = info.seed, .parts = info.parts});
  }
  ModelFileInfo info;
  std::unique_ptr<SequenceModel<float>> model;
  std::unique_ptr<Task> task;
};

std::vector<std::vector<std::string>> rows_of_csv(const fs::path& file) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream text(content(file));
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string>& row = rows.emplace_back(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) row.emplace_back();
      if (c != '"' && (c != ',' || quoted)) row.back() += c;
    }
  }
  return rows;
}

/// The numbers of a dataset, of HDF5 or npz.
Tensor<float> numbers_of(const fs::path& file, const std::string& name) {
  if (file.extension() == ".h5") return Hdf5Reader(file).read<float>(name);
  return cast<float>(read_npz(file, {name}).at(name).reals);
}
std::vector<std::int64_t> integers_of(const fs::path& file, const std::string& name) {
  const Tensor<std::int64_t> found = file.extension() == ".h5"
                                         ? Hdf5Reader(file).read<std::int64_t>(name)
                                         : std::move(read_npz(file, {name}).at(name).integers);
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("classes of own sequences are predicted by name, in every form", "[cli][predict]") {
  const TemporaryFolder folder;
  const Loaded loaded(trained_on_series(folder.path()));
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "new.csv", 9, 2, false);
  for (const char* form : {"h5", "npz", "csv", "jsonl"})
    check_success(run({"predict", "run/model.h5", "new.csv", "--out", std::string("out.") + form}, here));

  const SequenceInputs inputs =
      dynamic_cast<const SequencesTask&>(*loaded.task).read_inputs(folder / "new.csv");
  const auto csv = rows_of_csv(folder / "out.csv");
  REQUIRE(csv.size() == 10);
  CHECK(csv[0] == std::vector<std::string>{"sequence", "class", "probability_down", "probability_up, fast"});
  std::istringstream lines_of_json(content(folder / "out.jsonl"));
  const Tensor<float> outputs = numbers_of(folder / "out.h5", "outputs");
  CHECK(outputs.shape() == Shape{9, 2});
  CHECK(equal(numbers_of(folder / "out.npz", "outputs"), outputs));
  CHECK(
      equal(numbers_of(folder / "out.npz", "probabilities"), numbers_of(folder / "out.h5", "probabilities")));
  const std::vector<std::int64_t> classes = integers_of(folder / "out.h5", "classes");
  CHECK(classes == integers_of(folder / "out.npz", "classes"));
  const std::vector<std::int64_t> lengths = integers_of(folder / "out.npz", "lengths");
  CHECK(std::ranges::equal(lengths, inputs.lengths));
  for (std::size_t i = 0; i < 9; ++i) {
    CAPTURE(i);
    const auto number = static_cast<Index>(i);
    const Batch batch = batch_of_series(*loaded.task, inputs, number);
    const TensorView<const float> expected = loaded.model->forward(batch)[0];
    // Sums of a batch of another size have another order.
    CHECK(relative_error(outputs.view()[number], expected) < tolerance::rounding<float>(100));
    const double down = 1 / (1 + std::exp(static_cast<double>(expected(1)) - expected(0)));
    const std::size_t best = expected(1) > expected(0) ? 1 : 0;
    const std::string name = best == 1 ? "up, fast" : "down";
    CHECK(classes[i] == static_cast<std::int64_t>(best));
    CHECK(csv[i + 1][0] == fmt::format("s{}", i));
    CHECK(csv[i + 1][1] == name);
    CHECK(std::stod(csv[i + 1][2]) == Approx(down));
    std::string line;
    std::getline(lines_of_json, line);
    const auto json = nlohmann::json::parse(line);
    CHECK(json["sequence"] == fmt::format("s{}", i));
    CHECK(json["class"] == name);
    CHECK(json["probabilities"][0].get<double>() == Approx(down));
    CHECK(json["outputs"][0].get<float>() == outputs(number, 0));
  }
}

TEST_CASE("own sequences of several files and forms are predicted in their order", "[cli][predict]") {
  const TemporaryFolder folder;
  trained_on_series(folder.path());
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "first.csv", 3, 2, false);
  Tensor<float> x = normal_tensor<float>({2, 5, 2}, 1, 10);
  NpzWriter npz("own");
  npz.dataset("inputs", x);
  npz.commit(folder / "second.npz");
  Hdf5Writer hdf5;
  Tensor<float> steps_first(Shape{5, 1, 2});
  for (Index t = 0; t < 5; ++t) copy<float>(x.view()[1].slice(t, 1), steps_first.view()[t]);
  hdf5.dataset("x", steps_first);
  hdf5.commit(folder / "third.h5");
  const Arguments files = {"first.csv", "second.npz", "third.h5"};
  check_success(run(Arguments{"predict", "run/model.h5"} + files + Arguments{"--out", "all.npz"}, here));
  check_success(run(Arguments{"predict", "run/model.h5"} + files + Arguments{"--out", "all.csv"}, here));
  check_success(run(Arguments{"predict", "run/model.h5"} + files + Arguments{"--out", "all.jsonl"}, here));
  const Tensor<float> all = numbers_of(folder / "all.npz", "outputs");
  CHECK(all.shape() == Shape{6, 2});
  CHECK(integers_of(folder / "all.npz", "files") == std::vector<std::int64_t>{0, 0, 0, 1, 1, 2});
  CHECK(integers_of(folder / "all.npz", "lengths") == std::vector<std::int64_t>{2, 3, 4, 5, 5, 5});
  // The last sequence of the second file is that of the third.
  CHECK(std::ranges::equal(all.view()[4], all.view()[5]));
  check_success(run({"predict", "run/model.h5", "second.npz", "--out", "alone.h5"}, here));
  const Tensor<float> alone = numbers_of(folder / "alone.h5", "outputs");
  CHECK(std::ranges::equal(all.view()[3], alone.view()[0]));
  const auto csv = rows_of_csv(folder / "all.csv");
  CHECK(csv[0][0] == "file");
  CHECK(csv[3][0] == "first.csv");
  CHECK(csv[3][1] == "s2");
  CHECK(csv[5][0] == "second.npz");
  CHECK(csv[5][1] == "1");
  const std::string json = content(folder / "all.jsonl");
  CHECK_THAT(json, contains(R"({"file":"third.h5","sequence":"0",)"));
  CHECK(lines(json) == 6);
}

TEST_CASE("numbers of every step are predicted in the units of the data", "[cli][predict]") {
  const TemporaryFolder folder;
  const Loaded loaded(trained_on_series(folder.path(), {"--goal", "forecast", "--inputs", "x,y"}));
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "new.csv", 5, 2, false);
  for (const char* form : {"h5", "csv", "jsonl"})
    check_success(run({"predict", "run/model.h5", "new.csv", "--out", std::string("out.") + form}, here));
  const SequenceInputs inputs =
      dynamic_cast<const SequencesTask&>(*loaded.task).read_inputs(folder / "new.csv");
  const Tensor<float> outputs = numbers_of(folder / "out.h5", "outputs");
  CHECK(outputs.shape() == Shape{2 + 3 + 4 + 5 + 2, 2});
  CHECK_FALSE(Hdf5Reader(folder / "out.h5").has("classes"));
  const auto csv = rows_of_csv(folder / "out.csv");
  REQUIRE(csv.size() == 17);
  CHECK(csv[0] == std::vector<std::string>{"sequence", "step", "output_0", "output_1"});
  std::istringstream lines_of_json(content(folder / "out.jsonl"));
  Index row = 0;
  for (Index i = 0; i < 5; ++i) {
    const Batch batch = batch_of_series(*loaded.task, inputs, i);
    Tensor<float> expected;
    const TensorView<const float> normalized = loaded.model->forward(batch);
    expected.reserve(normalized.shape());
    copy<float>(normalized, expected.view());
    loaded.task->restore_outputs(expected.view());
    std::string line;
    std::getline(lines_of_json, line);
    const auto json = nlohmann::json::parse(line);
    for (Index t = 0; t < expected.shape()[0]; ++t, ++row) {
      CAPTURE(i, t);
      CHECK(relative_error(outputs.view()[row], expected.view()[t][0]) < tolerance::rounding<float>(100));
      const std::vector<std::string>& cells = csv[static_cast<std::size_t>(row) + 1];
      CHECK(cells[0] == fmt::format("s{}", i));
      CHECK(cells[1] == std::to_string(t));
      CHECK(std::stof(cells[2]) == outputs(row, 0));
      CHECK(json["outputs"][static_cast<std::size_t>(t)][1].get<float>() == outputs(row, 1));
    }
  }
}

TEST_CASE("states of every layer at every step end in the last ones", "[cli][predict]") {
  const TemporaryFolder folder;
  const fs::path file = trained_on_series(
      folder.path(), {"--cell", "deltaproduct", "--heads", "2", "--key-size", "4", "--value-size", "3",
                      "--convolution", "2", "--no-mlp", "--layers", "2"});
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "new.csv", 6, 1, false);
  check_success(run({"predict", "run/model.h5", "new.csv", "--states", "--out", "out.h5"}, here));
  check_success(run({"predict", "run/model.h5", "new.csv", "--states", "--out", "out.npz"}, here));
  const Hdf5Reader reader(folder / "out.h5");
  const std::vector<std::string> states = reader.names("states");
  CHECK(states.size() == 4);  // of two layers, the state and what the convolution sees
  for (const std::string& name : states) {
    CAPTURE(name);
    const Tensor<float> all = reader.read<float>("states/" + name);
    CHECK(equal(numbers_of(folder / "out.npz", "states/" + name), all));
    const Tensor<float> last = reader.read<float>(name.substr(0, name.size() - 1) + "_last" + name.back());
    REQUIRE(all.shape()[0] == 1 + 2 + 3 + 4 + 1 + 2);
    Index row = -1;
    for (Index i = 0; i < 6; ++i) {
      row += 1 + i % 4;
      CHECK(relative_error(all.view()[row], last.view()[i]) < tolerance::rounding<float>(100));  // of chunks
    }
  }
  // Steps that come first stay first.
  Hdf5Writer writer;
  writer.dataset("x", normal_tensor<float>({4, 2, 2}, 1, 10));
  Tensor<std::int32_t> lengths(Shape{2});
  lengths(0) = 4;
  lengths(1) = 2;
  writer.dataset("lengths", lengths);
  writer.commit(folder / "x.h5");
  check_success(run({"predict", "run/model.h5", "x.h5", "--states", "--out", "out.h5"}, here));
  const Hdf5Reader first(folder / "out.h5");
  const Tensor<float> s = first.read<float>("states/" + states.back()),
                      last = first.read<float>(states.back().substr(0, states.back().size() - 1) + "_last" +
                                               states.back().back());
  CHECK(s.shape()[0] == 4);
  CHECK(s.shape()[1] == 2);
  CHECK(relative_error(s.view()[3][0], last.view()[0]) < tolerance::rounding<float>(100));
  CHECK(relative_error(s.view()[1][1], last.view()[1]) < tolerance::rounding<float>(100));
  CHECK(std::ranges::all_of(s.view()[2][1], [](float x) { return x == 0; }));
}

TEST_CASE("states are refused where there are none", "[cli][predict]") {
  const TemporaryFolder folder;
  trained_on_series(folder.path());
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "new.csv", 2, 2, false);
  for (const char* out : {"out.csv", "out.jsonl"}) {
    check_refused(run({"predict", "run/model.h5", "new.csv", "--states", "--out", out}, here), 2,
                  {"--states", out, ".npz"});
  }
  const auto refused = [&](const ModelOptions& options, const std::string& words) {
    save_model(folder / "model.h5", SequenceModel<float>(Device::cpu(), options));
    check_refused(run({"predict", "model.h5", "new.csv", "--states", "--out", "out.h5"}, here), 2,
                  {"--states", words});
  };
  refused({DenseInput{2}, {Gru{4}, Bidirectional{{Gru{3}}}}, EveryStep{1}}, "layer 1");
  refused({DenseInput{2}, {Linear{4}}, EveryStep{1}}, "has a state");
  CHECK_FALSE(fs::exists(folder / "out.h5"));
}

TEST_CASE("inputs of more steps than a batch has give the outputs of one batch", "[cli][predict]") {
  const TemporaryFolder folder;
  const ModelOptions options = {
      DenseInput{1}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{1}, Loss::mean_squared_error};
  SequenceModel<float> model(Device::cpu(), options);
  save_model(folder / "model.h5", model);
  Batch batch;
  batch.reals(batch_names::features) = normal_tensor<float>({3000, 50, 1}, 1);
  Hdf5Writer writer;
  writer.dataset("x", batch.reals(batch_names::features));
  writer.commit(folder / "x.h5");
  const ProgramResult result =
      run({"predict", folder / "model.h5", folder / "x.h5", "--out", folder / "y.h5", "--verbose"});
  check_success(result);
  CHECK_THAT(result.output, contains("3000 steps and 21 sequences"));
  CHECK(relative_error(numbers_of(folder / "y.h5", "logits"), model.forward(batch)) <
        tolerance::reference_float(3000, 4, 1));
}

TEST_CASE("inputs that a model does not take are refused by file and place", "[cli][predict]") {
  const TemporaryFolder folder;
  trained_on_series(folder.path());
  const RunSettings here{.folder = folder.path()};
  const auto refused = [&](const std::string& file, int code, std::initializer_list<std::string> words) {
    check_refused(run({"predict", "run/model.h5", file, "--out", "out.h5"}, here), code, {file});
    check_refused(run({"predict", "run/model.h5", file, "--out", "out.h5"}, here), code, words);
    CHECK_FALSE(fs::exists(folder / "out.h5"));
  };
  const auto csv = [&](const std::string& text) {
    std::ofstream(folder / "new.csv") << text;
    return "new.csv";
  };
  refused(csv("x,y\n1,2\n"), 1, {"the training had --id for the column 'series'"});
  refused(csv("series,x\na,1\n"), 1, {"the columns x; expected x, y"});
  refused(csv("series,x,y\na,1,one\n"), 1, {"row 2, column 'y'", "'one'"});
  refused(csv("series,x,y\na,1,\n"), 1, {"row 2, column 'y': it is missing"});
  refused("none.npz", 1, {"no such file"});
  refused("none.h5", 1, {"no such file"});
  NpzWriter symbols("own");
  symbols.dataset("symbols", Tensor<std::int32_t>(Shape{2, 3}));
  symbols.commit(folder / "symbols.npz");
  refused("symbols.npz", 1, {"symbols", "2 numbers a step"});
  csv("series,x,y\na,1,2\n");
  check_refused(run({"predict", "run/model.h5", "new.csv", "--out", "out.txt"}, here), 2,
                {"out.txt", "'.txt'", ".jsonl"});
  // Another form of a model's data than a file of its training has no columns to choose.
  Hdf5Writer writer;
  writer.dataset("targets", Tensor<float>(Shape{3}));
  writer.commit(folder / "targets.h5");
  refused("targets.h5", 1, {"'/x', '/inputs' or '/symbols'"});
}

TEST_CASE("predictions of every form replace such, and other files with --overwrite alone",
          "[cli][predict][output_file]") {
  const TemporaryFolder folder;
  trained_on_series(folder.path());
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "new.csv", 2, 2, false);
  NpzWriter own("mine");
  own.dataset("outputs", Tensor<float>(Shape{2}));
  own.commit(folder / "dear.npz");
  std::ofstream(folder / "dear.csv") << "sequence,step,output,label\n1,0,2,years of work\n";
  std::ofstream(folder / "dear.jsonl") << "{\"sequence\": 1, \"outputs\": \"mine\"}\n";
  for (const std::string form : {"npz", "csv", "jsonl"}) {
    CAPTURE(form);
    const Arguments predict = {"predict", "run/model.h5", "new.csv", "--out"};
    check_success(run(predict + Arguments{"out." + form}, here));
    const std::string first = content(folder / ("out." + form));
    check_success(run(predict + Arguments{"out." + form}, here));
    CHECK((content(folder / ("out." + form)) == first));
    const fs::path dear = folder / ("dear." + form);
    const std::string before = content(dear);
    check_refused(run(predict + Arguments{"dear." + form}, here), 1, {"did not write", "--overwrite"});
    CHECK((content(dear) == before));
    check_success(run(predict + Arguments{"dear." + form, "--overwrite"}, here));
    CHECK((content(dear) == first));
  }
}

TEST_CASE("numpy and h5py read predictions with their names", "[cli][predict][numpy]") {
  const auto found = python();
  if (!found) return;
  const TemporaryFolder folder;
  trained_on_series(folder.path());
  const RunSettings here{.folder = folder.path()};
  write_series_csv(folder / "a.csv", 3, 2, false);
  write_series_csv(folder / "b.csv", 2, 2, false);
  for (const char* out : {"out.npz", "out.h5"})
    check_success(run({"predict", "run/model.h5", "a.csv", "b.csv", "--out", out}, here));
  const ShellOutput output = shell(
      fmt::format("cd '{}' && {} -c \"\nimport numpy as np, h5py\n"
                  "with np.load('out.npz') as npz, h5py.File('out.h5') as h5:\n"
                  "    assert set(npz.files) == set(h5.keys()), (npz.files, list(h5.keys()))\n"
                  "    for name in npz.files:\n"
                  "        assert np.array_equal(npz[name], h5[name][...]), name\n"
                  "    names = np.char.decode(npz['class_names'], 'utf-8')\n"
                  "    assert list(names) == ['down', 'up, fast']\n"
                  "    assert list(h5['class_names'].asstr()[:]) == ['down', 'up, fast']\n"
                  "    assert list(npz['file_names'][npz['files']]) == [b'a.csv'] * 3 + [b'b.csv'] * 2\n"
                  "    assert list(npz['sequence_names']) == [b's0', b's1', b's2', b's0', b's1']\n"
                  "    p = np.exp(npz['outputs']); p /= p.sum(1, keepdims=True)\n"
                  "    assert np.allclose(npz['probabilities'], p, atol=1e-6)\n\"",
                  folder.path().string(), *found),
      folder / "text");
  CAPTURE(output.text);
  CHECK(output.status == 0);
}
