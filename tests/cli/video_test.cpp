// Frames: the task video, and cells that read it.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments train_video(const fs::path& out, const Arguments& more) {
  return Arguments{"train", "video",        "--frames", "5",          "--batch",  "4",     "--log-every",
                   "1",     "--eval-every", "2",        "--schedule", "constant", "--out", out.string()} +
         more;
}

}  // namespace

TEST_CASE("a cell of frames is trained, evaluated and resumed", "[cli][video][long]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", halves = folder / "halves";
  const Arguments cell = {"--cell", "convneru", "--hidden", "3", "--hidden-kernel", "orthogonal"};
  check_success(run(train_video(whole, cell + Arguments{"--steps", "4"})));
  check_success(run(train_video(halves, cell + Arguments{"--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "4", "--out", halves.string()}));
  CHECK((training_content(halves / "model.h5") == training_content(whole / "model.h5")));

  const ProgramResult result = run({"eval", (whole / "model.h5").string(), "--json"});
  check_success(result);
  const Json json = Json::parse(result.output);
  for (const char* name : {"absolute_and_squared_error", "mse", "mae", "ssim", "psnr"}) {
    CAPTURE(name);
    CHECK(json.at(name).is_number());
  }
  CHECK(json.at("task") == "video");
  const ProgramResult longer = run({"eval", (whole / "model.h5").string(), "--lengths", "9"});
  check_success(longer);
  CHECK_THAT(longer.output, contains("L1 + L2 error") && contains("PSNR"));
  const ProgramResult shown = run({"inspect", (whole / "model.h5").string()});
  check_success(shown);
  CHECK_THAT(shown.output, contains("convneru"));
}

TEST_CASE("Moving MNIST is trained, resumed and evaluated", "[cli][video][long]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const fs::path out = folder / "run";
  check_success(run(train_video(out, {"--clips", "mnist", "--data", (folder / "data").string(), "--cell",
                                      "convneru", "--hidden", "1", "--kernel-size", "1", "--steps", "1"})));
  check_success(run({"train", "--resume", "--steps", "2", "--out", out.string()}));
  const ProgramResult result = run({"eval", (out / "model.h5").string(), "--json"});
  check_success(result);
  CHECK(Json::parse(result.output).at("baseline") == 0.0918);
  fs::remove_all(folder / "data");
  check_refused(run({"eval", (out / "model.h5").string()}), 1, {"tools/fetch-data mnist"});
}

TEST_CASE("other cells read frames as vectors, and cells of frames stand in tables", "[cli][video]") {
  const TemporaryFolder folder;
  check_success(run(train_video(folder / "lstm", {"--cell", "lstm", "--hidden", "4", "--steps", "1"})));
  check_success(run(train_video(folder / "convlstm",
                                {"--cell", "convlstm", "--hidden", "4", "--peepholes", "--steps", "1"})));
  const fs::path config = folder / "layers.toml";
  std::ofstream(config) << "[[layer]]\nkind = \"convneru\"\nhidden_size = 2\nkernel_size = 5\n";
  check_success(run(train_video(folder / "tables", {"--config", config.string(), "--steps", "1"})));
  check_refused(run({"train", "translate", "--encoder", "convneru", "--data", "none", "--out",
                     (folder / "none").string()}),
                2, {"convneru reads frames", "the task video"});
}
