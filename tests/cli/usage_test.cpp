// Help, version, and flags that are off.

#include <fmt/format.h>

#include <initializer_list>
#include <type_traits>

#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/version.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

struct Help {
  Arguments command;
  std::vector<std::string> options;
};

/// Of every task but translate, of translate, of all models, and of whole trainings.
const Arguments other_tasks = {"--language",
                               "--shortest",
                               "--test-length",
                               "--keys",
                               "--symbols",
                               "--group",
                               "--alphabet",
                               "--generators",
                               "--training-samples",
                               "--curriculum",
                               "--delay",
                               "--length",
                               "--permuted",
                               "--permutation-seed",
                               "--clips",
                               "--frames",
                               "--goal",
                               "--inputs",
                               "--target",
                               "--id",
                               "--group-by",
                               "--ahead",
                               "--text",
                               "--normalization",
                               "--missing",
                               "--class-weights",
                               "--validation",
                               "--test",
                               "--validation-part",
                               "--test-part"};
const Arguments of_sentences = {"--direction", "--pairs",         "--tokenizer", "--vocabulary",
                                "--keep-case", "--strip-accents", "--longest",   "--data"};
const Arguments of_the_model = {"--hidden",
                                "--layers",
                                "--activation",
                                "--init",
                                "--form",
                                "--input-matrix",
                                "--negative-signs",
                                "--rank-one-updates",
                                "--learn-initial-state",
                                "--heads",
                                "--key-size",
                                "--value-size",
                                "--householder",
                                "--factor",
                                "--beta-offset",
                                "--vector-activation",
                                "--without-values",
                                "--encoder",
                                "--beta-limit",
                                "--decay",
                                "--convolution",
                                "--readout-norm",
                                "--norm-epsilon",
                                "--output-gate",
                                "--kernel-size",
                                "--hidden-kernel",
                                "--peepholes",
                                "--mlp-size",
                                "--no-mlp",
                                "--block-dropout",
                                "--positions",
                                "--embedding-size",
                                "--tied",
                                "--dropout",
                                "--label-smoothing",
                                "--bidirectional",
                                "--batch",
                                "--optimizer"};
const Arguments of_a_training = {
    "--config",   "--seeds",     "--steps",          "--epochs",          "--lr",
    "--lr-orth",  "--metric",    "--retraction",     "--momentum",        "--rmsprop-decay",
    "--beta1",    "--beta2",     "--epsilon",        "--weight-decay",    "--clip",
    "--schedule", "--warmup",    "--schedule-every", "--schedule-factor", "--schedule-final",
    "--out",      "--log-every", "--eval-every",     "--save-every",      "--accumulate",
    "--patience", "--init-from", "--tensorboard"};

const Help helps[] = {
    {{"train"},
     Arguments{"task", "--device", "--threads", "--cell", "--reflections", "--seed", "--until-solved",
               "--precision", "--rollout", "--verbose", "--resume"} +
         other_tasks + of_sentences + of_the_model + of_a_training},
    {{"eval"},
     {"model", "--data", "--validation", "--test", "--lengths", "--ahead", "--json", "--verbose", "--beam",
      "--length-penalty", "--sample", "--device", "--threads", "--precision", "--rollout"}},
    {{"translate"},
     {"model", "--beam", "--length-penalty", "--n-best", "--batch", "--json", "--device", "--threads",
      "--precision", "--rollout"}},
    {{"predict"},
     {"model", "input", "-o,--out,--output", "--states", "--ahead", "--generate", "--temperature", "--prompt",
      "--seed", "--overwrite", "--verbose", "--device", "--threads", "--precision", "--rollout"}},
    {{"inspect"},
     {"model", "--length", "--data", "--export", "--overwrite", "--json", "--device", "--threads",
      "--precision", "--rollout"}},
    {{"bench", "rollout"},
     {"--cells", "--hidden", "--reflections", "--batch", "--length", "--activation", "--samples", "--device",
      "--threads", "--precision", "--rollout", "--json", "--overwrite"}},
    {{"bench", "prepare"},
     {"--cells", "--hidden", "--reflections", "--samples", "--device", "--threads", "--json", "--overwrite"}},
    {{"bench", "delta-product"},
     {"--householder", "--batch", "--length", "--heads", "--key", "--value", "--chunk", "--gated",
      "--inference", "--samples", "--device", "--threads", "--precision", "--json", "--overwrite"}},
    {{"bench", "rank-one-chain"},
     {"--batch", "--length", "--heads", "--size", "--columns", "--chunk", "--samples", "--device",
      "--threads", "--precision", "--json", "--overwrite"}},
    {{"bench", "position-scores"},
     {"--batch", "--length", "--heads", "--size", "--chunk", "--samples", "--device", "--threads",
      "--precision", "--json", "--overwrite"}},
    {{"bench", "compare"},
     {"--hidden", "--reflections", "--batch", "--length", "--samples", "--limit", "--device", "--threads",
      "--precision", "--verbose", "--out", "--json", "--overwrite"}},
    {{"bench", "convergence"},
     {"--hidden", "--reflections", "--batch", "--noise", "--steps", "--seeds", "--page", "--json",
      "--overwrite"}},
    {{"bench", "train"},
     Arguments{"task", "--cell", "--reflections", "--seed", "--samples", "--device", "--threads",
               "--precision", "--rollout", "--json", "--overwrite"} +
         other_tasks + of_sentences + of_the_model},
    {{"bench", "translate"},
     Arguments{"--cells", "--reflections", "--json", "--overwrite", "--beam", "--length-penalty", "--device",
               "--threads", "--precision", "--rollout"} +
         of_sentences + of_the_model + of_a_training},
    {{"report"}, {"runs", "--out", "--overwrite", "--sentences"}},
    {{"runs"}, {"folder", "--json", "--csv"}}};

