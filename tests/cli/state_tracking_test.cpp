// The tasks words, language and recall on the command line, eval --lengths, and train --seeds.

#include <fmt/format.h>

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/html_page_content.hpp"
#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/hdf5_edit.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments train_words(const fs::path& out, const Arguments& more = {}, const char* steps = "3") {
  return Arguments{"train",      "words",    "--length", "6",         "--cell",  "gru",
                   "--hidden",   "5",        "--batch",  "8",         "--steps", steps,
                   "--schedule", "constant", "--out",    out.string()} +
         more;
}

}  // namespace

TEST_CASE("eval --lengths gives the figures of each length, as the library has them", "[cli][eval][words]") {
  const TemporaryFolder folder;
  check_success(run(train_words(folder / "run", {"--group", "D4", "--alphabet", "random", "--seed", "5"})));
  const std::string model = folder / "run/model.h5";
  const ProgramResult result = run({"eval", model, "--json", "--lengths", "2,6,2,40,6"});
  check_success(result);
  const Json json = Json::parse(result.output);
  REQUIRE(json["lengths"].size() == 3);
  const auto loaded = load_model(model);
  const ModelFileInfo info = read_model_info(model);
  const auto task = make_task(info.task_config, {.batch = 8, .seed = 5});
  const Index lengths[] = {2, 6, 40};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& row = json["lengths"][i];
    CAPTURE(row.dump());
    CHECK(row["length"] == lengths[i]);
    const auto at_length = task->with_length(lengths[i], 8);
    const Evaluation expected = evaluate(*loaded, *at_length, HeldOut::test);
    CHECK(row["cross_entropy"].get<double>() == expected.loss);
    CHECK(row["accuracy"].get<double>() == expected.metric("accuracy").value());
    CHECK(row["sequence_accuracy"].get<double>() == expected.metric("sequence_accuracy").value());
    CHECK(row["baseline"].get<double>() == at_length->baseline_loss());
  }
  CHECK(json["accuracy"] == json["lengths"][1]["accuracy"]);
  CHECK(json["sequence_accuracy"] == json["lengths"][1]["sequence_accuracy"]);
  CHECK_FALSE(Json::parse(run({"eval", model, "--json"}).output).contains("lengths"));

  const ProgramResult text = run({"eval", model, "--lengths", "40"});
  check_success(text);
  CHECK_THAT(text.output, contains("right sequences") && contains("\n        40 "));
  check_refused(run({"eval", model, "--lengths", "0"}), 2, {"--lengths"});
  check_refused(run({"eval", model, "--lengths", "12,x"}), 2, {"--lengths"});
  check_refused(run({"eval", model, "--lengths", "2147483648"}), 2, {"--lengths", "1 to 2147483647"});
  check_refused(run({"eval", model, "--lengths", ","}), 2, {"--lengths was given without a value"});
#ifdef __linux__  // which says how much memory is free
  check_refused(run({"eval", model, "--lengths", "2000000000"}), 1, {"--lengths 2000000000", "GB"});
#endif
  check_success(run(train_copying(folder / "copying", {"--steps", "1"})));
  check_refused(run({"eval", (folder / "copying/model.h5").string(), "--lengths", "10"}), 2,
                {"--lengths", "copying"});
}

TEST_CASE("a run of words has sequence accuracy in its metrics and its report", "[cli][words]") {
  const TemporaryFolder folder;
  check_success(run(train_words(folder / "run", {"--eval-every", "2"})));
  std::ifstream metrics(folder / "run/metrics.csv");
  std::string header, row;
  std::getline(metrics, header);
  std::getline(metrics, row);
  CHECK(header.ends_with(",reflection_norm,sequence_accuracy"));
  CHECK(std::count(row.begin(), row.end(), ',') == std::count(header.begin(), header.end(), ','));
  CHECK(row.ends_with(",0.000000"));  // after two steps no sequence is right
  // Resumed, it has the bits of a training that was not interrupted.
  check_success(run({"train", "--resume", "--steps", "5", "--out", (folder / "run").string()}));
  check_success(run(train_words(folder / "whole", {"--eval-every", "2"}, "5")));
  CHECK(parameters_in(folder / "run/model.h5") == parameters_in(folder / "whole/model.h5"));
}

