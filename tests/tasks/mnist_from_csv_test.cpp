// MNIST in CSV files: own data have the batches of task mnist.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/idx_writer.hpp"
#include "support/real_mnist.hpp"
#include "support/temporary_folder.hpp"
#include "tasks/mnist/idx_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr std::uint64_t csv_seed = 3;

struct ImagesAndLabels {
  Tensor<std::uint8_t> pixels, labels;
};

ImagesAndLabels images_in(const std::filesystem::path& folder, const std::string& set) {
  const auto named = [&](const char* content) {
    const std::filesystem::path plain = folder / (set + content);
    return std::filesystem::exists(plain) ? plain : std::filesystem::path(plain.string() + ".gz");
  };
  return {read_idx(named("-images-idx3-ubyte"), 3), read_idx(named("-labels-idx1-ubyte"), 1)};
}

/// Writes 60 and 7 images of 3 x 4 pixels, of which the first two are 0 and 255: the range of any of them is
/// that of bytes.
void write_few_images(const std::filesystem::path& folder) {
  const auto write = [&](const std::string& set, std::uint32_t first, std::uint32_t count) {
    Bytes pixels, labels;
    for (std::uint32_t i = first; i < first + count; ++i) {
      pixels.insert(pixels.end(), {0, 255});
      for (std::uint32_t p = 2; p < 12; ++p)
        pixels.push_back(static_cast<std::uint8_t>((i * 53 + p * 101) % 256));
      labels.push_back(static_cast<std::uint8_t>(i % 10));
    }
    write_plain(folder / (set + "-images-idx3-ubyte"), idx_bytes({count, 3, 4}, pixels));
    write_plain(folder / (set + "-labels-idx1-ubyte"), idx_bytes({count}, labels));
  };
  write("train", 0, 60);
  write("t10k", 60, 7);
}

/// A row an image, its label and then its pixels, for the images of these numbers.
void write_image_rows(const std::filesystem::path& path, const ImagesAndLabels& images,
                      ConstTensorView<std::int32_t> numbers) {
  const Index pixels = images.pixels.size() / images.labels.size();
  std::string text = "target";
  for (Index p = 0; p < pixels; ++p) text += fmt::format(",p{}", p);
  for (const std::int32_t i : numbers) {
    text += fmt::format("\n{}", images.labels(i));
    for (Index p = 0; p < pixels; ++p) text += fmt::format(",{}", images.pixels.data()[i * pixels + p]);
  }
  std::ofstream(path) << text << '\n';
}

bool equal_batches(const Batch& a, const Batch& b) {
  using namespace batch_names;
  return a.reals(features).shape() == b.reals(features).shape() &&
         std::ranges::equal(a.reals(features), b.reals(features)) &&
         std::ranges::equal(a.integers(classes), b.integers(classes));
}

/// Compares all batches of two epochs and of the held-out data.
void check_csv_batches(const std::filesystem::path& mnist_folder, Index batch_size) {
  const MnistTask mnist({.data = mnist_folder, .batch = batch_size, .seed = csv_seed});
  const ImagesAndLabels train = images_in(mnist_folder, "train"), test = images_in(mnist_folder, "t10k");
  const Index count = train.labels.size(), held_out = count / MnistOptions{}.validation_share;
  const Tensor<std::int32_t> split = random_permutation(count, RandomStream(csv_seed, RandomPurpose::split));
  Tensor<std::int32_t> test_order(Shape{test.labels.size()});
  std::iota(test_order.begin(), test_order.end(), 0);
  const TemporaryFolder folder;
  write_image_rows(folder.path() / "validation.csv", train, split.view().slice(0, held_out));
  write_image_rows(folder.path() / "train.csv", train, split.view().slice(held_out, count - held_out));
  write_image_rows(folder.path() / "test.csv", test, test_order);

  const SequencesTask csv({.data = folder.path() / "train.csv",
                           .validation_data = folder.path() / "validation.csv",
                           .test_data = folder.path() / "test.csv",
                           .normalization = Normalization::range,
                           .batch = batch_size,
                           .seed = csv_seed});
  REQUIRE(csv.batches_per_epoch() == mnist.batches_per_epoch());
  Batch of_csv, of_mnist;
  for (Index step = 0; step < 2 * *mnist.batches_per_epoch(); ++step) {
    csv.training_batch(static_cast<std::uint64_t>(step), of_csv);
    mnist.training_batch(static_cast<std::uint64_t>(step), of_mnist);
    REQUIRE(equal_batches(of_csv, of_mnist));
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    REQUIRE(csv.evaluation_batches(set) == mnist.evaluation_batches(set));
    for (Index number = 0; number < csv.evaluation_batches(set); ++number) {
      csv.evaluation_batch(set, number, of_csv);
      mnist.evaluation_batch(set, number, of_mnist);
      REQUIRE(equal_batches(of_csv, of_mnist));
    }
  }
}

}  // namespace

TEST_CASE("MNIST from CSV files in the order of its split has the batches of task mnist", "[mnist]") {
  const TemporaryFolder folder;
  write_few_images(folder.path());
  check_csv_batches(folder.path(), 4);
}

TEST_CASE("The real MNIST from CSV files has the batches of task mnist", "[mnist][slow]") {
  const std::filesystem::path data = real_mnist();
  if (data.empty()) {
    WARN("skipped: no MNIST files; run tools/fetch-data mnist or name their folder in ORTHORNN_MNIST_DIR");
    return;
  }
  check_csv_batches(data, 128);
}
