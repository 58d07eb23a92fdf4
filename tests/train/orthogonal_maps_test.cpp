// Trainings of the layers that are orthogonal maps, and their files.

#include <initializer_list>

#include "orthornn/tasks/video_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

const VideoTask& clips_of_maps() {
  static const VideoTask clips({.frames = 4, .batch = 4});
  return clips;
}

/// Convolutions with F > q^2 C and F < q^2 C, a linear map with N < K and one with N = K.
ModelOptions maps_model(StiefelKind kind) {
  return model_for(
      clips_of_maps().data(),
      {OrthogonalConv{.channels = 11, .kernel = kind}, OrthogonalConv{.channels = 2, .kernel = kind},
       OrthogonalLinear{.outputs = 24, .matrix = kind}, OrthogonalLinear{.matrix = kind}});
}

TrainerOptions maps_trainer(StiefelKind kind) {
  TrainerOptions options{.optimizer = Adam{.lr = 0.01, .lr_orthogonal = 0.05}};
  if (kind == StiefelKind::matrix) options.optimizer = RgdAdam{.lr = 0.01, .lr_orthogonal = 0.05};
  return options;
}

bool keep_going(const TrainingStep&) { return true; }

}  // namespace

TEST_CASE("orthogonal maps stay orthogonal in a training", "[layers][train]") {
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    CAPTURE(name);
    SequenceModel<float> model(Device::cpu(), maps_model(kind), 3);
    const Tensor<float> start = model.parameters().values().copy();
    Trainer trainer(model, clips_of_maps(), maps_trainer(kind));
    trainer.run(20, keep_going);
    for (const Parameter& parameter : model.parameters().list()) {
      CAPTURE(parameter.name);
      const auto of = [&](const Tensor<float>& values) {
        return values.view().slice(parameter.offset, parameter.shape.count());
      };
      CHECK(relative_error(of(model.parameters().values()), of(start)) > 1e-3);
    }
    REQUIRE(model.orthogonality_error().has_value());
    CHECK(*model.orthogonality_error() <= tolerance::rounding<float>(128));  // terms of the longest sum
  }
}

TEST_CASE("trainings of orthogonal maps are saved, loaded and resumed", "[layers][train][io]") {
  const TemporaryFolder folder;
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    CAPTURE(name);
    const auto file = folder.path() / (std::string(name) + ".h5");
    SequenceModel<float> straight(Device::cpu(), maps_model(kind), 3),
        second(Device::cpu(), maps_model(kind), 99);
    Trainer uninterrupted(straight, clips_of_maps(), maps_trainer(kind)),
        after(second, clips_of_maps(), maps_trainer(kind));
    uninterrupted.run(2, keep_going);
    save_checkpoint(file, uninterrupted);
    ModelFileInfo info;
    const auto loaded = load_model(file, {}, &info);
    CHECK(equal(loaded->parameters().values(), straight.parameters().values()));
    Batch batch;
    clips_of_maps().evaluation_batch(HeldOut::test, 0, batch);
    CHECK(loaded->loss(batch).sum == straight.loss(batch).sum);
    const auto& cells = std::get<ModelOptions>(info.model).cells;
    CHECK(std::get<OrthogonalConv>(cells[0]).channels == 11);
    CHECK(std::get<OrthogonalConv>(cells[0]).kernel == kind);
    CHECK(std::get<OrthogonalLinear>(cells[2]).outputs == 24);
    CHECK(std::get<OrthogonalLinear>(cells[2]).matrix == kind);
    restore(file, after);
    after.run(4, keep_going);
    uninterrupted.run(4, keep_going);
    CHECK(equal(second.parameters().values(), straight.parameters().values()));
  }
}

}  // namespace orthornn::testing
