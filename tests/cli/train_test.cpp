// orthornn train: what a run leaves behind, and its configuration files.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/train/model_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<std::string> lines_of_file(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> result;
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

std::vector<std::string> fields(const std::string& row) {
  std::vector<std::string> result(1);
  for (const char c : row) {
    if (c == ',') {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  return result;
}

bool has_line(const fs::path& file, const std::string& line) {
  const std::vector<std::string> all = lines_of_file(file);
  return std::find(all.begin(), all.end(), line) != all.end();
}

fs::path config_file(const TemporaryFolder& folder, const std::string& text) {
  const fs::path file = folder / "settings.toml";
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

/// Rates with which the validation loss falls and then rises again within twelve steps.
const Arguments rising = {"--eval-every", "2",       "--lr",   "0.5", "--lr-orth",  "0",
                          "--optimizer",  "sgd",     "--clip", "0",   "--momentum", "0.99",
                          "--schedule",   "constant"};

const std::string tiny_config = "task = \"copying\"\ndelay = 3\nhidden = 8\nbatch = 4\nsteps = 2\n";

}  // namespace

TEST_CASE("two trainings do not share a run directory", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path run_folder = folder / "run";
  fs::create_directories(run_folder);
  const int descriptor = open(run_folder.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(descriptor, LOCK_EX) == 0);
  check_refused(run(train_copying(run_folder, {"--steps", "1"})), 1,
                {"another training", run_folder.string()});
  close(descriptor);
  check_success(run(train_copying(run_folder, {"--steps", "1"})));
}

TEST_CASE("a learning rate on the command line takes the orthogonal one along", "[cli][train][config]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  check_success(run({"train", "--config", (folder / "run/config.toml").string(), "--lr", "0.5", "--out",
                     (folder / "other").string()}));
  CHECK_THAT(content(folder / "other/config.toml"), contains("lr-orth = 0.05\n"));
}

TEST_CASE("train leaves settings, metrics and a model", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path run_folder = folder / "run";
  const ProgramResult result =
      run(train_copying(run_folder, {"--steps", "5", "--log-every", "2", "--eval-every", "3", "--lr", "0.001",
                                     "--schedule", "constant"}));
  check_success(result);
  CHECK_THAT(result.output, contains("trained after 5 steps") &&
                                contains(" on validation data, not solved; a guesser has "));
  CHECK_THAT(result.output, contains((run_folder / "model.h5").string()));

  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run_folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names ==
        std::vector<std::string>{"best.h5", "config.toml", "metrics.csv", "model.h5", "results.json"});

  // Every second step, the evaluations and the last one.
  const std::vector<std::string> rows = lines_of_file(run_folder / "metrics.csv");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] ==
        "step,seconds,loss,gradient_norm,learning_rate,orthogonality_error,evaluation_loss,accuracy,"
        "reflection_norm");
  const char* steps[] = {"2", "3", "4", "5"};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<std::string> row = fields(rows[i + 1]);
    REQUIRE(row.size() == 9);
    CHECK(row[0] == steps[i]);
    CHECK(std::stod(row[2]) > 0);
    CHECK(std::stod(row[3]) > 0);
    CHECK(std::stod(row[4]) == 0.001);
    CHECK(std::stod(row[5]) < 1e-5);
    const bool evaluated = i == 1 || i == 3;
    CHECK(row[6].empty() == !evaluated);
    CHECK(row[7].empty() == !evaluated);
    CHECK(std::stod(row[8]) > 0);
  }
  CHECK(steps_in(run_folder / "model.h5") == 5);
}

TEST_CASE("train keeps the best model beside the last", "[cli][train][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult result = run(train_copying(out, rising + Arguments{"--steps", "12"}));
  check_success(result);
  const std::vector<std::string> rows = lines_of_file(out / "metrics.csv");
  std::int64_t best_step = 0;
  double best = 1e300;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string> row = fields(rows[i]);
    if (row[6].empty() || std::stod(row[6]) >= best) continue;
    best = std::stod(row[6]);
    best_step = std::stoll(row[0]);
  }
  REQUIRE(best_step > 0);
  REQUIRE(best_step < 12);  // else this tests nothing
  CHECK(steps_in(out / "model.h5") == 12);
  CHECK(steps_in(out / "best.h5") == best_step);
  const auto test_task = make_task(R"({"task": "copying", "delay": 3})", {.batch = 4, .seed = 1});
  for (const char* file : {"model.h5", "best.h5"}) {
    const Evaluation test = evaluate(*load_model(out / file), *test_task, HeldOut::test);
    const bool last = file == std::string("model.h5");
    CHECK_THAT(result.output, contains(fmt::format("test data: loss {:.4g}, {:.2f} % right, {} step {}: {}",
                                                   test.loss, 100 * test.metric("accuracy").value(),
                                                   last ? "model of" : "best on validation data,",
                                                   last ? 12 : best_step, (out / file).string())));
  }
  for (const char* file : {"model.h5", "best.h5"}) {
    const ModelFileInfo info = read_model_info(out / file);
    CHECK(info.best->step == best_step);
    CHECK(info.best->loss == Approx(best).epsilon(1e-7));
  }
  const auto task = make_task(R"({"task": "copying", "delay": 3})", {.batch = 4, .seed = 1});
  CHECK(evaluate(*load_model(out / "best.h5"), *task, HeldOut::validation).loss ==
        Approx(best).epsilon(1e-7));

  // It can be resumed like the last one, and is not overwritten by another training either.
  const fs::path copied = folder / "from-best";
  fs::create_directory(copied);
  fs::copy(out / "config.toml", copied / "config.toml");
  fs::copy(out / "best.h5", copied / "model.h5");
  check_success(run({"train", "--resume", "--steps", "13", "--out", copied.string()}));
  CHECK(steps_in(copied / "best.h5") == best_step);
  CHECK(parameters_in(copied / "best.h5") == parameters_in(out / "best.h5"));

  // With best.h5 alone, as after a kill before the first save of the last model, nothing of it is lost.
  fs::remove(out / "model.h5");
  check_refused(run(train_copying(out, {"--steps", "1"})), 1, {"holds a trained model"});
  const auto best_parameters = parameters_in(out / "best.h5");
  const ProgramResult resumed = run({"train", "--resume", "--steps", "14", "--out", out.string()});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("model.h5' is missing: going on from"));
  CHECK_THAT(resumed.output, contains(fmt::format("going on after step {}", best_step)));
  CHECK(parameters_in(out / "best.h5") == best_parameters);
  fs::remove(out / "model.h5");
  const ProgramResult nothing = run({"train", "--resume", "--steps", "2", "--out", out.string()});
  CHECK(nothing.exit_code == 0);
  CHECK(parameters_in(out / "model.h5") == best_parameters);  // which the last lines speak of
}

