// Models that were written in format version 1.

#include <filesystem>

#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {
namespace {

struct OldModel {
  const char* name;
  /// Of the test data, as the program that wrote the file printed it.
  double loss;
};
// A copying model of each cell, and an adding model of two cells with a learned start and Stiefel inputs.
const OldModel old_models[] = {{"cwy", 2.914074528718584},     {"householder", 2.9140736608929325},
                               {"cayley", 2.9202839663295745}, {"expm", 2.921582336235941},
                               {"free", 3.0237441758801555},   {"stack", 0.7347127343350737}};

std::filesystem::path file_of(const OldModel& old) {
  return std::filesystem::path(ORTHORNN_SOURCE_DIR) / "tests/train/version_1" /
         (std::string(old.name) + ".h5");
}

std::unique_ptr<Task> task_of(const ModelFileInfo& info) {
  return make_task(info.task_config, {.batch = info.batch, .seed = info.seed});
}

}  // namespace

TEST_CASE("models of format version 1 compute what they did", "[train]") {
  for (const OldModel& old : old_models) {
    CAPTURE(old.name);
    ModelFileInfo info;
    const auto model = load_model(file_of(old), {}, &info);
    CHECK(info.format_version == 1);
    // Rounding of float sums, which another processor takes in another order.
    CHECK(evaluate(*model, *task_of(info), HeldOut::test).loss == Approx(old.loss).epsilon(1e-5));
  }
}

TEST_CASE("a file of format version 1 whose cells have kinds is refused", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  Hdf5Writer writer;
  writer.attribute("/", "format", "orthornn-model");
  writer.attribute("/", "format_version", 1);
  writer.attribute("/", "library_version", "0");
  writer.attribute("/", "task", "");
  writer.attribute("/", "config", "{\"model\":" + to_json(ModelOptions{.cells = {Lstm{4}}}) + "}");
  writer.commit(file);
  CHECK_THROWS_WITH(load_model(file), contains("kind") && contains("version 1"));
}

TEST_CASE("a training of format version 1 goes on, and is saved in the present format", "[train]") {
  const TemporaryFolder folder;
  for (const OldModel& old : old_models) {
    CAPTURE(old.name);
    const ModelFileInfo info = read_model_info(file_of(old));
    const auto task = task_of(info);
    const auto& options = std::get<ModelOptions>(info.model);
    SequenceModel<float> model(Device::cpu(), options, 9);
    Trainer trainer(model, *task, info.trainer);
    restore(file_of(old), trainer);
    CHECK(trainer.steps() == 3);
    trainer.step();
    const auto file = folder.path() / "now.h5";
    save_checkpoint(file, trainer);
    const ModelFileInfo now = read_model_info(file);
    CHECK(now.format_version == 2);
    CHECK(now.steps == 4);
    CHECK(to_json(std::get<ModelOptions>(now.model)) == to_json(options));
  }
}

}  // namespace orthornn::testing
