#include "fuzz/sound_files.hpp"

#include <fstream>
#include <initializer_list>
#include <iterator>

#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/idx_writer.hpp"
#include "support/temporary_folder.hpp"

namespace orthornn::fuzz {
namespace {

using testing::TemporaryFolder;

/// What `save` writes to a path.
template <class Save>
SoundFile saved(const Save& save) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.h5";
  save(path);
  std::ifstream stream(path, std::ios::binary);
  return sound_file({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
}

SmallTraining training(std::unique_ptr<Task> task, const OrthogonalCell& cell,
                       const TrainerOptions& options) {
  const ModelOptions model = model_for(task->data(), {cell});
  SmallTraining result{.task = std::move(task), .model = nullptr, .trainer = nullptr, .file = {}};
  result.model = std::make_unique<SequenceModel<float>>(Device::cpu(), model);
  result.trainer = std::make_unique<Trainer>(*result.model, *result.task, options);
  result.trainer->set_best(BestResult{.loss = 0.5, .step = 3});
  result.file = saved([&](const auto& path) { save_checkpoint(path, *result.trainer); });
  return result;
}

/// Files of MNIST with a few black images, as a model file has the checksum of its data.
const std::filesystem::path& mnist_folder() {
  static const TemporaryFolder folder;
  static const bool written = [] {
    for (const std::string set : {"train", "t10k"}) {
      constexpr std::uint32_t count = 20;
      testing::write_plain(folder / (set + "-images-idx3-ubyte"),
                           testing::idx_bytes({count, 28, 28}, testing::Bytes(count * 28 * 28)));
      testing::write_plain(folder / (set + "-labels-idx1-ubyte"),
                           testing::idx_bytes({count}, testing::Bytes(count)));
    }
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

}  // namespace

std::vector<SmallTraining> small_trainings() {
  std::vector<SmallTraining> all;
  all.push_back(training(std::make_unique<CopyingTask>(CopyingOptions{.delay = 3, .batch = 2, .seed = 1}),
                         {.hidden_size = 4, .transition = Cwy{4}}, {.optimizer = RmsProp{}}));
  all.push_back(
      training(std::make_unique<AddingTask>(AddingOptions{.length = 5, .batch = 2, .seed = 1}),
               {.hidden_size = 3, .transition = MatrixExponential{}, .activation = Activation::tanh},
               {.optimizer = Adam{}}));
  all.push_back(training(std::make_unique<MnistTask>(
                             MnistOptions{.data = mnist_folder(), .permuted = true, .batch = 1, .seed = 1}),
                         {.hidden_size = 3, .transition = HouseholderProduct{2}},
                         {.optimizer = Sgd{.momentum = 0.5}, .clip = 0}));
  return all;
}

std::vector<SoundFile> model_files() {
  std::vector<SoundFile> files;
  for (SmallTraining& one : small_trainings()) files.push_back(std::move(one.file));
  const SequenceModel<float> stack(
      Device::cpu(), {.input = TokenEmbedding{7, 3},
                      .cells = {OrthogonalCell{.hidden_size = 5,
                                               .transition = Cwy{2, Init::haar, ReflectionForm::factored},
                                               .activation = Activation::abs,
                                               .input_matrix = InputMatrix::stiefel},
                                OrthogonalCell{.hidden_size = 4, .transition = ScaledCayley{2, Init::cayley}},
                                OrthogonalCell{.hidden_size = 3, .transition = Unconstrained{}}},
                      .readout = LastStep{2},
                      .loss = Loss::mean_squared_error});
  files.push_back(saved([&](const auto& path) { save_model(path, stack); }));
  const std::size_t count = files.size();
  for (std::size_t i = 0; i < count; ++i) files.push_back(in_oldest_format(files[i]));
  return files;
}

std::vector<SoundFile> input_files() {
  std::vector<SoundFile> files;
  for (const bool symbols : {false, true}) {
    Hdf5Writer writer;
    if (symbols) {
      writer.dataset("x", Tensor<std::int32_t>({5, 2}));
    } else {
      writer.dataset("x", Tensor<float>({5, 2, 1}));
    }
    Tensor<std::int32_t> lengths({2});
    lengths(0) = 5;
    writer.dataset("lengths", lengths);
    files.push_back(written(writer));
    files.push_back(in_oldest_format(files.back()));
  }
  return files;
}

}  // namespace orthornn::fuzz
