// orthornn eval and orthornn inspect.

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/hdf5_edit.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Json json_of(const Arguments& arguments) {
  const ProgramResult result = run(arguments + Arguments{"--json"});
  check_success(result);
  return Json::parse(result.output);
}

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> names;
  for (const auto& entry : json.items()) names.push_back(entry.key());
  return names;  // nlohmann's plain objects are sorted
}

}  // namespace

TEST_CASE("eval gives the metrics on held-out data", "[cli][eval]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "3", "--seed", "5"})));
  const std::string model = folder / "run/model.h5";
  const Json json = json_of({"eval", model});
  CHECK(keys(json) == std::vector<std::string>{"accuracy", "baseline", "cells", "cross_entropy", "device",
                                               "model", "orthogonality_error", "precision", "processor",
                                               "solved", "steps", "task", "threads"});
  CHECK(json["model"] == model);
  CHECK(json["task"] == "copying");
  CHECK(json["steps"] == 3);
  CHECK(json["device"] == "cpu");
  CHECK(json["solved"] == false);
  CHECK(json["baseline"].get<double>() == Approx(10 * std::log(8.0) / 23));
  CHECK(json["orthogonality_error"].get<double>() < 1e-5);
  CHECK(json["orthogonality_error"].get<double>() > 0);

  // The library's own figures.
  const auto loaded = load_model(model);
  const ModelFileInfo info = read_model_info(model);
  const auto task = make_task(info.task_config, {.batch = 4, .seed = 5});
  const Evaluation expected = evaluate(*loaded, *task, HeldOut::test);
  CHECK(json["cross_entropy"].get<double>() == expected.loss);
  CHECK(json["accuracy"].get<double>() == expected.metric("accuracy").value());
  // The training chose by other data.
  REQUIRE(info.best.has_value());
  CHECK(info.best->loss == evaluate(*loaded, *task, HeldOut::validation).loss);
  CHECK(info.best->loss != expected.loss);

  const ProgramResult text = run({"eval", model, "--device", "cpu", "--threads", "1"});
  check_success(text);
  for (const char* words : {"test data", "copying", "3 training steps", "cross-entropy",
                            "a guesser has 0.904", "right", "orthogonality error", "not solved"}) {
    CHECK_THAT(text.output, contains(words));
  }
}

TEST_CASE("eval speaks of the mean squared error for a regression", "[cli][eval]") {
  const TemporaryFolder folder;
  check_success(run({"train", "adding", "--length", "6", "--hidden", "8", "--batch", "4", "--steps", "2",
                     "--out", (folder / "run").string()}));
  const std::string model = folder / "run/model.h5";
  const Json json = json_of({"eval", model});
  CHECK(json["task"] == "adding");
  CHECK(json["mean_squared_error"].get<double>() > 0);
  CHECK(json["baseline"].get<double>() == Approx(1.0 / 6));
  CHECK_FALSE(json.contains("cross_entropy"));
  const ProgramResult text = run({"eval", model});
  check_success(text);
  CHECK_THAT(text.output, contains("mean squared error"));
}

TEST_CASE("eval of MNIST needs the data and takes the permutation from the model", "[cli][eval]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const std::string data = folder / "data";
  for (const bool permuted : {false, true}) {
    const fs::path out = folder / (permuted ? "permuted" : "ordered");
    check_success(run(train_mnist(
        data, out, Arguments{"--steps", "3"} + (permuted ? Arguments{"--permuted"} : Arguments{}))));
    const std::string model = out / "model.h5";
    const Json json = json_of({"eval", model, "--data", data});
    CHECK(json["task"] == "mnist");
    CHECK(json["baseline"].get<double>() == Approx(std::log(10.0)));
    const double sixths = json["accuracy"].get<double>() * 6;
    CHECK(sixths == Approx(std::round(sixths)).margin(1e-9));
    check_refused(run({"eval", model, "--data", (folder / "none").string()}), 1,
                  {(folder / "none").string()});
  }
}

