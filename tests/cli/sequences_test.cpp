// orthornn train sequences: own data from a file to predictions.

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

/// Series of five steps, rising or falling, with a class and a number each: forty, or those from `first` on.
void write_own_series(const fs::path& file, int first = 0, int last = 40) {
  std::ofstream csv(file);
  csv << "series,x,direction,slope\n";
  for (int i = first; i < last; ++i) {
    const double slope = (i % 2 == 0 ? 1 : -1) * (1 + 0.1 * (i % 7));
    for (int t = 0; t < 5; ++t)
      csv << i << "," << 50 + slope * t << "," << (slope > 0 ? "up" : "down") << "," << slope << "\n";
  }
}

const Arguments small_cwy = {"--hidden", "8", "--batch", "8", "--cell", "cwy"};

}  // namespace

TEST_CASE("own sequences of a CSV are trained on, resumed to the same bits, and evaluated", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv");
  const Arguments train = Arguments{"train",  "sequences", "--data",    "own.csv",  "--id",
                                    "series", "--target",  "direction", "--inputs", "x"} +
                          small_cwy;
  const RunSettings here{.folder = folder.path()};
  check_success(run(train + Arguments{"--steps", "12", "--out", "whole"}, here));
  check_success(run(train + Arguments{"--steps", "6", "--schedule", "constant", "--out", "parts"}, here));
  check_success(run(train + Arguments{"--steps", "12", "--schedule", "constant", "--out", "straight"}, here));
  check_success(run({"train", "--resume", "--out", "parts", "--steps", "12"}, here));
  CHECK(training_content(folder / "parts/model.h5") == training_content(folder / "straight/model.h5"));

  const ProgramResult evaluated = run({"eval", "whole/model.h5", "--json"}, here);
  check_success(evaluated);
  CHECK_THAT(evaluated.output, contains("\"accuracy\""));
  std::ofstream(folder / "own.csv", std::ios::app) << "40,1,up,1\n";
  check_refused(run({"eval", "whole/model.h5"}, here), 1, {"other data than those", "own.csv"});
}

TEST_CASE("own sequences with class weights or missing targets are resumed to the same bits", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv");
  std::ofstream gaps(folder / "gaps.csv");
  gaps << "series,x,target\n";
  for (int i = 0; i < 200; ++i) gaps << i / 5 << "," << i % 7 << "," << (i % 5 == 3 ? "" : "0.5") << "\n";
  gaps.close();
  const RunSettings here{.folder = folder.path()};
  const Arguments classes{"--data",   "own.csv", "--target",        "direction",
                          "--inputs", "x",       "--class-weights", "up=3,down=0.5"},
      numbers{"--data", "gaps.csv", "--goal", "step-value", "--missing", "mask"};
  for (const Arguments& data : {classes, numbers}) {
    const std::string run_name = data == classes ? "classes" : "numbers";
    const Arguments train =
        Arguments{"train", "sequences", "--id", "series", "--schedule", "constant", "--device", "cpu"} +
        data + small_cwy;
    const std::string parts = run_name + "-parts", straight = run_name + "-straight";
    check_success(run(train + Arguments{"--steps", "4", "--accumulate", "2", "--out", parts}, here));
    check_success(run(train + Arguments{"--steps", "8", "--accumulate", "2", "--out", straight}, here));
    check_success(run({"train", "--resume", "--out", parts, "--steps", "8"}, here));
    CHECK(training_content(folder / parts / "model.h5") == training_content(folder / straight / "model.h5"));
    // eval has the loss of the training's end.
    const ProgramResult evaluated = run({"eval", parts + "/model.h5", "--device", "cpu", "--json"}, here);
    check_success(evaluated);
    const Json results = Json::parse(content(folder / parts / "results.json"));
    const Json found = Json::parse(evaluated.output);
    CHECK(found[data == classes ? "cross_entropy" : "mean_squared_error"] == results["test"]["last"]["loss"]);
    CHECK(found["baseline"] == results["baseline"]);
  }
  check_refused(run({"train", "--resume", "--out", "classes-parts", "--class-weights", "balanced"}, here), 2,
                {"--class-weights balanced was given", "--class-weights up=3,down=0.5"});
  check_refused(run(Arguments{"train", "sequences", "--id", "series"} + numbers +
                        Arguments{"--class-weights", "balanced"},
                    here),
                1, {"gaps.csv", "targets are numbers"});
}