TEST_CASE("words can be trained on a fixed set by epochs, and on growing lengths", "[cli][words]") {
  const TemporaryFolder folder;
  const Arguments words = {"train", "words",    "--cell", "gru",     "--hidden",
                           "5",     "--length", "9",      "--batch", "8"};
  const ProgramResult result = run(
      words + Arguments{"--training-samples", "25", "--epochs", "2", "--out", (folder / "fixed").string()});
  check_success(result);
  CHECK_THAT(result.output, contains("trained after 6 steps"));  // three batches an epoch
  check_success(
      run(words + Arguments{"--curriculum", "1", "--steps", "4", "--out", (folder / "growing").string()}));
  check_refused(run(words + Arguments{"--epochs", "2", "--out", (folder / "fresh").string()}), 2,
                {"words", "no epochs"});
  check_refused(run(words + Arguments{"--training-samples", "7", "--out", (folder / "few").string()}), 2,
                {"7 training samples", "batch of 8"});
}

TEST_CASE("DeltaProduct networks for words have defaults of their own", "[cli][words][delta]") {
  const TemporaryFolder folder;
  const auto train = [&](const char* name, const Arguments& more) {
    check_success(run(Arguments{"train", "words", "--group", "S4", "--cell", "deltaproduct", "--length", "4",
                                "--batch", "4", "--steps", "20", "--out", (folder / name).string()} +
                      more));
    return read_model_info((folder / name / "model.h5").string());
  };
  const auto cell_of = [](const ModelFileInfo& info) {
    const auto& model = std::get<ModelOptions>(info.model);
    CHECK(model.cells.size() == 2);  // a block without MLP, and a norm
    return std::get<DeltaProductCell>(std::get<Residual>(model.cells.at(0)).layers.at(1));
  };
  const ModelFileInfo info = train("defaults", {});
  const DeltaProductCell cell = cell_of(info);
  CHECK(cell.heads == 8);
  CHECK(cell.key_size == 5);  // one more than the points of S4
  CHECK(cell.value_size == 8);
  CHECK(cell.beta_offset == 20);
  CHECK(cell.vector_activation == VectorActivation::identity);
  CHECK(cell.learn_initial_state);
  CHECK(cell.without_values);
  CHECK(Json::parse(info.task_config)["curriculum"] == 2);  // a tenth of the steps

  const DeltaProductCell chosen =
      cell_of(train("chosen", {"--key-size", "7", "--without-values=false", "--learn-initial-state=false",
                               "--beta-offset", "0", "--vector-activation", "silu"}));
  CHECK(chosen.key_size == 7);
  CHECK_FALSE(chosen.without_values);
  CHECK_FALSE(chosen.learn_initial_state);
  // A training that began before there were such options goes on without them.
  const fs::path config = folder / "chosen/config.toml";
  std::ifstream before(config);
  std::string kept;
  for (std::string line; std::getline(before, line);) {
    const auto is = [&](const char* key) { return line.starts_with(key); };
    if (!is("without-values") && !is("beta-offset") && !is("vector-activation")) kept += line + "\n";
  }
  before.close();
  kept.replace(kept.find("\nsteps = 20\n"), 12, "\nsteps = 22\n");
  std::ofstream(config) << kept;
  check_success(run({"train", "--resume", "--out", (folder / "chosen").string()}));

  check_refused(run({"train", "words", "--cell", "deltaproduct", "--learn-initial-state=false",
                     "--without-values", "--out", (folder / "still").string()}),
                2, {"without values", "learned initial state"});
}