TEST_CASE("a training goes on from the later of its two files", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path early = folder / "early", late = folder / "late";
  check_success(run(train_copying(early, rising + Arguments{"--steps", "2"})));
  check_success(run(train_copying(late, rising + Arguments{"--steps", "12"})));
  const std::int64_t best_step = steps_in(late / "best.h5");
  REQUIRE(best_step > 2);
  // As a kill leaves it that comes after the best model was saved and before the last one was.
  fs::copy(late / "best.h5", early / "best.h5", fs::copy_options::overwrite_existing);
  const ProgramResult result = run({"train", "--resume", "--steps", "12", "--out", early.string()});
  check_success(result);
  CHECK_THAT(result.output, contains("model.h5' is of an earlier step: going on from"));
  CHECK_THAT(result.output, contains(fmt::format("going on after step {}", best_step)));
  for (const char* file : {"model.h5", "best.h5"})
    CHECK(training_content(early / file) == training_content(late / file));
}

TEST_CASE("a best.h5 that is not of this training is refused before the first step", "[cli][train][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", best = out / "best.h5";
  check_success(run(train_copying(out, rising + Arguments{"--steps", "12"})));
  REQUIRE(steps_in(best) < 12);
  const std::string last = content(out / "model.h5"), own_best = content(best);
  const auto refused = [&](std::initializer_list<std::string> words) {
    const ProgramResult result = run({"train", "--resume", "--steps", "14", "--out", out.string()});
    check_refused(result, 1, words);
    check_refused(result, 1, {"best.h5", "Rename"});
    CHECK((content(out / "model.h5") == last));
  };
  check_success(run({"train", "copying", "--delay", "3", "--hidden", "6", "--batch", "4", "--steps", "2",
                     "--out", (folder / "smaller").string()}));
  fs::copy(folder / "smaller/best.h5", best, fs::copy_options::overwrite_existing);
  refused({"another model"});
  check_success(run(train_copying(folder / "seed", rising + Arguments{"--steps", "2", "--seed", "2"})));
  fs::copy(folder / "seed/best.h5", best, fs::copy_options::overwrite_existing);
  refused({"another stream of data"});
  fs::copy(out / "model.h5", best, fs::copy_options::overwrite_existing);
  refused({"of step 12", "best result is of step"});
  std::ofstream(best) << "";
  refused({"best.h5"});

  // Without it the training goes on, and says what is lost.
  fs::remove(best);
  const ProgramResult lost = run({"train", "--resume", "--steps", "14", "--out", out.string()});
  CHECK(lost.exit_code == 0);
  CHECK_THAT(lost.errors, contains("best.h5' is missing: the best model so far, of step"));
  CHECK(steps_in(best) == 14);
}

TEST_CASE("a resumption with nothing left to do says so and leaves the settings", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "3"})));
  const std::string config = content(out / "config.toml");
  const ProgramResult result = run({"train", "--resume", "--steps", "2", "--lr", "7", "--out", out.string()});
  check_success(result);
  CHECK_THAT(result.output, contains("nothing is left to do: 2 steps were asked for, 3 are done"));
  CHECK(content(out / "config.toml") == config);
}

TEST_CASE("settings of which nothing can be made are wrong use", "[cli][train]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const auto refused = [&](const Arguments& arguments, std::initializer_list<std::string> words) {
    check_refused(run(arguments + Arguments{"--out", (folder / "run").string()}), 2, words);
    CHECK_FALSE(fs::exists(folder / "run"));
  };
  refused({"train", "adding", "--steps", "10", "--warmup", "10"}, {"--warmup 10", "--steps 10"});
  refused({"train", "copying", "--hidden", "8", "--cell", "cayley", "--negative-signs", "9"},
          {"9 negative signs"});
  refused({"train", "copying", "--hidden", "4", "--input-matrix", "stiefel"}, {"Stiefel"});
  refused({"train", "copying", "--delay", "99999999999"}, {"copying"});
  refused({"train", "copying", "--hidden", "99999999999"}, {"99999999999"});
  refused({"train", "mnist", "--permuted", "--permutation-seed", "99999999999"}, {"permutation seed"});
  refused({"train", "mnist", "--data", (folder / "data").string(), "--batch", "10"},
          {"the batch is 10", "9 images to train on"});
}