/// Each entry of a help: its name, and the explanation beside it or in the next line.
std::vector<std::pair<std::string, std::string>> entries(const std::string& help) {
  std::vector<std::pair<std::string, std::string>> found;
  std::string line;
  for (const char c : help) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const std::size_t start = line.find_first_not_of(' ');
    if (start == 2) {
      const std::size_t end = line.find(' ', 2);
      const std::size_t gap = line.find("  ", 2);
      const std::size_t text = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
      // A default of full width leaves one blank before the explanation.
      const bool beside = line.size() > 30 && line[29] == ' ' && line[30] != ' ';
      found.emplace_back(line.substr(2, end - 2), beside                      ? line.substr(30)
                                                  : text == std::string::npos ? ""
                                                                              : line.substr(text));
    } else if (start != std::string::npos && start > 20 && !found.empty()) {
      found.back().second = line.substr(start);
    }
    line.clear();
  }
  return found;
}

}  // namespace

TEST_CASE("what is no number is not told that it rounds to one", "[cli]") {
  for (const char* option : {"--weight-decay", "--clip"}) {
    const ProgramResult result = run({"train", "copying", option, "abc"});
    CHECK(result.exit_code == 2);
    CHECK(result.errors.find("expected a number, at least 0") != std::string::npos);
  }
}

TEST_CASE("every command's help explains every option", "[cli][usage]") {
  for (const Help& help : helps) {
    CAPTURE(help.command);
    const ProgramResult result = run(help.command + Arguments{"--help"});
    check_success(result);
    const auto found = entries(result.output);
    for (const auto& [name, explanation] : found) {
      CAPTURE(name, explanation);
      CHECK(explanation.size() >= 7);
    }
    for (const std::string& option : help.options) {
      CAPTURE(option);
      CHECK(std::count_if(found.begin(), found.end(), [&](const auto& e) { return e.first == option; }) == 1);
    }
    // ... and there is none that this test does not know.
    CHECK(found.size() == help.options.size() + 1);
    CHECK(run(help.command + Arguments{"-h"}).output == result.output);
  }
}

TEST_CASE("the help shows no default that depends on the task", "[cli][usage]") {
  const std::string help = run({"train", "--help"}).output;
  for (const char* option : {"--hidden",      "--batch",        "--steps",
                             "--epochs",      "--lr",           "--lr-orth",
                             "--clip",        "--weight-decay", "--eval-every",
                             "--save-every",  "--init",         "--curriculum",
                             "--heads",       "--key-size",     "--value-size",
                             "--householder", "--beta-offset",  "--vector-activation",
                             "--convolution", "--readout-norm", "--mlp-size"}) {
    CAPTURE(option);
    const std::size_t at = help.find(std::string("\n  ") + option + " ");
    REQUIRE(at != std::string::npos);
    // CLI11 writes a default as "INT=5" or, from version 2.4 on, as "INT [5]".
    const std::string line = help.substr(at + 1, help.find('\n', at + 1) - at - 1);
    CHECK(line.find('=') == std::string::npos);
    CHECK(line.find(" [") == std::string::npos);
  }
  CHECK((help.find("--seed UINT=1 ") != std::string::npos ||
         help.find("--seed UINT [1] ") != std::string::npos));
}