TEST_CASE("DeltaProduct models from before there was beta_offset compute what they did",
          "[cli][words][delta][long]") {
  const TemporaryFolder folder;
  const fs::path now = folder / "now", before = folder / "before";
  check_success(run({"train", "words", "--cell", "deltaproduct", "--beta-offset", "0", "--length", "4",
                     "--batch", "4", "--steps", "3", "--schedule", "constant", "--out", now.string()}));
  fs::copy(now, before, fs::copy_options::recursive);
  for (const char* file : {"model.h5", "best.h5"})
    Hdf5Edit(before / file).replace_in_text("/", "config", "\"beta_offset\":0.0", "\"beta_bias\":20.0");
  std::string config = content(before / "config.toml");
  const std::string setting = "beta-offset = 0\n";
  REQUIRE(config.find(setting) != std::string::npos);
  config.replace(config.find(setting), setting.size(), "beta-bias = 20\n");
  std::ofstream(before / "config.toml") << config;

  const auto loss = [](const fs::path& out) {
    const ProgramResult result = run({"eval", (out / "model.h5").string(), "--json"});
    check_success(result);
    return Json::parse(result.output)["cross_entropy"].get<double>();
  };
  CHECK(loss(before) == loss(now));
  for (const fs::path& out : {now, before}) {
    const ProgramResult resumed = run({"train", "--resume", "--steps", "6", "--out", out.string()});
    CHECK(resumed.exit_code == 0);
    CHECK((resumed.errors.find("bias") != std::string::npos) == (out == before));
  }
  CHECK(training_content(before / "model.h5") == training_content(now / "model.h5"));

  const fs::path tables = folder / "tables.toml";
  std::ofstream(tables)
      << "task = \"words\"\nlength = 4\nsteps = 1\n[[layer]]\nkind = \"gru\"\nhidden_size = 5\n"
         "[[layer]]\nkind = \"residual\"\n[[layer.layers]]\nkind = \"deltaproduct\"\nhidden_size = 5\n"
         "beta_bias = 3.0\n";
  const ProgramResult begun =
      run({"train", "--config", tables.string(), "--out", (folder / "tables").string()});
  CHECK(begun.exit_code == 0);
  CHECK_THAT(begun.errors, contains("bias") && contains("ignored") && contains("tables.toml"));
}

TEST_CASE("DeltaProduct networks for languages have defaults that follow from their states",
          "[cli][language][delta]") {
  const TemporaryFolder folder;
  const auto cell_of = [&](const char* language, const Arguments& more = {}) {
    const fs::path out = folder / (language + std::to_string(more.size()));
    check_success(
        run(Arguments{"train", "language", "--language", language, "--cell", "deltaproduct", "--length", "4",
                      "--test-length", "5", "--batch", "4", "--steps", "1", "--out", out.string()} +
            more));
    const ModelFileInfo info = read_model_info(out / "model.h5");
    CHECK(std::holds_alternative<AdamW>(info.trainer.optimizer) == (language != std::string("modular")));
    return std::get<DeltaProductCell>(
        std::get<Residual>(std::get<ModelOptions>(info.model).cells.at(0)).layers.at(1));
  };
  const DeltaProductCell parity = cell_of("parity");
  CHECK(parity.key_size == 3);
  CHECK(parity.beta_offset == 20);
  CHECK(parity.without_values);
  CHECK(parity.convolution == 0);
  CHECK(cell_of("cycle").key_size == 6);
  CHECK(cell_of("even-pairs").convolution == 2);
  CHECK_FALSE(cell_of("modular").learn_initial_state);
  const DeltaProductCell projects = cell_of("parity", {"--beta-limit", "1"});
  CHECK(projects.beta_offset == 0);
  CHECK_FALSE(projects.without_values);
}

// Measured: both are solved within 100 steps of 64 sequences (seed 1).
TEST_CASE("DeltaProduct networks learn parity and even pairs with the defaults", "[cli][language][slow]") {
  for (const char* language : {"parity", "even-pairs"}) {
    CAPTURE(language);
    const TemporaryFolder folder;
    const fs::path out = folder / "run";
    check_success(run({"train", "language", "--language", language, "--cell", "deltaproduct", "--batch", "64",
                       "--steps", "300", "--out", out.string()}));
    const ProgramResult result = run({"eval", (out / "model.h5").string(), "--json"});
    check_success(result);
    CHECK(Json::parse(result.output)["accuracy"] >= 0.99);  // of sequences of 40 to 256 symbols
  }
}