TEST_CASE("an interrupted and resumed run has the best model of one that was not", "[cli][train]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "whole", rising + Arguments{"--steps", "12"})));
  check_success(run(train_copying(folder / "parts", rising + Arguments{"--steps", "10"})));
  check_success(run({"train", "--resume", "--steps", "12", "--out", (folder / "parts").string()}));
  CHECK(steps_in(folder / "parts/best.h5") == steps_in(folder / "whole/best.h5"));
  CHECK(parameters_in(folder / "parts/best.h5") == parameters_in(folder / "whole/best.h5"));
}

TEST_CASE("train learns the initial state where that is asked for", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "3", "--learn-initial-state"})));
  const auto state = Hdf5Reader(out / "model.h5").read<float>("parameters/cell/initial_state");
  REQUIRE(state.shape() == Shape{8});
  for (const float x : state) CHECK(x != 0);
  CHECK(has_line(out / "config.toml", "learn-initial-state = true"));
  check_success(run({"train", "--resume", "--steps", "4", "--out", out.string()}));
  check_success(run({"eval", (out / "best.h5").string()}));
}

TEST_CASE("the optimizers' constants are options, and change the training", "[cli][train][long]") {
  const TemporaryFolder folder;
  const auto trained = [&](const std::string& name, const Arguments& options) {
    check_success(run(train_copying(folder / name, Arguments{"--steps", "3"} + options)));
    return parameters_in(folder / name / "model.h5");
  };
  const auto plain = trained("rmsprop", {});
  CHECK(trained("decay", {"--rmsprop-decay", "0.9"}) != plain);
  CHECK(trained("epsilon", {"--epsilon", "0.01"}) != plain);
  CHECK(trained("same", {"--rmsprop-decay", "0.99", "--epsilon", "1e-8"}) == plain);
  CHECK(has_line(folder / "decay/config.toml", "rmsprop-decay = 0.9"));
  CHECK(has_line(folder / "epsilon/config.toml", "epsilon = 0.01"));
  for (const char* optimizer : {"adam", "adamw"}) {
    CAPTURE(optimizer);
    const std::string name = optimizer;
    const auto usual = trained(name, {"--optimizer", name});
    CHECK(trained(name + "1", {"--optimizer", name, "--beta1", "0.5"}) != usual);
    CHECK(trained(name + "2", {"--optimizer", name, "--beta2", "0.9"}) != usual);
    CHECK(trained(name + "3", {"--optimizer", name, "--beta1", "0.9", "--beta2", "0.999"}) == usual);
  }
  const std::string config = Hdf5Reader(folder / "adam1/model.h5").string_attribute("", "config");
  CHECK_THAT(config, contains("\"beta1\":0.5"));

  const auto refused = [&](const Arguments& options, std::initializer_list<std::string> words) {
    check_refused(run(train_copying(folder / "none", Arguments{"--steps", "1"} + options)), 2, words);
  };
  refused({"--beta1", "0.5"}, {"--beta1", "--optimizer", "adam"});
  refused({"--optimizer", "sgd", "--epsilon", "1"}, {"--epsilon", "rmsprop"});
  refused({"--rmsprop-decay", "1"}, {"--rmsprop-decay"});
  refused({"--epsilon", "0"}, {"--epsilon"});
  refused({"--epsilon", "1e-50"}, {"--epsilon"});
  refused({"--epsilon", "nan"}, {"--epsilon"});
}

TEST_CASE("train knows every task, cell and optimizer", "[cli][train]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  for (const char* cell : {"cwy", "householder", "cayley", "expm", "own", "matrix", "free"}) {
    CAPTURE(cell);
    const fs::path out = folder / cell;
    check_success(run(train_copying(out, {"--steps", "2", "--cell", cell})));
    CHECK(steps_in(out / "model.h5") == 2);
  }
  const fs::path adding = folder / "adding";
  check_success(run({"train", "adding", "--length", "5", "--hidden", "8", "--batch", "4", "--steps", "2",
                     "--layers", "2", "--input-matrix", "stiefel", "--out", adding.string()}));
  CHECK(Hdf5Reader(adding / "model.h5").has("parameters/cell1/bias"));

  const fs::path mnist = folder / "mnist";
  check_success(run(train_mnist(folder / "data", mnist, {"--epochs", "1.5"})));
  CHECK(steps_in(mnist / "model.h5") == 3);  // ten images in batches of four: two batches a pass
  CHECK_FALSE(Hdf5Reader(mnist / "model.h5").has("task/permutation"));
  CHECK(has_line(mnist / "config.toml", "steps = 3"));

  const fs::path permuted = folder / "permuted";
  check_success(run(train_mnist(folder / "data", permuted, {"--permuted", "--steps", "2"})));
  CHECK(Hdf5Reader(permuted / "model.h5").shape("task/permutation") == Shape{12});
  CHECK(has_line(permuted / "config.toml", "permuted = true"));
}

