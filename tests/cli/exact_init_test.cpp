// train --init exact: networks that solve a task of a group without training.

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "orthornn/train/model_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments exact(const fs::path& out, const Arguments& more, const char* task = "words") {
  return Arguments{"train", task, "--cell", "deltaproduct", "--init", "exact", "--out", out.string()} + more;
}

const Arguments small_words = {"--group", "S3", "--length", "8", "--batch", "500"};

/// The cell in the first block of a model file.
DeltaProductCell cell_of(const fs::path& file) {
  const auto model = std::get<ModelOptions>(read_model_info(file).model);
  return std::get<DeltaProductCell>(std::get<Residual>(model.cells[0]).layers[1]);
}

}  // namespace

TEST_CASE("an exact model is written and right at once", "[cli][exact][long]") {
  const TemporaryFolder folder;
  const ProgramResult result = run(exact(folder / "run", small_words));
  check_success(result);
  CHECK_THAT(result.output, contains("solved after 0 steps"));
  const fs::path file = folder / "run/model.h5";
  CHECK(read_model_info(file).steps == 0);
  const DeltaProductCell cell = cell_of(file);
  CHECK(cell.householder == 2);
  CHECK(cell.heads == 3);
  CHECK(cell.hidden_size == 6 + 9);
  CHECK(cell.readout_norm == ReadoutNorm::none);

  const ProgramResult evaluated = run({"eval", file.string(), "--json", "--lengths", "300"});
  check_success(evaluated);
  const Json json = Json::parse(evaluated.output);
  CHECK(json["steps"] == 0);
  CHECK(json["lengths"][0]["sequence_accuracy"] == 1);
  check_success(run({"inspect", file.string()}));
}

TEST_CASE("an exact model may have three layers, and languages that are words", "[cli][exact]") {
  const TemporaryFolder folder;
  check_success(run(exact(folder / "three", small_words + Arguments{"--layers", "3"})));
  check_success(run(exact(folder / "parity", {"--test-length", "30", "--length", "9"}, "language")));
  check_success(run(
      exact(folder / "cycle", {"--test-length", "30", "--length", "9", "--language", "cycle"}, "language")));
  for (const char* name : {"three", "parity", "cycle"}) {
    CAPTURE(name);
    const ProgramResult evaluated = run({"eval", (folder / name / "model.h5").string(), "--json"});
    check_success(evaluated);
    CHECK(Json::parse(evaluated.output)["accuracy"] == 1);
  }
}

TEST_CASE("an exact model may be larger, and is trained from there where steps are given",
          "[cli][exact][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(
      run(exact(out, small_words + Arguments{"--householder", "4", "--hidden", "20", "--key-size", "5"})));
  const DeltaProductCell cell = cell_of(out / "model.h5");
  CHECK(cell.householder == 4);
  CHECK(cell.hidden_size == 20);
  CHECK(cell.key_size == 5);
  CHECK(cell.value_size == 3);
  const auto before = parameters_in(out / "model.h5");

  // The settings of a run make the same run.
  check_success(
      run({"train", "--config", (out / "config.toml").string(), "--out", (folder / "again").string()}));
  CHECK(parameters_in(folder / "again/model.h5") == before);

  const ProgramResult nothing = run({"train", "--resume", "--out", out.string()});
  check_success(nothing);
  CHECK_THAT(nothing.output, contains("nothing is left to do"));
  CHECK(parameters_in(out / "model.h5") == before);
  check_success(run({"train", "--resume", "--steps", "2", "--lr", "1e-2", "--out", out.string()}));
  CHECK(read_model_info(out / "model.h5").steps == 2);
  CHECK(parameters_in(out / "best.h5") == before);

  check_success(run(exact(folder / "trained", small_words + Arguments{"--steps", "2"})));
  CHECK(read_model_info(folder / "trained/model.h5").steps == 2);
}

TEST_CASE("a training that began at random is not resumed as an exact one", "[cli][exact]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  check_success(
      run(Arguments{"train", "words", "--cell", "deltaproduct", "--steps", "1", "--out", out} + small_words));
  check_refused(run({"train", "--resume", "--init", "exact", "--out", out}), 2,
                {"--init exact", out, "random", "its own"});
}

TEST_CASE("the file of an exact run serves another cell", "[cli][exact]") {
  const TemporaryFolder folder;
  check_success(run(exact(folder / "run", small_words)));
  check_success(run({"train", "--config", (folder / "run/config.toml").string(), "--cell", "cwy", "--steps",
                     "1", "--out", (folder / "cwy").string()}));
}

TEST_CASE("an exact model that cannot be ends in one sentence", "[cli][exact]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const auto refused = [&](const Arguments& arguments, std::initializer_list<std::string> words) {
    check_refused(run(arguments), 2, words);
    CHECK_FALSE(fs::exists(out));
  };
  refused(exact(out, {"--group", "S5", "--householder", "2"}),
          {"--householder 4", "found 2", "--layers 3 it needs 2"});
  refused(exact(out, {"--group", "S5", "--householder", "1", "--layers", "3"}),
          {"--householder 2", "3 layers", "found 1"});
  refused(exact(out, {"--group", "S5", "--layers", "2"}), {"--init exact", "2 layers", "1 or 3"});
  refused(exact(out, {"--group", "S5", "--hidden", "100"}), {"--hidden 145", "found 100"});
  refused(exact(out, {"--group", "S3", "--layers", "3", "--mlp-size", "2"}), {"--mlp-size 36", "found 2"});
  refused(exact(out, {"--group", "Z51"}), {"Z51", "at most 50"});
  refused(exact(out, {"--group", "Z40", "--layers", "3"}), {"Z40", "at most 16"});
  refused(exact(out, {"--group", "Z40", "--householder", "1"}), {"--householder 2", "found 1"});
  refused(exact(out, {"--decay"}), {"--init exact", "--decay"});
  refused(exact(out, {"--convolution", "2"}), {"--init exact", "--convolution"});
  refused(exact(out, {"--output-gate"}), {"--init exact", "--output-gate"});
  refused(exact(out, {"--readout-norm", "rms"}), {"--init exact", "--readout-norm"});
  refused(exact(out, {"--beta-limit", "1"}), {"--init exact", "--beta-limit"});
  refused(exact(out, {"--no-mlp", "--layers", "3"}), {"--init exact", "--no-mlp"});
  refused(exact(out, {}, "copying"), {"--init exact", "copying", "language"});
  refused(exact(out, {"--language", "even-pairs"}, "language"), {"--init exact", "parity or cycle"});

  const auto with_cell = [&](const char* cell, const char* init) {
    return Arguments{"train", "words", "--cell", cell, "--init", init, "--out", out.string()};
  };
  refused(with_cell("cwy", "exact"), {"--init exact", "cwy", "haar"});
  refused(with_cell("gru", "exact"), {"--init", "gru"});
  refused(with_cell("deltaproduct", "haar"), {"--init haar", "deltaproduct", "exact"});
  refused(with_cell("deltaproduct", "exakt"), {"--init", "exakt"});
  refused({"train", "words", "--steps", "0", "--out", out.string()}, {"--steps 0", "--init exact"});
}
