// orthornn inspect --export: the numbers of plots.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cli/run_program.hpp"
#include "io/npz_file.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/linalg/eigenvalue_angles.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"
#include "support/npz_reader.hpp"
#include "support/random_tensor.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("inspect exports Q and the angles of its eigenvalues", "[cli][inspect]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2", "--layers", "2", "--reflections", "3"})));
  const std::string model = folder / "run/model.h5";
  const ProgramResult text = run({"inspect", model, "--export", folder / "figures.h5"});
  check_success(text);
  CHECK_THAT(text.output, contains("figures.h5: /cell0/Q [8, 8], /cell0/angles [8], /cell1/Q"));
  const ProgramResult json = run({"inspect", model, "--json", "--export", folder / "figures.npz"});
  check_success(json);
  CHECK(json.output.front() == '{');
  CHECK(json.output.substr(json.output.size() - 2) == "}\n");

  const Hdf5Reader reader(folder / "figures.h5");
  for (const char* layer : {"cell0", "cell1"}) {
    CAPTURE(layer);
    const std::string name = layer;
    const Tensor<float> vectors = Hdf5Reader(model).read<float>("parameters/" + name + "/reflection_vectors");
    const Tensor<float> expected = prepare<float>(Cwy{}, vectors)->materialize();
    const Tensor<float> q = reader.read<float>(name + "/Q");
    CHECK(relative_error(q, expected) < 1e-6);
    const Tensor<double> angles = reader.read<double>(name + "/angles");
    CHECK(std::ranges::equal(angles, eigenvalue_angles<float>(q)));
    // Three reflections turn in a plane and reflect once.
    CHECK(std::abs(angles(7)) > 3.1415);
    CHECK(std::ranges::count_if(angles, [](double angle) { return std::abs(angle) < 1e-6; }) == 5);
    const auto arrays = read_npz(folder / "figures.npz", {name + "/Q", name + "/angles"});
    CHECK(equal(arrays.at(name + "/angles").reals, angles));
    CHECK(equal(cast<float>(arrays.at(name + "/Q").reals), q));
  }
  CHECK(reader.read<double>("orthogonality_error")() < 1e-5);
  CHECK(reader.read<std::int64_t>("steps")() == 2);
  CHECK(reader.read<std::int64_t>("parameter_count")() == load_model(model)->parameters().count());
}

TEST_CASE("inspect exports the Q of an encoder and a decoder", "[cli][inspect]") {
  const TemporaryFolder folder;
  EncoderDecoderOptions options = translation_models()[0];
  options.encoder = options.decoder = {OrthogonalCell{.hidden_size = 4}};
  save_model(folder / "model.h5", EncoderDecoder<float>(Device::cpu(), options, 1));
  check_success(run({"inspect", folder / "model.h5", "--export", folder / "figures.h5"}));
  const Hdf5Reader reader(folder / "figures.h5");
  for (const char* name : {"encoder/0/Q", "decoder/0/Q"}) CHECK(reader.shape(name) == Shape{4, 4});
}

TEST_CASE("inspect exports what DeltaProduct layers do", "[cli][inspect][delta]") {
  const TemporaryFolder folder;
  check_success(
      run({"train",    "adding",  "--length", "9",          "--cell", "deltaproduct", "--hidden",
           "8",        "--heads", "2",        "--key-size", "4",      "--value-size", "3",
           "--no-mlp", "--batch", "4",        "--steps",    "1",      "--out",        folder / "run"}));
  const std::string file = folder / "run/model.h5";
  check_success(run({"inspect", file, "--export", folder / "figures.h5"}));
  ModelFileInfo info;
  const auto model = load_model(file, {}, &info);
  const auto task = make_task(info.task_config, {.batch = 1, .seed = info.seed});
  Batch batch;
  task->evaluation_batch(HeldOut::test, 0, batch);
  const Hdf5Reader reader(folder / "figures.h5");
  const Tensor<std::int64_t> steps = reader.read<std::int64_t>("rank_steps");
  const auto expected =
      observe_delta_products<float>(*model, batch, std::vector<Index>(steps.begin(), steps.end()));
  REQUIRE(expected.size() == 1);
  const std::string layer = expected[0].layer;
  const Tensor<double> betas = reader.read<double>(layer + "/betas"),
                       ranks = reader.read<double>(layer + "/ranks"),
                       rotations = reader.read<double>(layer + "/rotations");
  const Tensor<std::int64_t> counts = reader.read<std::int64_t>(layer + "/rotation_counts");
  CHECK(betas.shape() == Shape{2, task->length(), 2});
  CHECK(ranks.shape() == Shape{2, steps.size()});
  const double* rotation = rotations.begin();
  for (Index h = 0; h < 2; ++h) {
    const DeltaHeadObservation& head = expected[0].heads[static_cast<std::size_t>(h)];
    CHECK(std::ranges::equal(betas.view()[h], head.betas));
    CHECK(std::ranges::equal(ranks.view()[h], head.ranks));
    REQUIRE(counts(h) == std::ssize(head.angles));
    CHECK(std::equal(head.angles.begin(), head.angles.end(), rotation));
    rotation += counts(h);
  }
}

TEST_CASE("inspect exports to no other file and no other form", "[cli][inspect][output_file]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string model = folder / "run/model.h5", copy = folder / "copy.h5";
  fs::copy_file(model, copy);
  check_refused(run({"inspect", model, "--export", model}), 2, {"--export", "is the model"});
  check_refused(run({"inspect", model, "--export", folder / "figures.csv"}), 2, {"--export", ".npz"});
  check_refused(run({"inspect", model, "--export", copy}), 1, {"a trained model", "--overwrite"});
  check_success(run({"inspect", model, "--export", copy, "--overwrite"}));
  check_success(run({"inspect", model, "--export", copy}));  // figures replace figures
}