TEST_CASE("the defaults of DeltaProduct that the help names are those of the layer", "[cli][usage]") {
  const std::string help = run({"train", "--help"}).output;
  orthornn::DeltaProductCell::fields(
      [&](const char* key, auto member, const orthornn::Domain&, const char* explanation) {
        const std::string name = key;
        // Of these the help says in words what they are, or has the default beside the option.
        if (name == "hidden_size" || name == "learn_initial_state" || name == "without_values") return;
        const std::size_t at = help.find(std::string(explanation) + "; left out: ");
        if (at == std::string::npos) return;
        const auto value = orthornn::DeltaProductCell{}.*member;
        std::string text;
        if constexpr (std::is_enum_v<decltype(value)>) {
          text = orthornn::name_of(value);
        } else {
          text = fmt::format("{}", value);
        }
        CAPTURE(name);
        CHECK_THAT(help.substr(at, 200 + name.size()), contains("; left out: " + text + ","));
      });
}

TEST_CASE("the program names its commands and its version", "[cli][usage]") {
  const ProgramResult help = run({"--help"});
  check_success(help);
  for (const char* command : {"train", "eval", "predict", "inspect", "convert", "bench", "runs"}) {
    CHECK_THAT(help.output, contains(std::string("\n  ") + command + " "));
  }
  const ProgramResult bench = run({"bench", "--help"});
  check_success(bench);
  CHECK_THAT(bench.output, contains("rollout"));
  CHECK_THAT(bench.output, contains("prepare"));
  const ProgramResult version = run({"--version"});
  check_success(version);
  CHECK_THAT(version.output, contains(orthornn::version()));
  CHECK(lines(version.output) == 1);
}