TEST_CASE("metrics.csv has the mean length of the reflection vectors, where there are any", "[cli][train]") {
  const TemporaryFolder folder;
  for (const char* cell : {"cwy", "householder", "expm", "free"}) {
    CAPTURE(cell);
    const fs::path out = folder / cell;
    check_success(run(train_copying(out, {"--steps", "3", "--cell", cell, "--layers", "2"})));
    const std::vector<std::string> rows = lines_of_file(out / "metrics.csv");
    const std::vector<std::string> last = fields(rows.back());
    REQUIRE(last.size() == 9);
    if (!Hdf5Reader(out / "model.h5").has("parameters/cell0/reflection_vectors")) {
      CHECK(last[8] == "");
      continue;
    }
    double sum = 0;
    for (const char* name : {"cell0", "cell1"}) {
      const auto vectors =
          Hdf5Reader(out / "model.h5").read<float>(fmt::format("parameters/{}/reflection_vectors", name));
      for (Index l = 0; l < 8; ++l) {
        double square = 0;
        for (Index n = 0; n < 8; ++n) square += static_cast<double>(vectors(l, n)) * vectors(l, n);
        sum += std::sqrt(square);
      }
    }
    CHECK(std::stod(last[8]) == Approx(sum / 16).epsilon(1e-6));
  }
}

TEST_CASE("an orthogonality error is of the model that the step made, with a validation or without",
          "[cli][train]") {
  const TemporaryFolder folder;
  const auto errors = [&](const char* every) {
    const fs::path out = folder / every;
    check_success(run(train_copying(out, {"--steps", "4", "--log-every", "1", "--eval-every", every})));
    std::vector<std::string> result;
    for (const std::string& row : lines_of_file(out / "metrics.csv")) result.push_back(fields(row)[5]);
    return result;
  };
  const std::vector<std::string> of_all = errors("1");
  REQUIRE(of_all.size() == 5);
  CHECK(of_all[0] == "orthogonality_error");
  CHECK(errors("4") == of_all);
}

namespace {

/// `options` with which `lines` are said to stand in the config.toml of a training of one step.
void check_settings(const Arguments& options, const std::vector<std::string>& lines) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  CAPTURE(options);
  check_success(
      run(Arguments{"train"} + options + Arguments{"--batch", "2", "--device", "cpu", "--out", out}));
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(has_line(folder / "run/config.toml", line));
  }
}

}  // namespace

TEST_CASE("a training has the settings of its task and its length, unless others are given", "[cli][train]") {
  const Arguments tiny = {"--hidden", "4", "--steps", "1"};
  check_settings(Arguments{"copying", "--delay", "3"} + tiny,
                 {R"(optimizer = "rmsprop")", "lr = 0.0005", "lr-orth = 5e-05", "clip = 1",
                  R"(schedule = "cosine")", "warmup = 0", R"(init = "henaff")", R"(activation = "modrelu")"});
  check_settings(Arguments{"adding", "--length", "5"} + tiny,
                 {R"(optimizer = "adam")", "lr = 0.005", "lr-orth = 0.0005", R"(schedule = "cosine")"});
  check_settings(Arguments{"adding", "--length", "5", "--optimizer", "sgd", "--schedule", "step", "--lr",
                           "0.1", "--clip", "0"} +
                     tiny,
                 {R"(optimizer = "sgd")", "lr = 0.1", "lr-orth = 0.01", "clip = 0", R"(schedule = "step")"});
}

TEST_CASE("an unconstrained matrix learns slowly, and more slowly over longer sequences", "[cli][train]") {
  const Arguments tiny = {"--cell", "free", "--hidden", "4", "--steps", "20"};
  check_settings(Arguments{"copying", "--delay", "180"} + tiny,
                 {R"(optimizer = "adam")", "lr = 0.0005", "warmup = 2", R"(activation = "modrelu")"});
  check_settings(Arguments{"copying", "--delay", "1980"} + tiny, {"lr = 0.0002", "lr-orth = 2e-05"});
  check_settings(Arguments{"adding", "--length", "200"} + tiny, {"lr = 0.002", "lr-orth = 0.0002"});
  check_settings(
      Arguments{"adding", "--length", "200", "--lr", "0.5", "--warmup", "0", "--optimizer", "sgd"} + tiny,
      {R"(optimizer = "sgd")", "lr = 0.5", "lr-orth = 0.05", "warmup = 0"});
}

TEST_CASE("few reflections learn the adding task at the rate of the other weights", "[cli][train]") {
  const Arguments tiny = {"--length", "5", "--hidden", "4", "--steps", "1"};
  check_settings(Arguments{"adding", "--reflections", "2"} + tiny, {"lr = 0.005", "lr-orth = 0.005"});
  check_settings(Arguments{"adding", "--reflections", "3"} + tiny, {"lr-orth = 0.0005"});
  check_settings(Arguments{"adding", "--cell", "householder", "--reflections", "1"} + tiny,
                 {"lr-orth = 0.005"});
  check_settings({"copying", "--delay", "3", "--hidden", "4", "--steps", "1", "--reflections", "3"},
                 {"lr-orth = 5e-05"});
}