TEST_CASE("DeltaProduct networks solve words of S3 with the defaults", "[cli][words][delta][slow]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run({"train", "words", "--group", "S3", "--cell", "deltaproduct", "--length", "32", "--batch", "64",
           "--steps", "1000", "--until-solved", "--eval-every", "100", "--out", (folder / "run").string()});
  check_success(result);
  CHECK_THAT(result.output, contains("solved"));
}

TEST_CASE("report draws the accuracy of words over their steps, and that of sequences",
          "[cli][report][words][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "page.html";
  check_success(run(train_words(folder / "run", {"--eval-every", "1"})));
  check_success(run({"report", (folder / "run").string(), "--out", out.string()}));
  std::ifstream stream(out);
  const std::string page(std::istreambuf_iterator<char>(stream), {});
  // Two losses, two accuracies, the rate and the norm of the gradient, over steps and over time; the steps of
  // a sequence. There is no orthogonality error to draw.
  CHECK(plots_in(page) == 13);
  for (const char* words : {"words, group S3", "right sequences [%]", "step of the sequence", "run (6)"})
    CHECK_THAT(page, contains(words));
}

TEST_CASE("a training of several seeds is one command for each, and prints the spread",
          "[cli][words][long]") {
  const TemporaryFolder folder;
  const fs::path all = folder / "all", one = folder / "one";
  const ProgramResult result = run(train_words(all, {"--seeds", "2", "--seed", "7"}));
  check_success(result);
  for (const char* words :
       {"seed 7 (1 of 2)", "seed 8 (2 of 2)", "mean", "sd", "median", "sequences [%]", "solved: 0 of 2"}) {
    CHECK_THAT(result.output, contains(words));
  }
  check_success(run(train_words(one, {"--seed", "8"})));
  CHECK(training_content(all / "seed8/model.h5") == training_content(one / "model.h5"));
  CHECK(parameters_in(all / "seed7/model.h5") != parameters_in(one / "model.h5"));

  // The mean is that of what eval says of the two.
  double mean = 0;
  for (const char* seed : {"seed7", "seed8"}) {
    const Json json = Json::parse(run({"eval", (all / seed / "best.h5").string(), "--json"}).output);
    mean += json["cross_entropy"].get<double>() / 2;
  }
  CHECK_THAT(result.output, contains(fmt::format("loss {:>12.6g}", mean)));

  check_refused(run(train_words(all, {"--seeds", "2", "--seed", "7"})), 1, {"seed7", "--resume"});
  const ProgramResult again = run(train_words(all, {"--seeds", "3", "--seed", "7", "--resume"}));
  check_success(again);
  CHECK_THAT(again.output, contains("nothing is left to do") && contains("seed 9 (3 of 3)"));
  // A seed that was not begun takes the settings of those that were.
  check_success(run({"train", "--resume", "--seeds", "4", "--seed", "7", "--out", all.string()}));
  check_success(run(train_words(folder / "ten", {"--seed", "10"})));
  CHECK(training_content(all / "seed10/model.h5") == training_content(folder / "ten/model.h5"));
  check_refused(run({"train", "--resume", "--seeds", "2", "--out", (folder / "none").string()}), 1,
                {"no training to resume", "--resume"});
  check_refused(run(train_words(one, {"--seeds", "2"})), 1, {"run directory of one training"});
  check_refused(run({"train", "words", "--seeds", "2"}), 2, {"--seeds", "--out"});
  check_refused(run(train_words(all, {"--seeds", "0"})), 2, {"--seeds"});
}

TEST_CASE("a seed that diverges does not stop the others", "[cli][words]") {
  const TemporaryFolder folder;
  const fs::path all = folder / "all";
  check_success(run(train_words(all, {"--seeds", "2", "--seed", "7"})));
  const fs::path config = all / "seed7/config.toml";
  std::string text = content(config);
  const std::size_t rate = text.find("\nlr = ") + 1;
  text.replace(rate, text.find('\n', rate) - rate, "lr = 1e300");
  std::ofstream(config) << text;
  const ProgramResult result =
      run({"train", "--resume", "--seeds", "2", "--seed", "7", "--steps", "6", "--out", all.string()});
  CHECK(result.exit_code == 1);
  CHECK(lines(result.errors) == 2);
  CHECK_THAT(result.errors, contains("config.toml' was edited by hand or is of an earlier version"));
  CHECK_THAT(result.errors, contains("1 of 2 trainings failed: seed 7 (") && contains("diverged"));
  CHECK_THAT(result.output, contains("seed 7 failed") && contains("seed 8 (2 of 2)") &&
                                contains("trained after 6 steps") && contains("solved: 0 of 1"));
}