TEST_CASE("eval reads the data that the training read, wherever it is started", "[cli][eval]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  fs::create_directory(folder / "elsewhere");
  check_success(run(train_mnist("data", "run", {"--steps", "1"}), {.folder = folder / ""}));
  const ProgramResult result =
      run({"eval", folder / "run/model.h5", "--json"}, {.folder = folder / "elsewhere"});
  check_success(result);
  CHECK(Json::parse(result.output)["task"].get<std::string>() == "mnist");

  // A folder behind a link has a parent of its own.
  fs::create_directory_symlink("elsewhere/inner", folder / "link");
  fs::create_directory(folder / "elsewhere/inner");
  write_tiny_mnist(folder / "elsewhere/images");
  check_success(run(train_mnist("link/../images", "linked", {"--steps", "1"}), {.folder = folder / ""}));
  check_success(run({"eval", folder / "linked/model.h5"}, {.folder = folder / "elsewhere"}));

  // --data comes first.
  const ProgramResult given = run({"eval", folder / "run/model.h5", "--data", folder / "nothing"});
  CHECK(given.exit_code != 0);
  CHECK_THAT(given.errors, contains(folder / "nothing"));

  // Data that have gone are looked for where the message says.
  fs::rename(folder / "data", folder / "gone");
  const ProgramResult missing = run({"eval", folder / "run/model.h5"});
  CHECK(missing.exit_code != 0);
  CHECK_THAT(missing.errors, contains("config.toml' names this place; --data names another"));
}

TEST_CASE("eval and --resume find the data of the usual place wherever they are started",
          "[cli][eval][resume]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data/mnist");
  fs::create_directory(folder / "elsewhere");
  const RunSettings there{.folder = folder.path()}, elsewhere{.folder = folder / "elsewhere"};
  const std::string out = folder / "run";
  check_success(
      run({"train", "mnist", "--hidden", "8", "--batch", "4", "--steps", "1", "--out", out}, there));
  check_success(run({"eval", folder / "run/model.h5"}, elsewhere));
  check_success(run({"train", "--resume", "--steps", "2", "--out", out}, elsewhere));
  // Other tasks read no data.
  check_success(run(train_copying(folder / "copying", {"--steps", "1"})));
  CHECK_THAT(content(folder / "copying/config.toml"), !contains("data ="));
}

TEST_CASE("eval reads the usual place where the config.toml beside the model is not of train",
          "[cli][eval]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data/mnist");
  const RunSettings there{.folder = folder.path()};
  check_success(run(train_mnist("data/mnist", "run", {"--steps", "1"}), there));
  std::ofstream(folder / "run/config.toml") << "[section\nof another program\n";
  check_success(run({"eval", "run/model.h5"}, there));
  fs::rename(folder / "data", folder / "gone");
  check_refused(run({"eval", "run/model.h5"}, there), 1,
                {"data/mnist", "this is the usual place",
                 "run/config.toml' is not what orthornn train writes", "line 1", "--data names another"});
}

TEST_CASE("eval and --resume of MNIST refuse other images than those of the training",
          "[cli][eval][resume]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  write_tiny_mnist(folder / "other");
  Bytes pixels(72, 9);
  write_gzipped(folder / "other/t10k-images-idx3-ubyte.gz", idx_bytes({6, 4, 3}, pixels));
  const fs::path out = folder / "run";
  const std::string model = out / "model.h5", data = folder / "data", other = folder / "other";
  check_success(run(train_mnist(data, out, {"--steps", "1"})));
  const Arguments resume = {"train", "--resume", "--out", out.string(), "--steps", "2", "--data"};
  const std::string before = content(model);
  check_refused(run({"eval", model, "--data", other}), 1, {other, "other images", "6 test images"});
  check_refused(run(resume + Arguments{other}), 1, {other, "other images", "10 training images"});
  CHECK((content(model) == before));

  // A file of an earlier version has no checksum: it is evaluated and resumed, and has one then.
  {
    const Hdf5Edit file(model);
    file.replace_in_text("/", "config", R"(,"parts":[{"name":"data"}])", "");
    file.remove("task/data");
  }
  fs::remove(out / "best.h5");
  CHECK(json_of({"eval", model, "--data", other})["steps"] == 1);
  CHECK(run(resume + Arguments{data}).exit_code == 0);
  CHECK(steps_in(model) == 2);
  check_refused(run({"eval", model, "--data", other}), 1, {other, "other images"});
}