TEST_CASE("weight decay is 0.01 with adamw and 0 otherwise, unless it is given", "[cli][train]") {
  const TemporaryFolder folder;
  const auto decay_of = [&](const Arguments& more, const std::string& line) {
    CAPTURE(more);
    check_success(run(train_copying(folder / "run", Arguments{"--steps", "1"} + more)));
    CHECK(has_line(folder / "run/config.toml", line));
    CHECK_THAT(Hdf5Reader(folder / "run/model.h5").string_attribute("", "config"),
               contains("\"weight_decay\":" + (line.ends_with("= 0") ? "0.0" : line.substr(15))));
    fs::remove_all(folder / "run");
  };
  decay_of({"--optimizer", "adamw"}, "weight-decay = 0.01");
  decay_of({"--optimizer", "adam"}, "weight-decay = 0");
  decay_of({"--optimizer", "adamw", "--weight-decay", "0"}, "weight-decay = 0");
  decay_of({"--optimizer", "adamw", "--weight-decay", "0.25"}, "weight-decay = 0.25");
}

TEST_CASE("a model and its metrics do not depend on the number of threads", "[cli][train]") {
  const TemporaryFolder folder;
  for (const char* threads : {"1", "2"}) {
    check_success(run({"train", "copying", "--delay", "3", "--hidden", "24", "--batch", "32", "--steps", "6",
                       "--threads", threads, "--out", (folder / threads).string()}));
  }
  CHECK((content(folder / "1/model.h5") == content(folder / "2/model.h5")));
}

TEST_CASE("a run's config.toml gives the same model again", "[cli][train][config]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const Arguments runs[] = {
      train_copying(folder / "a", {"--steps", "4", "--lr", "0.0123456789012345", "--seed", "7", "--schedule",
                                   "cosine", "--optimizer", "adamw", "--weight-decay", "0.125"}),
      train_mnist(folder / "data", folder / "a", {"--epochs", "2", "--permuted", "--reflections", "3"})};
  for (const Arguments& arguments : runs) {
    check_success(run(arguments));
    check_success(
        run({"train", "--config", (folder / "a/config.toml").string(), "--out", (folder / "b").string()}));
    CHECK((content(folder / "a/model.h5") == content(folder / "b/model.h5")));
    CHECK(content(folder / "a/config.toml") == content(folder / "b/config.toml"));
    fs::remove_all(folder / "a");
    fs::remove_all(folder / "b");
  }
}

TEST_CASE("numbers survive the way through config.toml bit for bit", "[cli][train][config]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // Shortest decimals of doubles that six or fifteen digits would change, and seeds around 2^63.
  for (const auto& [lr, seed, line] :
       {std::tuple("0.30000000000000004", "9223372036854775807", "seed = 9223372036854775807"),
        std::tuple("5.551115123125783e-17", "9223372036854775808", "seed = \"9223372036854775808\""),
        std::tuple("0.9999999999999999", "18446744073709551615", "seed = \"18446744073709551615\"")}) {
    CAPTURE(lr, seed);
    check_success(run(train_copying(out, {"--steps", "1", "--lr", lr, "--seed", seed})));
    CHECK(has_line(out / "config.toml", fmt::format("lr = {}", lr)));
    CHECK(has_line(out / "config.toml", line));
    const fs::path copy = folder / "copy";
    check_success(run({"train", "--config", (out / "config.toml").string(), "--out", copy.string()}));
    CHECK(content(copy / "config.toml") == content(out / "config.toml"));
    CHECK((content(copy / "model.h5") == content(out / "model.h5")));
    fs::remove_all(out);
    fs::remove_all(copy);
  }
}

TEST_CASE("a value that TOML writes in its own way is read", "[cli][train][config]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", config = folder / "settings.toml";
  std::ofstream(config, std::ios::binary)
      << "\xef\xbb\xbf# a mark of the byte order, and lines of a system that ends them in another way\r\n"
         "task='copying'\r\n delay = +3\r\nhidden = 1_6 # N\r\nbatch = 0x4\r\n\"steps\" = 2\r\nlr = 1\r\n"
         "lr-orth = 1e-1\r\nclip = 5E-1\r\ncell = \"\\u0063wy\"\r\nseed = \"7\"\r\n";
  check_success(run({"train", "--config", config.string(), "--out", out.string()}));
  for (const char* line : {"delay = 3", "hidden = 16", "batch = 4", "steps = 2", "lr = 1", "lr-orth = 0.1",
                           "clip = 0.5", "cell = \"cwy\"", "seed = 7"}) {
    CAPTURE(line);
    CHECK(has_line(out / "config.toml", line));
  }
}

TEST_CASE("a setting stands in config.toml as the chosen cell or optimizer has it", "[cli][train][config]") {
  const TemporaryFolder folder;
  // One option sets it for all that have it, whichever is chosen.
  check_success(run(train_copying(folder / "a", {"--steps", "1", "--cell", "householder", "--reflections",
                                                 "3", "--optimizer", "adamw", "--epsilon", "0.25"})));
  const std::string config = Hdf5Reader(folder / "a/model.h5").string_attribute("", "config");
  CHECK_THAT(config, contains("\"kind\":\"householder\",\"reflections\":3"));
  CHECK_THAT(config, contains("\"epsilon\":0.25"));
  CHECK(has_line(folder / "a/config.toml", "reflections = 3"));
  CHECK(has_line(folder / "a/config.toml", "epsilon = 0.25"));
  // Defaults that the alternatives do not share are those of the one that is chosen.
  CHECK(has_line(folder / "a/config.toml", "weight-decay = 0.01"));
  check_success(run({"train", "--config", (folder / "a/config.toml").string(), "--cell", "cwy", "--optimizer",
                     "rmsprop", "--out", (folder / "b").string()}));
  const std::string other = Hdf5Reader(folder / "b/model.h5").string_attribute("", "config");
  CHECK_THAT(other, contains("\"kind\":\"cwy\",\"reflections\":3"));
  CHECK_THAT(other, contains("\"epsilon\":0.25,\"weight_decay\":0.01"));
}