TEST_CASE("validation and test sequences of files of their own are those of the model", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv", 0, 20);
  write_own_series(folder / "validation.csv", 20, 30);
  write_own_series(folder / "test.csv", 30, 40);
  const Arguments train =
      Arguments{"train",    "sequences", "--data",  "own.csv", "--validation", "validation.csv",
                "--test",   "test.csv",  "--id",    "series",  "--target",     "direction",
                "--inputs", "x",         "--steps", "6",       "--schedule",   "constant",
                "--out",    "run"} +
      small_cwy;
  const RunSettings here{.folder = folder.path()};
  check_refused(run(train + Arguments{"--test-part", "0.2"}, here), 2,
                {"--test-part", "--test names a file"});
  check_success(run(train, here));
  check_success(run({"train", "--resume", "--out", "run", "--steps", "9"}, here));
  // The places are those of config.toml, in any folder.
  fs::create_directory(folder / "elsewhere");
  const ProgramResult evaluated =
      run({"eval", "../run/model.h5", "--json"}, {.folder = folder / "elsewhere"});
  check_success(evaluated);
  for (const char* metric : {"\"accuracy\"", "\"balanced_accuracy\"", "\"macro_f1\""})
    CHECK_THAT(evaluated.output, contains(metric));
  fs::rename(folder / "test.csv", folder / "moved.csv");
  check_refused(run({"eval", "run/model.h5"}, here), 1, {"test.csv", "no such file"});
  check_success(run({"eval", "run/model.h5", "--test", "moved.csv"}, here));
  write_own_series(folder / "validation.csv", 20, 31);
  check_refused(run({"eval", "run/model.h5", "--test", "moved.csv"}, here), 1,
                {"validation.csv", "other data than those"});
  check_refused(run({"train", "--resume", "--out", "run", "--steps", "12", "--test", "moved.csv"}, here), 1,
                {"validation.csv", "other data than those"});
}

TEST_CASE("predictions of numbers are in the units of the targets", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv");
  const RunSettings here{.folder = folder.path()};
  check_success(run(Arguments{"train", "sequences", "--data", "own.csv", "--id", "series", "--target",
                              "slope", "--inputs", "x", "--steps", "400", "--lr", "0.01", "--out", "run"} +
                        small_cwy,
                    here));
  Tensor<float> x(Shape{5, 2, 1});
  for (Index t = 0; t < 5; ++t) {
    x(t, 0, 0) = 50 + 1.3F * static_cast<float>(t);
    x(t, 1, 0) = 50 - 1.3F * static_cast<float>(t);
  }
  Hdf5Writer writer;
  writer.dataset("x", x);
  writer.commit(folder / "x.h5");
  check_success(run({"predict", "run/model.h5", "x.h5", "-o", "y.h5"}, here));
  const Tensor<float> y = Hdf5Reader(folder / "y.h5").read<float>("logits");
  CHECK(y(0, 0) == Approx(1.3).margin(0.3));  // a guesser has 0
  CHECK(y(1, 0) == Approx(-1.3).margin(0.3));
}

TEST_CASE("a forecast of own sequences is refused for layers that read the answer", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv");
  const RunSettings here{.folder = folder.path()};
  write_text(folder / "both-ways.toml",
             "[[layer]]\nkind = 'bidirectional'\n[[layer.layers]]\nkind = 'gru'\nhidden_size = 2\n");
  const Arguments train = {"train",    "sequences",     "--data", "own.csv", "--id", "series", "--inputs",
                           "x",        "--batch",       "8",      "--steps", "1",    "--out",  "run",
                           "--config", "both-ways.toml"};
  check_refused(run(train + Arguments{"--goal", "forecast"}, here), 2,
                {"backward in time", "sees the targets", "layers that read forward"});
  CHECK_FALSE(fs::exists(folder / "run"));
  check_success(run(train + Arguments{"--goal", "step-value", "--target", "slope"}, here));
}