TEST_CASE("a command line that is off is refused in one line", "[cli][usage][long]") {
  const TemporaryFolder folder;
  const RunSettings there{.folder = folder.path()};
  const auto refused = [&](const Arguments& arguments, std::initializer_list<std::string> words) {
    CAPTURE(arguments);
    const ProgramResult result = run(arguments, there);
    check_refused(result, 2, words);
    CHECK(result.output == "");
    CHECK(fs::is_empty(folder.path()));
  };
  refused({}, {"subcommand", "--help"});
  refused({"teach"}, {"teach"});
  refused({"bench", "speed"}, {"speed"});
  refused({"teach", "--hidden", "3"}, {"teach"});
  refused({"--hidden", "3"}, {"--hidden"});
  refused({"train"}, {"which task", "copying", "mnist"});
  refused({"train", "mnist", "--permutation-seed", "3"}, {"--permutation-seed", "--permuted"});
  refused({"train", "copying", "--cell", "deltaproduct", "--readout-norm", "none", "--norm-epsilon", "1"},
          {"--norm-epsilon", "--readout-norm rms"});
  refused({"train", "copying", "--cell", "convneru"}, {"the cell convneru reads frames", "the task video"});
  refused({"train", "video", "--cell", "lstm", "--kernel-size", "3"},
          {"--kernel-size", "--cell convneru or convlstm"});
  refused({"train", "video", "--cell", "convneru", "--peepholes"}, {"--peepholes", "--cell convlstm"});
  refused({"train", "video", "--cell", "convneru", "--kernel-size", "4"}, {"kernel size 4", "odd"});
  for (const char* cell : {"convneru", "convlstm"}) {
    refused({"train", "video", "--cell", cell, "--kernel-size", "9"},
            {"--kernel-size 9", "frames of 8 x 8", "an odd number up to 7"});
  }
  for (const char* kernel : {"glorot", "orthogonal", "zeros"}) {
    refused({"train", "video", "--cell", "convneru", "--hidden-kernel", kernel, "--lr-orth", "0.1"},
            {"--lr-orth", kernel, "whose rate is --lr"});
  }
  refused({"train", "copying", "--optimizer", "rgd-adam", "--retraction", "qr"}, {"--retraction", "--cell"});
  for (const char* optimizer : {"rgd", "rgd-adam"}) {
    refused({"train", "copying", "--optimizer", optimizer},
            {std::string("--optimizer ") + optimizer, "this model has none", "--cell"});
  }
  refused({"train", "words", "--cell", "deltaproduct", "--beta-bias", "3"}, {"--beta-bias", "--beta-offset"});
  // Flags with values.
  refused({"train", "words", "--cell", "deltaproduct", "--without-values=maybe"},
          {"--without-values", "'maybe' was given; expected true or false"});
  refused({"train", "copying", "--verbose=7"}, {"--verbose", "'7'", "true or false"});
  refused({"bench", "delta-product", "--gated=yes"}, {"--gated", "'yes'", "true or false"});
  refused({"train", "words", "--cell", "deltaproduct", "--no-mlp="}, {"'--no-mlp=' has no value"});
  refused({"train", "mnist", "--permuted=false", "--permutation-seed", "3"}, {"--permuted"});
  refused({"bench", "train"}, {"which task? expected adding, copying"});
  refused({"bench", "train", "words", "--group", "Q8"}, {"'Q8'"});
  refused({"train", "sorting"}, {"sorting", "copying"});
  refused({"train", "copying", "adding"}, {"'adding' was not expected"});
  refused({"train", "copying", "one", "--two", "three"}, {"'one', '--two', 'three' were not expected"});
  refused({"train", "copying", "--speed", "3"}, {"--speed"});
  refused({"train", "copying", "--hidden"}, {"--hidden was given without a value"});
  refused({"train", "copying", "--hidden", ""}, {"--hidden"});
  refused({"train", "copying", "--hidden", "-3"}, {"--hidden", "-3"});
  refused({"train", "copying", "--hidden", "0"}, {"--hidden", "0"});
  refused({"train", "copying", "--hidden", "2.5"}, {"--hidden", "2.5"});
  refused({"train", "copying", "--hidden", "many"},
          {"--hidden", "'many' was given; expected a whole number from 1 to"});
  refused({"train", "copying", "--positions", "abc"},
          {"--positions: 'abc' was given; expected a whole number from 0 to 16777216"});
  refused({"train", "copying", "--layers", "65"},
          {"--layers", "'65' was given", "a whole number from 1 to 64"});
  refused({"train", "copying", "--hidden", "99999999999999999999"}, {"--hidden", "99999999999999999999"});
  refused({"train", "copying", "--hidden", "3", "--hidden", "4"}, {"--hidden"});
  refused({"train", "copying", "--hidden", "8", "--reflections", "9"}, {"--reflections 9", "--hidden 8"});
  refused({"train", "copying", "--hidden", "8", "--reflections", "-1"}, {"--reflections", "-1"});
  refused({"train", "copying", "--steps", "0"}, {"--steps", "0"});
  refused({"train", "copying", "--delay", "0"}, {"--delay", "0"});
  refused({"train", "copying", "--batch", "0"}, {"--batch", "0"});
  refused({"train", "copying", "--accumulate", "0"}, {"--accumulate", "0"});
  refused({"train", "copying", "--patience", "-1"}, {"--patience", "-1"});
  refused({"train", "copying", "--resume", "--init-from", "a.h5"}, {"--init-from", "--resume"});
  refused({"runs", "--json", "--csv"}, {"--json", "--csv"});
  refused({"train", "copying", "--log-every", "0"}, {"--log-every", "0"});
  refused({"train", "copying", "--save-every", "-1"}, {"--save-every", "-1"});
  refused({"train", "copying", "--threads", "-1"}, {"--threads", "-1"});
  refused({"train", "copying", "--layers", "0"}, {"--layers", "0"});
  refused({"train", "copying", "--warmup", "-1"}, {"--warmup", "-1"});
  for (const char* option : {"--lr", "--lr-orth", "--clip", "--weight-decay", "--momentum", "--rmsprop-decay",
                             "--beta1", "--beta2", "--epsilon", "--schedule-factor", "--schedule-final"}) {
    for (const char* value : {"nan", "inf", "-1", "1e999", "fast", ""}) {
      refused({"train", "copying", option, value}, {option, value});
    }
  }
  refused({"train", "copying", "--lr", "0"}, {"--lr", "0"});
  refused({"train", "copying", "--momentum", "1"}, {"--momentum", "1"});
  refused({"train", "copying", "--seed", "-1"}, {"--seed", "-1"});
  refused({"train", "copying", "--seed", "1.5"}, {"--seed", "1.5"});
  refused({"train", "copying", "--seed", "18446744073709551616"}, {"--seed", "18446744073709551616"});
  refused({"train", "mnist", "--permutation-seed", "-1"}, {"--permutation-seed", "-1"});
  refused({"train", "copying", "--cell", "elman"}, {"--cell", "elman", "cwy"});
  refused({"train", "copying", "--activation", "gelu"}, {"--activation", "gelu", "modrelu"});
  refused({"train", "copying", "--optimizer", "lbfgs"}, {"--optimizer", "lbfgs", "adam"});
  refused({"train", "copying", "--precision", "fp64"}, {"--precision", "fp64", "fp32"});
  refused({"train", "copying", "--device", "tpu"}, {"--device", "tpu", "cpu"});
  // Options of another task.
  refused({"train", "adding", "--delay", "3"}, {"--delay", "copying", "adding"});
  refused({"train", "copying", "--length", "3"}, {"--length", "adding"});
  refused({"train", "copying", "--permuted"}, {"--permuted", "mnist"});
  refused({"train", "copying", "--data", "x"}, {"--data", "mnist"});
  // Options of another cell, optimizer or schedule.
  refused({"train", "copying", "--cell", "expm", "--reflections", "3"}, {"--reflections", "cwy", "expm"});
  refused({"train", "copying", "--cell", "householder", "--form", "dense"}, {"--form", "cwy", "householder"});
  refused({"train", "copying", "--cell", "matrix", "--metric", "flat"}, {"--metric", "flat", "canonical"});
  refused({"train", "copying", "--optimizer", "adam", "--retraction", "qr"},
          {"--retraction", "--optimizer rgd or rgd-adam"});
  refused({"train", "copying", "--negative-signs", "3"}, {"--negative-signs", "cayley", "cwy"});
  refused({"train", "copying", "--rank-one-updates"}, {"--rank-one-updates", "householder", "cwy"});
  refused({"train", "copying", "--momentum", "0.5"}, {"--momentum", "sgd", "rmsprop"});
  refused({"train", "copying", "--schedule-every", "5"}, {"--schedule-every", "step", "cosine"});
  refused({"train", "copying", "--schedule", "cosine", "--schedule-factor", "0.5"},
          {"--schedule-factor", "step", "cosine"});
  refused({"train", "copying", "--schedule", "constant", "--schedule-final", "0.5"},
          {"--schedule-final", "cosine or step", "constant"});
  refused({"train", "copying", "--epochs", "2"}, {"copying", "epochs", "--steps"});
  refused({"train", "mnist", "--epochs", "2", "--steps", "3"}, {"--epochs", "--steps"});
  refused({"train", "mnist", "--epochs", "0"}, {"--epochs", "0"});
  refused({"train", "mnist", "--epochs", "nan"}, {"--epochs", "nan"});
  // Other commands.
  refused({"eval"}, {"model"});
  refused({"eval", "a.h5", "b.h5"}, {"b.h5"});
  refused({"eval", "a.h5", "--jsn"}, {"--jsn"});
  refused({"inspect"}, {"model"});
  refused({"inspect", "a.h5", "--seed", "1"}, {"--seed"});
  refused({"predict", "a.h5", "b.h5"}, {"--out"});
}