TEST_CASE("the command line has the last word over a configuration file", "[cli][train][config]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const fs::path out = folder / "run";
  const std::string config = config_file(folder, tiny_config + "lr = 0.5\nseed = 3 # a comment\n");
  check_success(run({"train", "--config", config, "--lr", "0.25", "--hidden", "6", "--out", out.string()}));
  CHECK(has_line(out / "config.toml", "lr = 0.25"));
  CHECK(has_line(out / "config.toml", "hidden = 6"));
  CHECK(has_line(out / "config.toml", "seed = 3"));
  CHECK(has_line(out / "config.toml", "steps = 2"));
  CHECK(Hdf5Reader(out / "model.h5").shape("parameters/cell/bias") == Shape{6});

  // --steps and --epochs stand for each other.
  const std::string data =
      fmt::format("task = 'mnist'\ndata = '{}'\nhidden = 8\nbatch = 4\n", (folder / "data").string());
  const std::string in_epochs = config_file(folder, data + "epochs = 3\n");
  check_success(run({"train", "--config", in_epochs, "--steps", "1", "--out", (folder / "m1").string()}));
  CHECK(steps_in(folder / "m1/model.h5") == 1);
  const std::string in_steps = config_file(folder, data + "steps = 1\n");
  check_success(run({"train", "--config", in_steps, "--epochs", "2", "--out", (folder / "m2").string()}));
  CHECK(steps_in(folder / "m2/model.h5") == 4);
}

TEST_CASE("settings that the chosen cell ignores are refused on the command line alone",
          "[cli][train][config]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const std::string config =
      config_file(folder, tiny_config + "cell = 'expm'\nreflections = 3\nform = 'dense'\n");
  check_success(run({"train", "--config", config, "--out", out.string()}));
  const std::string saved = content(out / "config.toml");
  check_refused(
      run({"train", "--config", config, "--reflections", "3", "--out", (folder / "other").string()}), 2,
      {"--reflections", "--cell", "cwy or householder", "expm"});
  check_refused(run({"train", "--resume", "--form", "dense", "--steps", "3", "--out", out.string()}), 2,
                {"--form", "cwy", "expm"});
  check_refused(run({"train", "--resume", "--length", "3", "--steps", "3", "--out", out.string()}), 2,
                {"--length", "adding", "copying"});
  CHECK_FALSE(fs::exists(folder / "other"));
  CHECK(content(out / "config.toml") == saved);
  // A file's reflections, too many for this size, do not matter to a cell without.
  check_success(run({"train", "--config", config, "--hidden", "2", "--out", (folder / "small").string()}));
  // Given together with the choice they belong to, they are fine.
  check_success(run({"train", "--config", config, "--cell", "householder", "--reflections", "2", "--out",
                     (folder / "other").string()}));
}

