// Models of layers of any kind, as [[layer]] tables of config.toml describe them.

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr const char* workload = R"(
task = "copying"
delay = 4
batch = 8
steps = 6
eval-every = 3
)";

constexpr const char* tables = R"(
[[layer]]
kind = "orthogonal"
hidden_size = 6
transition = { kind = "cwy", reflections = 3 }

[[layer]]
kind = "residual"

  [[layer.layers]]
  kind = "rms_norm"

  [[layer.layers]]
  kind = "gru"
  hidden_size = 6

[[layer]]
kind = "dropout"
rate = 0.25
)";

}  // namespace

TEST_CASE("a model of [[layer]] tables is trained, resumed, inspected and evaluated", "[cli][layers][long]") {
  const TemporaryFolder folder;
  const fs::path config = write_text(folder / "config.toml", std::string(workload) + tables);
  const fs::path whole = folder / "whole", parts = folder / "parts";
  check_success(
      run({"train", "--config", config.string(), "--out", whole.string(), "--schedule", "constant"}));
  check_success(run({"train", "--config", config.string(), "--out", parts.string(), "--schedule", "constant",
                     "--steps", "3"}));
  check_success(run({"train", "--resume", "--out", parts.string(), "--steps", "6"}));
  const auto parameters = [](const fs::path& run_folder) {
    return load_model(run_folder / "model.h5")->parameters().values().copy();
  };
  // Dropout of step 4 does not depend on where the run was interrupted.
  CHECK(equal(parameters(whole), parameters(parts)));

  const auto model = std::get<ModelOptions>(read_model_info(whole / "model.h5").model);
  REQUIRE(model.cells.size() == 3);
  const auto& orthogonal = std::get<OrthogonalCell>(model.cells[0]);
  CHECK(orthogonal.hidden_size == 6);
  CHECK(std::get<Cwy>(orthogonal.transition).reflections == 3);
  const auto& residual = std::get<Residual>(model.cells[1]);
  REQUIRE(residual.layers.size() == 2);
  CHECK(std::holds_alternative<RmsNorm>(residual.layers[0]));
  CHECK(std::get<Gru>(residual.layers[1]).hidden_size == 6);
  CHECK(std::get<Dropout>(model.cells[2]).rate == 0.25);

  // Another model in the file that resumes it is refused.
  const fs::path other =
      write_text(folder / "other.toml", std::string(workload) + "[[layer]]\nkind = \"lstm\"\n");
  const ProgramResult refused =
      run({"train", "--resume", "--out", parts.string(), "--config", other.string(), "--steps", "9"});
  CHECK(refused.exit_code != 0);
  CHECK_THAT(refused.errors, contains("another model"));

  const std::string file = (whole / "model.h5").string();
  const ProgramResult inspected = run({"inspect", file});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("residual") && contains("of rms_norm") && contains("dropout"));
  check_success(run({"eval", file}));
  check_success(run({"report", whole.string(), "--out", (folder / "report.html").string()}));
}

TEST_CASE("orthogonal maps in [[layer]] tables are trained, resumed and inspected", "[cli][layers][long]") {
  const TemporaryFolder folder;
  const fs::path config = write_text(folder / "config.toml", std::string(workload) + R"(
[[layer]]
kind = "orthogonal_linear"
outputs = 12
matrix = "matrix"

[[layer]]
kind = "gru"
hidden_size = 6

[[layer]]
kind = "orthogonal_linear"
)");
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const Arguments start = {"train", "--config", config.string(), "--schedule", "constant", "--out"};
  check_success(run(start + Arguments{whole.string()}));
  check_success(run(start + Arguments{parts.string(), "--steps", "3"}));
  check_success(run({"train", "--resume", "--out", parts.string(), "--steps", "6"}));
  ModelFileInfo info;
  const auto model = load_model(whole / "model.h5", {}, &info);
  CHECK(equal(load_model(parts / "model.h5")->parameters().values(), model->parameters().values()));
  CHECK(info.optimizer == "rgd-adam");
  const auto& cells = std::get<ModelOptions>(info.model).cells;
  REQUIRE(cells.size() == 3);
  CHECK(std::get<OrthogonalLinear>(cells[0]).outputs == 12);
  CHECK(std::get<OrthogonalLinear>(cells[0]).matrix == StiefelKind::matrix);
  CHECK(std::get<OrthogonalLinear>(cells[2]).outputs == 0);
  CHECK(std::get<OrthogonalLinear>(cells[2]).matrix == StiefelKind::truncated_cwy);
  const ProgramResult inspected = run({"inspect", (whole / "model.h5").string()});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("orthogonal_linear"));
  check_refused(run(start + Arguments{(folder / "other").string(), "--optimizer", "adam"}), 2,
                {"adam", "rgd"});
}