TEST_CASE("an empty word is no option left out", "[cli][usage]") {
  for (const char* option : {"--out", "--json"}) {
    check_refused(run({"bench", "compare", "--hidden", "4", option, ""}), 2,
                  {option, "an empty word", "expected a word"});
  }
}

TEST_CASE("a name with a line break makes no second line", "[cli][usage]") {
  check_refused(run({"eval", "first\nsecond\rthird"}), 1, {"first second third"});
  check_refused(run({"train", "first\nsecond"}), 2, {"first second"});
}

TEST_CASE("asking for cuda where there is no GPU is one clear line", "[cli][usage]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1", "--device", "auto"})));
  const std::string model = folder / "run/model.h5";
  check_refused(run(train_copying(folder / "other", {"--steps", "1", "--device", "cuda"})), 1,
                {"device cuda was asked for", "--device cpu"});
  CHECK_FALSE(fs::exists(folder / "other"));
  check_refused(run({"eval", model, "--device", "cuda"}), 1, {"device cuda was asked for", "--device cpu"});
  check_refused(run({"predict", model, model, "-o", (folder / "o.h5").string(), "--device", "cuda"}), 1,
                {"device cuda was asked for", "--device cpu"});
}

TEST_CASE("what only a GPU has is refused on the CPU, in one clear line", "[cli][usage]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string model = folder / "run/model.h5";
  const Arguments commands[] = {train_copying(folder / "other"),
                                {"eval", model},
                                {"predict", model, model, "-o", (folder / "o.h5").string()},
                                {"bench", "rollout"},
                                {"bench", "train", "copying"},
                                {"bench", "compare"}};
  for (const Arguments& command : commands) {
    CAPTURE(command);
    for (const char* device : {"cpu", "auto"}) {
      const Arguments there = {"--device", device};
      check_refused(run(command + there + Arguments{"--precision", "tf32"}), 2,
                    {"--precision tf32", "--precision fp32", "--device cuda"});
      // A comparison has methods that only go step by step.
      if (command[1] == "compare") continue;
      check_refused(run(command + there + Arguments{"--rollout", "cluster"}), 2,
                    {"--rollout cluster", "--rollout automatic", "--device cuda"});
    }
  }
  CHECK_FALSE(fs::exists(folder / "other"));
  check_refused(run({"bench", "prepare", "--precision", "bf16"}), 2, {"--precision"});
  check_refused(run({"eval", model, "--rollout", "fast"}), 2, {"--rollout", "fast", "stepwise"});
}