TEST_CASE("a configuration file that is off is refused by file and key", "[cli][train][config][long]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, std::initializer_list<std::string> words) {
    const std::string config = config_file(folder, text);
    const fs::path out = folder / "run";
    const ProgramResult result = run({"train", "--config", config, "--out", out.string()});
    CAPTURE(text);
    check_refused(result, 2, {config});
    check_refused(result, 2, words);
    CHECK_FALSE(fs::exists(out));
  };
  refused(tiny_config + "learning_rate = 3\n", {"line 6", "'learning_rate'"});
  refused(tiny_config + "LR = 3\n", {"'LR'"});
  refused(tiny_config + "log-evry = 3\n", {"line 6", "no setting 'log-evry'; did you mean log-every?"});
  refused("task = \"copying\"\n[[layer]]\nkind = \"gru\"\nhiden_size = 3\n",
          {"line 2", "no setting 'hiden_size'; it has kind, hidden_size; did you mean hidden_size?"});
  refused(tiny_config + "--lr = 3\n", {"'--lr'"});
  refused(tiny_config + "resume = true\n", {"'resume'"});
  refused(tiny_config + "config = 'other.toml'\n", {"'config'"});
  refused(tiny_config + "help = true\n", {"'help'"});
  refused(tiny_config + "lr = \"fast\"\n", {"'lr'", "fast", "a number"});
  refused(tiny_config + "lr = \"0.1\"\n", {"'lr'", "a number"});
  refused(tiny_config + "lr = true\n", {"'lr'", "a number"});
  refused(tiny_config + "lr = [1, 2]\n", {"'lr'", "a number"});
  refused(tiny_config + "lr = -1\n", {"--lr", "above 0"});
  refused(tiny_config + "lr = nan\n", {"--lr", "nan"});
  refused(tiny_config + "lr = inf\n", {"--lr", "inf"});
  refused(tiny_config + "lr =\n", {"line 6", "'lr ='", "expected value"});
  refused(tiny_config + "lr = 1979-05-27\n", {"'lr' is a date", "a number"});
  refused(tiny_config + "lr = {rate = 1}\n", {"line 6", "tables"});
  refused(tiny_config + "lr.rate = 1\n", {"line 6", "tables"});
  refused(tiny_config + "lr = 1e999\n", {"line 6", "'lr = 1e999'"});
  refused(tiny_config + "seed = -1\n", {"--seed", "-1"});
  refused(tiny_config + "seed = 1.5\n", {"line 6", "'seed' is 1.5", "a whole number"});
  refused(tiny_config + "seed = \"many\"\n", {"--seed", "many", "a whole number"});
  refused(tiny_config + "seed = 9223372036854775808\n",
          {"line 6", "'seed = 9223372036854775808'", "in quotation marks"});
  refused(tiny_config + "layers = 1.5\n", {"line 6", "'layers' is 1.5", "a whole number"});
  refused(tiny_config + "layers = 1e1\n", {"line 6", "'layers' is 10.0", "a whole number"});
  refused(tiny_config + "layers = 65\n", {"line 6", "--layers", "65"});
  refused(tiny_config + "cell = 3\n", {"'cell'", "text"});
  refused(tiny_config + "cell = \"elman\"\n", {"--cell", "elman", "cwy"});
  refused(tiny_config + "until-solved = 5\n", {"'until-solved'", "true or false"});
  refused(tiny_config + "until-solved = \"true\"\n", {"the text \"true\"", "expected true or false"});
  refused(tiny_config + std::string("x\0y\n", 4), {"byte 0"});
  refused(tiny_config + "data = \"a\\u0000b\"\n", {"line 6", "\\u0000"});
  refused(tiny_config + "until-solved = maybe\n", {"line 6", "'until-solved = maybe'"});
  refused(tiny_config + "hidden = 9\n", {"line 6", "'hidden'", "line 3"});
  refused(tiny_config + "epochs = 2\n", {"'epochs'", "'steps'"});
  refused(tiny_config + "[model]\nlr = 1\n", {"line 6", "tables"});
  refused(tiny_config + "[# no name\n", {"'['", "key = value"});
  refused(tiny_config + "lr 0.1\n", {"line 6", "key = value"});
  refused(tiny_config + "lr\n", {"line 6"});
  refused(tiny_config + "= 3\n", {"line 6"});
  refused(tiny_config + "lr = 1 2\n", {"line 6", "'lr = 1 2'"});
  refused(tiny_config + "data = \"unclosed\n", {"line 6", "'data = \"unclosed'", "parsing string"});
  refused(tiny_config + "data = \"\\q\"\n", {"line 6", "escape"});
  refused(std::string("\0\1\2", 3), {"line 1"});
}

TEST_CASE("settings that contradict one another are refused, from a file as well", "[cli][train][config]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  const auto of = [&](const std::string& text) {
    return run({"train", "--config", config_file(folder, text).string(), "--out", out});
  };
  check_refused(of(tiny_config + "reflections = 9\n"), 2, {"--reflections 9", "--hidden 8"});
  check_refused(of("delay = 3\n"), 2, {"which task"});
  check_refused(of(""), 2, {"which task"});
  check_refused(of("task = 'copying'\nepochs = 2\n"), 2, {"copying", "no epochs"});
  check_refused(run({"train", "--config", (folder / "none.toml").string(), "--out", out}), 2, {"none.toml"});
  check_refused(run({"train", "--config", folder.path().string(), "--out", out}), 2,
                {folder.path().string()});
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("paths of every kind survive the way through config.toml", "[cli][train][config][long]") {
  const TemporaryFolder folder;
  for (const char* name : {"with space", "Übung-γ-日本", "a # b", "a, b", "[a]", "it's", "say \"x\" \\ y",
                           "new\nline", "5e1", "true"}) {
    CAPTURE(name);
    const fs::path data = folder / name;
    write_tiny_mnist(data);
    const fs::path out = folder / (std::string("run of ") + name);
    check_success(run(train_mnist(data, out, {"--steps", "1"})));
    const fs::path copy = folder / "copy";
    check_success(run({"train", "--config", (out / "config.toml").string(), "--out", copy.string()}));
    CHECK((content(copy / "model.h5") == content(out / "model.h5")));
    fs::remove_all(copy);
  }
}

TEST_CASE("a run directory may be relative, nested, or end with a slash", "[cli][train]") {
  const TemporaryFolder folder;
  const RunSettings there{.folder = folder.path()};
  check_success(run(train_copying("a/b/", {"--steps", "1"}), there));
  CHECK(fs::exists(folder / "a/b/model.h5"));
  check_success(run({"eval", "a/b/model.h5"}, there));
  check_success(
      run({"train", "copying", "--delay", "3", "--hidden", "8", "--batch", "4", "--steps", "1"}, there));
  CHECK(fs::exists(folder / "runs/copying-cwy/model.h5"));  // what the help promises
}

TEST_CASE("rgd and rgd-adam of a file stay in force with a cell without points, as SGD and Adam",
          "[cli][train]") {
  const TemporaryFolder folder;
  for (const auto& [riemannian, ordinary] : {std::pair{"rgd", "sgd"}, {"rgd-adam", "adam"}}) {
    CAPTURE(riemannian);
    const auto train = [&](const char* optimizer) {
      const fs::path out = folder / optimizer;
      const std::string config =
          config_file(folder, tiny_config + fmt::format("cell = \"matrix\"\noptimizer = \"{}\"\n"
                                                        "momentum = 0.5\nlr = 0.01\nlr-orth = 0.01\n",
                                                        optimizer))
              .string();
      check_success(run({"train", "--config", config, "--cell", "lstm", "--out", out.string()}));
      return out;
    };
    const fs::path out = train(riemannian);
    CHECK(has_line(out / "config.toml", fmt::format("optimizer = \"{}\"", riemannian)));
    CHECK((parameters_in(out / "model.h5") == parameters_in(train(ordinary) / "model.h5")));
  }
}