TEST_CASE("a point that is a transition within [[layer]] tables has the rate of one", "[cli][layers]") {
  const TemporaryFolder folder;
  const fs::path config = write_text(folder / "config.toml", R"(
task = "copying"
delay = 480
batch = 1
steps = 1

[[layer]]
kind = "gru"
hidden_size = 8

[[layer]]
kind = "residual"

  [[layer.layers]]
  kind = "orthogonal"
  hidden_size = 8
  transition = { kind = "matrix" }
)");
  const fs::path whole = folder / "whole";
  check_success(run({"train", "--config", config.string(), "--out", whole.string()}));
  // 0.1 divided by 500 steps.
  CHECK_THAT(content(whole / "config.toml"), contains("lr-orth = 0.0002\n"));
}

TEST_CASE("[[layer]] tables that cannot be are refused by their line", "[cli][layers]") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text, const Arguments& more = {}) {
    Arguments arguments{"train", "--config", write_text(folder / "config.toml", text).string(), "--out",
                        (folder / "run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run(arguments);
    CHECK(result.exit_code == 2);
    CHECK_FALSE(fs::exists(folder / "run" / "model.h5"));
    return result.errors;
  };
  const std::string head = workload;
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"lstn\"\n"), contains("line 7") && contains("lstm"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"gru\"\n\n[[layer]]\nkind = \"lstn\"\n"),
             contains("line 10") && contains("lstm"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"gru\"\n[[layer]]\nkind = \"gru\"\nhidden = 3\n"),
             contains("line 9") && contains("layer 2") && contains("'hidden'"));
  CHECK_THAT(refusal(head + "[[layer]]\nhidden_size = 3\n"), contains("kind"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"gru\"\nhidden = 3\n"),
             contains("'hidden'") && contains("hidden_size"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"gru\"\nhidden_size = 0\n"), contains("hidden_size"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"dropout\"\nrate = 1.5\n"), contains("rate"));
  CHECK_THAT(
      refusal(head + "[[layer]]\nkind = \"orthogonal\"\ntransition = { kind = \"cwy\", reflection = 4 }\n"),
      contains("transition has no setting 'reflection'; it has ") && contains("; did you mean reflections?"));
  // There is no kind that embeds.
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"positions\"\n"),
             contains("symbols") && contains("put a linear, an orthogonal_linear or a recurrent layer"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"orthogonal_linear\"\nmatrix = \"free\"\n"),
             contains("free") && contains("stiefel"));
  CHECK_THAT(refusal(head + "[[layer]]\nkind = \"linear\"\noutputs = 64\n[[layer]]\nkind = "
                            "\"orthogonal_conv\"\n"),
             contains("orthogonal_conv reads frames") && contains("the task video"));
  CHECK_THAT(refusal(head + "[layer]\nkind = \"gru\"\n"), contains("[[layer]]"));
  CHECK_THAT(refusal(head + "[[cells]]\nkind = \"gru\"\n"), contains("[[layer]]"));
  CHECK_THAT(refusal(head + "hidden = 5\n" + tables), contains("hidden"));
  CHECK_THAT(refusal(head + tables, {"--cell", "lstm"}), contains("cell"));
}