TEST_CASE("commands name the kind of a program's own model, which they do not know", "[cli][eval]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "1"})));
  fs::remove(out / "best.h5");
  const std::string model = out / "model.h5";
  Hdf5Edit(model).replace_in_text("/", "config", R"({"model":{)", R"({"model":{"kind":"table",)");
  const std::string new_file = folder / "new.h5", page = folder / "page.html";
  for (const Arguments& arguments : {Arguments{"eval", model},
                                     {"inspect", model},
                                     {"convert", model, new_file},
                                     {"translate", model},
                                     {"predict", model, model, "-o", new_file},
                                     {"report", out.string(), "--out", page},
                                     {"train", "--resume", "--steps", "2", "--out", out.string()}}) {
    CAPTURE(arguments[0]);
    check_refused(run(arguments), 1, {model, "'table'", "does not know"});
  }
}

TEST_CASE("inspect says what is in a model", "[cli][inspect]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(
      folder / "run", {"--steps", "3", "--seed", "5", "--reflections", "4", "--optimizer", "adam"})));
  const std::string model = folder / "run/model.h5";
  const ProgramResult text = run({"inspect", model});
  check_success(text);
  for (const char* words : {"orthornn model, format version 2", "copying", "cwy", "modrelu",
                            "cell/reflection_vectors", "[4, 8]", "cell/input_weights", "[8, 10]",
                            "readout/weight", "[9, 8]", "209 in all", "3 steps with adam", "seed 5"}) {
    CHECK_THAT(text.output, contains(words));
  }

  const Json json = json_of({"inspect", model});
  CHECK(keys(json) == std::vector<std::string>{"cells", "config", "device", "format_version",
                                               "library_version", "model", "orthogonality_error",
                                               "parameter_count", "parameters", "precision", "task",
                                               "training"});
  CHECK(json["format_version"] == 2);
  CHECK(json["task"] == "copying");
  CHECK(json["parameter_count"] == 4 * 8 + 8 * 10 + 8 + 8 + 9 * 8 + 9);
  CHECK(json["parameters"] ==
        Json::parse(R"({"cell/reflection_vectors": [4, 8], "cell/input_weights": [8, 10],
      "cell/bias": [8], "cell/modrelu_bias": [8], "readout/weight": [9, 8], "readout/bias": [9]})"));
  CHECK(json["orthogonality_error"].get<double>() < 1e-5);
  CHECK(json["config"]["task"]["delay"] == 3);
  CHECK(json["config"]["training"]["batch"] == 4);
  CHECK(json["training"]["step"] == 3);
  CHECK(json["training"]["seed"] == 5);
  CHECK(json["training"]["optimizer"] == "adam");
  CHECK(json["training"]["best_step"] == 3);
}

TEST_CASE("a model without task or training can be inspected, and eval says what it lacks",
          "[cli][inspect]") {
  const TemporaryFolder folder;
  const std::string model = folder / "model.h5";
  save_model(model, SequenceModel<float>(Device::cpu(), ModelOptions{.input = DenseInput{2}}));
  const ProgramResult text = run({"inspect", model});
  check_success(text);
  CHECK_THAT(text.output, contains("none"));
  CHECK_FALSE(json_of({"inspect", model}).contains("training"));
  check_refused(run({"eval", model}), 1, {model, "without a task"});
}

TEST_CASE("the largest seed survives", "[cli][inspect]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1", "--seed", "18446744073709551615"})));
  const Json json = json_of({"inspect", (folder / "run/model.h5").string()});
  CHECK(json["training"]["seed"].get<std::uint64_t>() == 18446744073709551615u);
  check_success(run({"train", "--resume", "--steps", "2", "--out", (folder / "run").string()}));
}

TEST_CASE("output that cannot be written is an error", "[cli]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const RunSettings full{.output = "/dev/full"};
  check_refused(run({"eval", (folder / "run/model.h5").string(), "--json"}, full), 1,
                {"No space left on device"});
  check_refused(run({"inspect", (folder / "run/model.h5").string()}, full), 1, {"No space left on device"});
  check_refused(run({"--help"}, full), 1, {"No space left on device"});
}