TEST_CASE("a trained model is not overwritten by another training", "[cli][train]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2"})));
  const std::string model = content(folder / "run/model.h5");
  const std::string config = content(folder / "run/config.toml");
  const std::string metrics = content(folder / "run/metrics.csv");
  const ProgramResult second = run(train_copying(folder / "run", {"--steps", "3"}));
  check_refused(second, 1, {(folder / "run").string(), "--resume", "--out"});
  CHECK((content(folder / "run/model.h5") == model));
  CHECK((content(folder / "run/config.toml") == config));
  CHECK((content(folder / "run/metrics.csv") == metrics));
}

TEST_CASE("train --until-solved stops early, or says that it did not get there", "[cli][train]") {
  const TemporaryFolder folder;
  const ProgramResult missed = run(train_copying(folder / "missed", {"--steps", "2", "--until-solved"}));
  check_refused(missed, 3, {"not solved after 2 steps", "--resume"});
  CHECK(steps_in(folder / "missed/model.h5") == 2);

  // Short enough to be learned within a few hundred steps.
  const ProgramResult solved =
      run({"train", "copying", "--delay", "1", "--hidden", "48", "--batch", "64", "--steps", "5000", "--lr",
           "0.005", "--eval-every", "20", "--until-solved", "--out", (folder / "solved").string()});
  check_success(solved);
  CHECK_THAT(solved.output, contains("solved after "));
  const auto steps = steps_in(folder / "solved/model.h5");
  CHECK(steps < 5000);
  CHECK(steps % 20 == 0);

  // A training that has solved its task has no more steps to take.
  const ProgramResult resumed = run({"train", "--resume", "--until-solved", "--out", folder / "solved"});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("solved after "));
  CHECK(steps_in(folder / "solved/model.h5") == steps);
}

TEST_CASE("a training that diverges says so and leaves the last sound model", "[cli][train]") {
  const TemporaryFolder folder;
  for (const char* rate : {"1e30", "1e300"}) {
    CAPTURE(rate);
    const fs::path out = folder / rate;
    check_success(run(train_copying(out, {"--steps", "2"})));
    const ProgramResult result = run({"train", "--resume", "--steps", "50", "--lr", rate, "--lr-orth", rate,
                                      "--clip", "0", "--save-every", "1", "--out", out.string()});
    check_refused(result, 1, {"diverged", "learning rate"});
    check_success(run({"inspect", (out / "model.h5").string()}));
    // A row of metrics.csv without a validation prepares the parameters too. Other seeds go on.
    const ProgramResult seeds =
        run(train_copying(folder / (std::string(rate) + "-seeds"),
                          {"--seeds", "2", "--steps", "9", "--lr", rate, "--lr-orth", rate, "--clip", "0",
                           "--log-every", "1", "--eval-every", "9"}));
    check_refused(seeds, 1, {"2 of 2 trainings failed", "diverged", "learning rate"});
  }
}

TEST_CASE("a configuration file does not decide where a run is kept", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path other = folder / "other", mine = folder / "mine", config = folder / "shared.toml";
  std::ofstream(config) << "task = \"copying\"\ndelay = 3\nhidden = 8\nsteps = 1\nout = \"" << other.string()
                        << "\"\n";
  const ProgramResult result = run({"train", "--config", config.string(), "--out", mine.string()});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.errors, contains("shared.toml is ignored; only --out says"));
  CHECK(fs::exists(mine / "model.h5"));
  CHECK_FALSE(fs::exists(other));
  CHECK_THAT(content(mine / "config.toml"), !contains("\nout ="));
}

TEST_CASE("a configuration file that is none or too long is refused", "[cli][train]") {
  const TemporaryFolder folder;
  const fs::path config = folder / "config.toml";
  std::ofstream(config) << std::string(std::size_t{1} << 20, '#') << "\n";
  check_refused(run({"train", "--config", config.string()}), 2,
                {"config.toml", "has more than 1048576 bytes"});
  check_refused(run({"train", "--config", "/dev/zero"}), 2, {"'/dev/zero' has more than 1048576 bytes"});
  // Levels of nesting that would end the program where they are taken apart.
  const auto refused = [&](const std::string& text, const char* words) {
    std::ofstream(config, std::ios::trunc) << text;
    check_refused(run({"train", "--config", config.string()}), 2, {"config.toml", words});
  };
  std::string dots;
  for (int i = 0; i < 300000; ++i) dots += "a.";
  refused(dots + "a = 1\n", "has more than 2000 dots");
  refused("[" + dots + "a]\n", "has more than 2000 dots");
  refused(dots.substr(0, 4000) + "a = 1\n", "tables");
  for (const char* opening : {"[", "{a=", "[{a="}) {
    std::string nested = "delay = ";
    for (int i = 0; i < 200000; ++i) nested += opening;
    refused(nested, "line 1");
  }
}