TEST_CASE("own data that are not there or not as said are one line", "[cli]") {
  const TemporaryFolder folder;
  write_own_series(folder / "own.csv");
  const RunSettings here{.folder = folder.path()};
  check_refused(run({"train", "sequences"}, here), 1, {"--data FILE"});
  check_refused(run({"train", "sequences", "--data", "no.csv"}, here), 1, {"no.csv", "no such file"});
  check_refused(run({"train", "sequences", "--data", "own.csv"}, here), 1, {"--target", "series, x"});
  check_refused(run({"train", "copying", "--goal", "class"}, here), 2, {"--goal", "sequences"});
  check_refused(run({"train", "copying", "--validation", "own.csv"}, here), 2, {"--validation", "sequences"});
  const auto check_content = [&](const char* name, const std::string& content,
                                 std::initializer_list<std::string> said) {
    CAPTURE(name, content.substr(0, 40));
    std::ofstream(folder / name, std::ios::binary) << content;
    check_refused(run({"train", "sequences", "--data", name, "--batch", "1"}, here), 1, said);
  };
  check_content("bad.csv", "", {"bad.csv", "it is empty"});
  check_content("bad.csv", "x,target\n1,0\n2\n", {"bad.csv", "row 3", "1 cells; expected 2"});
  check_content("bad.csv", "x,target\n1,0\ntwo,1\n", {"bad.csv", "row 3", "column 'x'", "'two'"});
  check_content("bad.csv", "x,target\n1,0\nnan,1\n", {"bad.csv", "row 3", "column 'x'", "missing"});
  check_content("bad.csv", "x,target\n1,0\n2,\n", {"bad.csv", "row 3", "column 'target'", "missing"});
  check_content("bad.csv", std::string("x,target\n1\0\x1b[31m,0\n", 19), {"bad.csv", "row 2", "UTF-8"});
  for (const char* name : {"bad.npz", "bad.h5"}) {
    check_content(name, "", {name});
    check_content(name, "neither of them", {name});
  }
  CHECK_FALSE(fs::exists(folder / "runs"));
}

TEST_CASE("a text is learned in pieces, and goes on in the middle of an epoch with the same bits", "[cli]") {
  const TemporaryFolder folder;
  std::ofstream text(folder / "own.txt");
  for (int i = 0; i < 200; ++i) text << "the number " << i % 10 << " is a number\n";
  text.close();
  const RunSettings here{.folder = folder.path()};
  const Arguments train =
      Arguments{"train", "sequences", "--data", "own.txt", "--length", "16", "--schedule", "constant"} +
      small_cwy;
  check_success(run(train + Arguments{"--steps", "14", "--eval-every", "3", "--out", "straight"}, here));
  check_success(run(train + Arguments{"--steps", "6", "--eval-every", "3", "--out", "parts"}, here));
  check_success(run({"convert", "parts/model.h5", "parts/converted.h5"}, here));
  fs::rename(folder / "parts/converted.h5", folder / "parts/model.h5");
  check_success(run({"train", "--resume", "--out", "parts", "--steps", "14"}, here));
  CHECK(training_content(folder / "parts/model.h5") == training_content(folder / "straight/model.h5"));
  const ProgramResult evaluated = run({"eval", "parts/model.h5", "--json"}, here);
  check_success(evaluated);
  CHECK_THAT(evaluated.output, contains("\"cross_entropy\""));
  const Arguments generate{"predict", "parts/model.h5", "--generate", "40", "--prompt", "the number "};
  const ProgramResult drawn = run(generate, here);
  check_success(drawn);
  CHECK(drawn.output.size() >= 40);
  CHECK(run(generate, here).output == drawn.output);
  CHECK(run(generate + Arguments{"--seed", "2"}, here).output != drawn.output);
  const ProgramResult likeliest = run(generate + Arguments{"--temperature", "0"}, here);
  CHECK(run(generate + Arguments{"--temperature", "0", "--seed", "2"}, here).output == likeliest.output);
  check_refused(run(generate + Arguments{"--out", "a.npz"}, here), 2, {"--generate", "standard output"});
  check_success(run({"predict", "parts/model.h5", "own.txt", "--out", "next.npz"}, here));
  std::ofstream(folder / "own.txt", std::ios::app) << "more\n";
  check_refused(run({"eval", "parts/model.h5"}, here), 1, {"other data than those", "own.txt"});
}
