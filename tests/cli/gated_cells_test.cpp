// LSTM and GRU through every command.

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/run_program.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("LSTM and GRU are trained, resumed, evaluated and inspected like other cells",
          "[cli][gated][long]") {
  for (const std::string kind : {"lstm", "gru"}) {
    CAPTURE(kind);
    const TemporaryFolder folder;
    const fs::path whole = folder / "whole", parts = folder / "parts";
    check_success(run(train_copying(whole, {"--cell", kind, "--steps", "6", "--schedule", "constant"})));
    check_success(run(train_copying(parts, {"--cell", kind, "--steps", "3", "--schedule", "constant"})));
    check_success(run({"train", "--resume", "--steps", "6", "--out", parts.string()}));
    const auto parameters = [](const fs::path& run_folder) {
      return load_model(run_folder / "model.h5")->parameters().values().copy();
    };
    CHECK(equal(parameters(whole), parameters(parts)));

    const ModelFileInfo info = read_model_info(whole / "model.h5");
    REQUIRE(std::holds_alternative<Adam>(info.trainer.optimizer));
    CHECK(std::get<Adam>(info.trainer.optimizer).lr == 2e-3);
    const std::string model = (whole / "model.h5").string();
    const auto output_of = [](const Arguments& arguments) {
      const ProgramResult result = run(arguments);
      check_success(result);
      return result.output;
    };
    const auto evaluated = nlohmann::json::parse(output_of({"eval", model, "--json"}));
    CHECK(evaluated.at("cells")[0].at("cell") == kind);
    CHECK_FALSE(evaluated.contains("orthogonality_error"));
    const std::string inspected = output_of({"inspect", model});
    CHECK_THAT(inspected, contains("cell 0    " + kind) && contains("cell/recurrent_weights"));
    CHECK_THAT(inspected, !contains("A'A"));
    // step, seconds, loss, gradient_norm, learning_rate, and no orthogonality error.
    std::ifstream metrics(whole / "metrics.csv");
    std::string row;
    for (int line = 0; line < 2; ++line) std::getline(metrics, row);
    CHECK(std::regex_match(row, std::regex("6(,[^,]+){4},,.*")));
    const fs::path page = folder / "report.html";
    check_success(run({"report", whole.string(), "--out", page.string()}));
  }
}

TEST_CASE("predict writes every state of every cell by its name", "[cli][gated]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--cell", "lstm", "--steps", "1", "--layers", "2"})));
  Hdf5Writer writer;
  writer.dataset("x", Tensor<std::int32_t>(Shape{5, 3}));
  writer.commit(folder / "in.h5");
  const fs::path output = folder / "out.h5";
  check_success(run(
      {"predict", (folder / "run/model.h5").string(), (folder / "in.h5").string(), "-o", output.string()}));

  const auto model = load_model(folder / "run/model.h5");
  Batch batch;
  batch.integers(batch_names::symbols) = Tensor<std::int32_t>(Shape{5, 3});
  model->forward(batch);
  ModelState<float> state;
  model->final_state(state);
  const Hdf5Reader reader(output);
  const std::string names[] = {"h_last0", "c_last0", "h_last1", "c_last1"};
  for (std::size_t i = 0; i < 4; ++i) CHECK(equal(reader.read<float>(names[i]), state[i]));
  CHECK(equal(reader.read<float>("h_last"), state[2]));
  CHECK(equal(reader.read<float>("c_last"), state[3]));
}

TEST_CASE("options of orthogonal cells are refused for others", "[cli][gated]") {
  const TemporaryFolder folder;
  for (const char* option : {"--activation", "--init", "--input-matrix"}) {
    const std::string value = option == std::string("--activation") ? "tanh"
                              : option == std::string("--init")     ? "haar"
                                                                    : "free";
    check_refused(run(train_copying(folder / "run", {"--cell", "gru", option, value})), 2, {option, "gru"});
  }
  check_refused(run(train_copying(folder / "run", {"--cell", "lstm", "--reflections", "2"})), 2,
                {"--reflections", "lstm"});
}

TEST_CASE("a learning rate of the transition is refused where there is none", "[cli][gated]") {
  const TemporaryFolder folder;
  check_refused(run(train_copying(folder / "run", {"--cell", "lstm", "--lr-orth", "0.1"})), 2,
                {"--lr-orth", "lstm"});
}