TEST_CASE("settings that are wrong are refused once, not for each seed", "[cli][words]") {
  const TemporaryFolder folder;
  const std::pair<Arguments, std::string> wrong[] = {
      {{"words", "--cell", "gru", "--precision", "bf16", "--device", "cpu"}, "--precision bf16"},
      {{"words", "--cell", "cayley", "--hidden", "8", "--negative-signs", "9"}, "9 negative signs"},
      {{"words", "--cell", "deltaproduct", "--learn-initial-state=false", "--without-values"}, "zeros"},
      {{"words", "--cell", "deltaproduct", "--init", "exact", "--hidden", "2"}, "--hidden"},
      {{"words", "--group", "S0"}, "S0"},
      {{"words", "--delay", "5"}, "--delay"},
      {{"words", "--seed", "18446744073709551615"}, "--seed 18446744073709551615 with --seeds 2"}};
  for (const auto& [settings, sentence] : wrong) {
    const ProgramResult result = run(
        Arguments{"train", "--steps", "1", "--seeds", "2", "--out", (folder / "run").string()} + settings);
    check_refused(result, 2, {sentence});
    CHECK(result.output == "");
  }
}

TEST_CASE("every language and recall can be trained and evaluated", "[cli][language][long]") {
  const TemporaryFolder folder;
  const Arguments small = {"--cell", "lstm", "--hidden", "4", "--batch", "4", "--steps", "1"};
  for (const char* language : {"parity", "even-pairs", "modular", "modular-brackets", "cycle"}) {
    const fs::path out = folder / language;
    check_success(run(Arguments{"train", "language", "--language", language, "--length", "8", "--test-length",
                                "12", "--out", out.string()} +
                      small));
    const ProgramResult result = run({"eval", (out / "model.h5").string(), "--json", "--lengths", "20,21"});
    check_success(result);
    CHECK(Json::parse(result.output)["lengths"].size() == 2);
  }
  check_success(run(Arguments{"train", "recall", "--keys", "2", "--symbols", "12", "--length", "10", "--out",
                              (folder / "recall").string()} +
                    small));
  check_success(run({"eval", (folder / "recall/model.h5").string(), "--lengths", "16"}));
  check_refused(run({"eval", (folder / "recall/model.h5").string(), "--lengths", "17"}), 2, {"17"});
}

TEST_CASE("words that cannot be are refused in a sentence", "[cli][words]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Arguments& more, int code, std::initializer_list<std::string> words) {
    check_refused(run(train_words(folder / "run", more)), code, words);
    CHECK_FALSE(fs::exists(folder / "run/model.h5"));
  };
  refused({"--group", "S0"}, 2, {"'S0'", "S2 to S7"});
  refused({"--group", "Q8"}, 2, {"'Q8'", "as in S5"});
  refused({"--group", "S7"}, 2, {"S7", "832 generators, or swaps"});
  refused({"--group", "A5", "--alphabet", "swaps"}, 2, {"A5"});
  refused({"--alphabet", "some"}, 2, {"--alphabet"});
  refused({"--generators", "3"}, 2, {"--generators", "--alphabet random", "not of all"});
  check_refused(run({"train", "words", "--length", "0"}), 2, {"length is 0"});
  check_refused(run({"train", "words", "--length", "1000000000", "--out", (folder / "run").string()}), 2,
                {"1000000000", "at most"});
  refused({"--language", "parity"}, 2, {"--language", "words"});
  check_refused(run({"train", "adding", "--length", "1", "--out", (folder / "run").string()}), 2,
                {"length is 1", "at least 2"});
}