TEST_CASE("the option --verbose says how each cell's recurrence is computed", "[cli][usage]") {
  const TemporaryFolder folder;
  const std::string how = ", dense form, N = 8, stepwise rollout of 23 steps and 4 sequences on cpu (";
  const ProgramResult trained =
      run(train_copying(folder / "run", {"--steps", "1", "--layers", "2", "--verbose"}));
  check_success(trained);
  const std::string model = folder / "run/model.h5";
  for (const std::string& output : {trained.output, run({"eval", model, "--verbose"}).output}) {
    CHECK_THAT(output, contains("\nrecurrence 1: cwy" + how));
    CHECK_THAT(output, contains("recurrence 0: cwy" + how));
    CHECK_THAT(output, contains("), fp32\n"));
  }
  CHECK_THAT(run({"eval", model}).output, !contains("recurrence"));
  CHECK_THAT(content(folder / "run/config.toml"), !contains("verbose"));
}

// AddressSanitizer's allocator ends the program in place of throwing.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("sizes beyond all memory are one clear line", "[cli][usage]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  check_refused(run({"train", "copying", "--hidden", "999999999", "--out", out}), 1, {"memory"});
  check_refused(run({"train", "copying", "--hidden", "99999999999", "--out", out}), 2, {"elements"});
  check_refused(run({"train", "copying", "--delay", "99999999999", "--hidden", "8", "--out", out}), 2,
                {"99999999999 steps", "at most 2147483647"});
  check_refused(run({"train", "copying", "--batch", "99999999999", "--hidden", "8", "--out", out}), 2,
                {"99999999999 sequences", "at most 2147483647"});
}
#endif

TEST_CASE("missing and odd data folders are one clear line", "[cli][usage]") {
  const TemporaryFolder folder;
  const std::string data = folder / "data", out = folder / "run";
  check_refused(run(train_mnist(data, out)), 1, {data, "train-images-idx3", "fetch-data"});
  write_tiny_mnist(data);
  check_refused(run({"train", "mnist", "--data", data, "--batch", "11", "--out", out}), 2,
                {"11", "9 images to train on"});
  fs::resize_file(folder / "data/train-images-idx3-ubyte", 50);
  check_refused(run(train_mnist(data, out)), 1, {"train-images-idx3-ubyte"});
  fs::remove(folder / "data/t10k-labels-idx1-ubyte");
  check_refused(run(train_mnist(data, out)), 1, {data});
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("digits after a zero are decimal", "[cli][usage]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "1", "--threads", "010", "--eval-every", "05"})));
  const std::string config = content(out / "config.toml");
  CHECK_THAT(config, contains("threads = 10\n"));
  CHECK_THAT(config, contains("eval-every = 5\n"));
}

TEST_CASE("a mistyped name gets the one that is meant", "[cli][usage]") {
  const std::pair<Arguments, std::string> mistyped[] = {
      {{"trian", "copying"}, "did you mean train?"},
      {{"train", "copying", "--hiden", "8"}, "did you mean --hidden?"},
      {{"train", "copying", "--hiden=8"}, "did you mean --hidden?"},
      {{"train", "copying", "--cell", "cwz"}, "did you mean cwy?"},
      {{"bench", "rolout"}, "did you mean rollout?"}};
  for (const auto& [arguments, advice] : mistyped) {
    const ProgramResult result = run(arguments);
    CHECK(result.exit_code == 2);
    CHECK(lines(result.errors) == 1);
    CHECK_THAT(result.errors, contains(advice));
  }
  const ProgramResult strange = run({"train", "copying", "--strawberries", "8"});
  CHECK(strange.exit_code == 2);
  CHECK(strange.errors.find("did you mean") == std::string::npos);
}
