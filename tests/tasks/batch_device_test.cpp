#include <initializer_list>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/recall_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/idx_writer.hpp"
#include "support/npz_writer.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

bool same_batch(const Batch& a, const Batch& b) {
  BatchShapes shapes;
  shapes.set(a);
  if (!shapes.are_of(b)) return false;
  const auto same = [](auto x, auto y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  using namespace batch_names;
  return same(a.integers(symbols), b.integers(symbols)) && same(a.reals(features), b.reals(features)) &&
         same(a.integers(classes), b.integers(classes)) && same(a.integers(lengths), b.integers(lengths)) &&
         same(a.reals(values), b.reals(values));
}

void check_same_batches(const Task& task, Device device, const std::vector<std::uint64_t>& steps) {
  Batch here, there(device);
  for (const std::uint64_t step : steps) {
    task.training_batch(step, here);
    task.training_batch(step, there);
    CAPTURE(task.config(), step);
    CHECK(same_batch(there.copy(Device::cpu()), here));
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    for (const Index number : {Index{0}, task.evaluation_batches(set) - 1}) {
      task.evaluation_batch(set, number, here);
      task.evaluation_batch(set, number, there);
      CAPTURE(task.config(), number);
      CHECK(same_batch(there.copy(Device::cpu()), here));
    }
  }
}

}  // namespace

TEST_CASE("batches of copying and adding have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index batch : {1, 3, 128}) {
    for (const Index steps : {2, 3, 31}) {
      check_same_batches(CopyingTask({.delay = steps, .batch = batch, .seed = 0x123456789abcdef}), *device,
                         {0, 1, 0x100000001});
      check_same_batches(AddingTask({.length = steps, .batch = batch, .seed = 3}), *device,
                         {0, 1, 0x100000001});
    }
  }
}

TEST_CASE("batches of MNIST have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  RandomStream random(1, RandomPurpose::validation);
  const auto write = [&](const std::string& set, std::uint32_t count) {
    std::vector<std::uint8_t> pixels(count * 12), labels(count);
    for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random.integer(256));
    for (std::uint8_t& l : labels) l = static_cast<std::uint8_t>(random.integer(10));
    write_plain(folder.path() / (set + "-images-idx3-ubyte"), idx_bytes({count, 3, 4}, pixels));
    write_plain(folder.path() / (set + "-labels-idx1-ubyte"), idx_bytes({count}, labels));
  };
  write("train", 11);
  write("t10k", 7);
  check_same_batches(VideoTask({.clips = Clips::mnist, .data = folder.path(), .frames = 3, .batch = 5}),
                     *device, {0, 1});
  for (const bool permuted : {false, true}) {
    // Two batches an epoch, and a step back into one that has passed.
    const MnistTask task({.data = folder.path(), .permuted = permuted, .batch = 5});
    check_same_batches(task, *device, {0, 1, 2, 3, 0, 8});
  }
}

TEST_CASE("batches of own clips have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  RandomStream random(1, RandomPurpose::validation);
  std::string bytes;
  std::vector<float> reals;
  for (int i = 0; i < 6 * 7 * 7 * 9; ++i) {
    bytes += static_cast<char>(random.integer(256));
    reals.push_back(static_cast<float>(random.integer(1000)) / 1000);
  }
  write_text(folder / "bytes.npy", npy("|u1", "6, 7, 7, 9", bytes));
  write_text(folder / "reals.npy", npy("<f4", "6, 7, 7, 9", raw_bytes(reals)));
  for (const char* name : {"bytes.npy", "reals.npy"}) {
    check_same_batches(VideoTask({.clips = Clips::own, .data = folder / name, .frames = 3, .batch = 5}),
                       *device, {0, 1, 7});
  }
}

TEST_CASE("batches of words have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index batch : {1, 3, 300}) {
    for (const Index length : {1, 4, 31}) {
      const std::uint64_t seed = 0x123456789abcdef;
      check_same_batches(WordsTask({.group = "S5", .length = length, .batch = batch, .seed = seed}), *device,
                         {0, 1, 0x100000001});
      check_same_batches(WordsTask({.group = "Z2xA4",
                                    .alphabet = Alphabet::random,
                                    .generators = 3,
                                    .length = length,
                                    .training_samples = 1000,
                                    .curriculum = 2,
                                    .batch = batch,
                                    .seed = seed}),
                         *device, {0, 2, 5, 6, 1000, 0x100000001});
    }
  }
}

TEST_CASE("batches of languages and of recall have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index batch : {1, 300}) {
    check_same_batches(LanguageTask({.language = Language::modular, .batch = batch}), *device, {0, 1});
    check_same_batches(RecallTask({.batch = batch}), *device, {0, 1});
  }
}

TEST_CASE("batches of video have the same bits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index batch : {1, 300})
    check_same_batches(VideoTask({.frames = 3, .batch = batch, .seed = 0x123456789abcdef}), *device,
                       {0, 1, 0x100000001});
}
