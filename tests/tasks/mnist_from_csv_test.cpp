// MNIST in a CSV file: own data have the batches of task mnist.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/idx_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr std::uint32_t image_count = 60, test_count = 7, pixel_count = 12;
constexpr Index batch_size = 4;

/// Pixels of an image. The first two are 0 and 255, so that the range of any images is that of bytes.
Bytes pixels_of(std::uint32_t image) {
  Bytes pixels{0, 255};
  for (std::uint32_t p = 2; p < pixel_count; ++p)
    pixels.push_back(static_cast<std::uint8_t>((image * 53 + p * 101) % 256));
  return pixels;
}

std::uint8_t label_of(std::uint32_t image) { return static_cast<std::uint8_t>(image % 10); }

void write_idx(const std::filesystem::path& folder, const char* set, std::uint32_t first,
               std::uint32_t count) {
  Bytes pixels, labels;
  for (std::uint32_t i = first; i < first + count; ++i) {
    const Bytes of_image = pixels_of(i);
    pixels.insert(pixels.end(), of_image.begin(), of_image.end());
    labels.push_back(label_of(i));
  }
  write_plain(folder / fmt::format("{}-images-idx3-ubyte", set), idx_bytes({count, 3, 4}, pixels));
  write_plain(folder / fmt::format("{}-labels-idx1-ubyte", set), idx_bytes({count}, labels));
}

/// A row an image: its label, then its pixels.
void write_csv(const std::filesystem::path& path, const std::vector<std::uint32_t>& images) {
  std::ofstream file(path);
  file << "target";
  for (std::uint32_t p = 0; p < pixel_count; ++p) file << ",p" << p;
  for (const std::uint32_t image : images) {
    file << '\n' << int{label_of(image)};
    for (const std::uint8_t pixel : pixels_of(image)) file << ',' << int{pixel};
  }
  file << '\n';
}

void check_equal(const Batch& csv, const Batch& mnist) {
  CHECK(std::ranges::equal(csv.integers(batch_names::classes), mnist.integers(batch_names::classes)));
  const TensorView<const float> a = csv.reals(batch_names::features), b = mnist.reals(batch_names::features);
  CHECK(a.shape() == b.shape());
  CHECK(std::ranges::equal(a, b));
}

}  // namespace

TEST_CASE("MNIST from CSV files in the order of its split has the batches of task mnist", "[mnist]") {
  const TemporaryFolder folder;
  write_idx(folder.path(), "train", 0, image_count);
  write_idx(folder.path(), "t10k", image_count, test_count);
  const MnistTask mnist({.data = folder.path(), .batch = batch_size, .seed = 3});
  const Index held_out = image_count / MnistOptions{}.validation_share;
  const Tensor<std::int32_t> split =
      random_permutation(Index{image_count}, RandomStream(3, RandomPurpose::split));
  std::vector<std::uint32_t> test;
  for (std::uint32_t i = image_count; i < image_count + test_count; ++i) test.push_back(i);
  write_csv(folder.path() / "validation.csv", {split.begin(), split.begin() + held_out});
  write_csv(folder.path() / "train.csv", {split.begin() + held_out, split.end()});
  write_csv(folder.path() / "test.csv", test);

  const SequencesTask csv({.data = folder.path() / "train.csv",
                           .validation_data = folder.path() / "validation.csv",
                           .test_data = folder.path() / "test.csv",
                           .normalization = Normalization::range,
                           .batch = batch_size,
                           .seed = 3});
  REQUIRE(csv.batches_per_epoch() == mnist.batches_per_epoch());
  Batch of_csv, of_mnist;
  for (std::uint64_t step = 0; step < 30; ++step) {  // more than two epochs
    csv.training_batch(step, of_csv);
    mnist.training_batch(step, of_mnist);
    check_equal(of_csv, of_mnist);
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    REQUIRE(csv.evaluation_batches(set) == mnist.evaluation_batches(set));
    for (Index number = 0; number < csv.evaluation_batches(set); ++number) {
      csv.evaluation_batch(set, number, of_csv);
      mnist.evaluation_batch(set, number, of_mnist);
      check_equal(of_csv, of_mnist);
    }
  }
}
