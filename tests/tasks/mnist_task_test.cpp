#include "orthornn/tasks/mnist_task.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/idx_writer.hpp"
#include "support/real_mnist.hpp"
#include "support/score.hpp"
#include "support/temporary_folder.hpp"
#include "test_paths.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr std::uint32_t training_count = 20;
constexpr std::uint32_t test_count = 7;

/// Images of 2 x 3 pixels: pixel p of image i is 10 i + p, its label i modulo 10. Test images go on where
/// training images end.
Bytes tiny_pixels(std::uint32_t first, std::uint32_t count) {
  Bytes data;
  for (std::uint32_t i = first; i < first + count; ++i) {
    for (std::uint32_t p = 0; p < 6; ++p) data.push_back(static_cast<std::uint8_t>((10 * i + p) % 256));
  }
  return idx_bytes({count, 2, 3}, data);
}

Bytes tiny_labels(std::uint32_t first, std::uint32_t count) {
  Bytes data;
  for (std::uint32_t i = first; i < first + count; ++i) data.push_back(static_cast<std::uint8_t>(i % 10));
  return idx_bytes({count}, data);
}

void write_tiny_mnist(const std::filesystem::path& folder) {
  write_plain(folder / "train-images-idx3-ubyte", tiny_pixels(0, training_count));
  write_plain(folder / "train-labels-idx1-ubyte", tiny_labels(0, training_count));
  write_plain(folder / "t10k-images-idx3-ubyte", tiny_pixels(training_count, test_count));
  write_plain(folder / "t10k-labels-idx1-ubyte", tiny_labels(training_count, test_count));
}

struct TinyMnist : TemporaryFolder {
  TinyMnist() { write_tiny_mnist(path()); }
};

int byte(float feature) { return static_cast<int>(std::lround(feature * 255)); }

/// Which training images a batch shows, by their first pixel (unique among the first twenty).
std::vector<int> images_of(const Task& task, std::uint64_t step) {
  Batch batch;
  task.training_batch(step, batch);
  std::vector<int> images;
  for (Index b = 0; b < batch.reals(batch_names::features).shape()[1]; ++b)
    images.push_back(byte(batch.reals(batch_names::features)(0, b, 0)) / 10);
  return images;
}

std::vector<int> pixels_of(const Batch& batch, Index b) {
  std::vector<int> pixels;
  for (Index t = 0; t < batch.reals(batch_names::features).shape()[0]; ++t)
    pixels.push_back(byte(batch.reals(batch_names::features)(t, b, 0)));
  return pixels;
}

}  // namespace

TEST_CASE("An MNIST batch holds pixels in reading order and labels", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 4});
  Batch batch;
  task.training_batch(0, batch);
  CHECK(task.length() == 6);
  REQUIRE(batch.reals(batch_names::features).shape() == Shape{6, 4, 1});
  REQUIRE(batch.integers(batch_names::classes).shape() == Shape{4});
  CHECK(batch.integers(batch_names::symbols).empty());
  CHECK(batch.reals(batch_names::values).empty());
  CHECK(task.input_order().empty());
  for (Index b = 0; b < 4; ++b) {
    const int image = byte(batch.reals(batch_names::features)(0, b, 0)) / 10;
    for (Index t = 0; t < 6; ++t) {
      CHECK(batch.reals(batch_names::features)(t, b, 0) == static_cast<float>(10 * image + t) / 255.0F);
    }
    CHECK(batch.integers(batch_names::classes)(b) == image % 10);
  }
}

TEST_CASE("MNIST files are found under all their names, gzipped or not", "[mnist]") {
  const TinyMnist plain;
  const std::string separator = GENERATE(as<std::string>{}, "-", ".");
  const std::string ending = GENERATE(as<std::string>{}, "", ".gz");
  const TemporaryFolder folder;
  for (const std::string set : {"train", "t10k"}) {
    for (const std::string kind : {"images/idx3", "labels/idx1"}) {
      std::string from = set + "-" + kind + "-ubyte";
      std::string to = from + ending;
      const std::size_t slash = from.find('/');
      const auto write = ending.empty() ? write_plain : write_gzipped;
      write(folder.path() / to.replace(slash, 1, separator),
            read_bytes(plain.path() / from.replace(slash, 1, "-")));
    }
  }
  const MnistTask task({.data = folder.path(), .batch = 4});
  CHECK(images_of(task, 3) == images_of(MnistTask({.data = plain.path(), .batch = 4}), 3));
}

TEST_CASE("An MNIST epoch shows each image once, in an order of its own", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 6, .seed = 1});
  REQUIRE(task.batches_per_epoch() == 3);  // of twenty images one is held out, and one is left over
  std::vector<std::vector<int>> epochs(3);
  for (std::uint64_t step = 0; step < 9; ++step) {
    const std::vector<int> images = images_of(task, step);
    REQUIRE(images.size() == 6);
    epochs[step / 3].insert(epochs[step / 3].end(), images.begin(), images.end());
  }
  for (const std::vector<int>& epoch : epochs) CHECK(std::set<int>(epoch.begin(), epoch.end()).size() == 18);
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);

  // Going back, or starting in the middle, gives the same batches.
  CHECK(images_of(task, 1) == std::vector<int>(epochs[0].begin() + 6, epochs[0].begin() + 12));
  const MnistTask resumed({.data = folder.path(), .batch = 6, .seed = 1});
  CHECK(images_of(resumed, 8) == std::vector<int>(epochs[2].begin() + 12, epochs[2].end()));
  CHECK(images_of(MnistTask({.data = folder.path(), .batch = 6, .seed = 2}), 0) != images_of(task, 0));
}

TEST_CASE("MNIST evaluation is the whole test set, once and in order", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 3});
  REQUIRE(task.evaluation_batches(HeldOut::test) == 3);
  Batch batch;
  int image = 20;
  for (Index number = 0; number < 3; ++number) {
    task.evaluation_batch(HeldOut::test, number, batch);
    REQUIRE(batch.integers(batch_names::classes).size() == (number < 2 ? 3 : 1));
    REQUIRE(batch.reals(batch_names::features).shape() ==
            Shape{6, batch.integers(batch_names::classes).size(), 1});
    for (Index b = 0; b < batch.integers(batch_names::classes).size(); ++b, ++image) {
      CHECK(pixels_of(batch, b)[0] == 10 * image % 256);
      CHECK(batch.integers(batch_names::classes)(b) == image % 10);
    }
  }
  CHECK(image == 27);
  CHECK_THROWS_AS(task.evaluation_batch(HeldOut::test, 3, batch), ValueError);
}

TEST_CASE(
    "A twelfth of the MNIST training images is for validation, chosen by seed, and in no training batch",
    "[mnist]") {
  const TemporaryFolder folder;
  write_plain(folder / "train-images-idx3-ubyte", tiny_pixels(0, 25));
  write_plain(folder / "train-labels-idx1-ubyte", tiny_labels(0, 25));
  write_plain(folder / "t10k-images-idx3-ubyte", tiny_pixels(25, 1));
  write_plain(folder / "t10k-labels-idx1-ubyte", tiny_labels(25, 1));
  const auto held_out = [&](std::uint64_t seed) {
    const MnistTask task({.data = folder.path(), .batch = 23, .seed = seed});
    REQUIRE(task.evaluation_batches(HeldOut::validation) == 1);
    Batch batch;
    task.evaluation_batch(HeldOut::validation, 0, batch);
    REQUIRE(batch.integers(batch_names::classes).size() == 2);
    std::set<int> images = {pixels_of(batch, 0)[0] / 10, pixels_of(batch, 1)[0] / 10};
    CHECK(images.size() == 2);
    for (const int image : images) {
      const Index b = image == pixels_of(batch, 0)[0] / 10 ? 0 : 1;
      CHECK(batch.integers(batch_names::classes)(b) == image % 10);
    }
    // All 23 others in every epoch.
    for (const std::uint64_t step : {0, 1, 2}) {
      for (const int image : images_of(task, step)) CHECK(images.insert(image).second);
      CHECK(images.size() == 25);
      while (images.size() > 2) {
        for (const int image : images_of(task, step)) images.erase(image);
      }
    }
    return images;
  };
  const std::set<int> first = held_out(1);
  CHECK(held_out(1) == first);
  bool differs = false;
  for (const std::uint64_t seed : {2, 3, 4}) differs = differs || held_out(seed) != first;
  CHECK(differs);
  CHECK_THROWS_WITH(MnistTask({.data = folder.path(), .batch = 24}).load(),
                    contains("23 images to train on, beside 2"));
}

TEST_CASE("Permuted MNIST reads every image in the same other order", "[mnist]") {
  const TinyMnist folder;
  const MnistTask plain({.data = folder.path(), .batch = 4});
  const MnistTask permuted({.data = folder.path(), .permuted = true, .batch = 4});
  Batch as_it_is, reordered;
  for (const std::uint64_t step : {0, 1, 7}) {
    plain.training_batch(step, as_it_is);
    permuted.training_batch(step, reordered);
    const ConstTensorView<std::int32_t> order = permuted.input_order();
    REQUIRE(order.shape() == Shape{6});
    CHECK_FALSE(std::ranges::is_sorted(order));
    CHECK(std::set<int>(order.begin(), order.end()).size() == 6);
    CHECK(std::ranges::equal(as_it_is.integers(batch_names::classes),
                             reordered.integers(batch_names::classes)));
    for (Index t = 0; t < 6; ++t) {
      for (Index b = 0; b < 4; ++b)
        CHECK(reordered.reals(batch_names::features)(t, b, 0) ==
              as_it_is.reals(batch_names::features)(order(t), b, 0));
    }
  }
  plain.evaluation_batch(HeldOut::test, 0, as_it_is);
  permuted.evaluation_batch(HeldOut::test, 0, reordered);
  for (Index t = 0; t < 6; ++t) {
    CHECK(reordered.reals(batch_names::features)(t, 0, 0) ==
          as_it_is.reals(batch_names::features)(permuted.input_order()(t), 0, 0));
  }
}

TEST_CASE("The permutation is drawn from its own seed, or taken from a model", "[mnist]") {
  const MnistTask first({.permuted = true, .seed = 1});
  const MnistTask second({.permuted = true, .seed = 2});
  const MnistTask other({.permuted = true, .permutation_seed = 5});
  REQUIRE(first.input_order().size() == 784);
  CHECK(std::ranges::equal(first.input_order(), second.input_order()));
  CHECK_FALSE(std::ranges::equal(first.input_order(), other.input_order()));

  const TinyMnist folder;
  Tensor<std::int32_t> stored(Shape{6});
  std::ranges::copy(std::array{5, 4, 3, 2, 1, 0}, stored.begin());
  const auto task = make_task(first.config(), {.batch = 4, .data = folder.path(), .input_order = stored});
  CHECK(task->length() == 6);
  stored(0) = 77;  // the task has its own copy
  Batch batch;
  task->training_batch(0, batch);
  CHECK(batch.reals(batch_names::features)(5, 0, 0) < batch.reals(batch_names::features)(0, 0, 0));
  CHECK(std::ranges::equal(task->input_order(), std::array{5, 4, 3, 2, 1, 0}));

  const auto message = [&](std::initializer_list<std::int32_t> order) {
    Tensor<std::int32_t> tensor(Shape{static_cast<Index>(order.size())});
    std::ranges::copy(order, tensor.begin());
    return error_message<ValueError>([&] { MnistTask({.permuted = true, .input_order = tensor}); });
  };
  CHECK(message({1, 0}).empty());
  CHECK_THAT(message({0, 0}), contains("not a permutation"));
  CHECK_THAT(message({0, 2}), contains("not a permutation"));
  CHECK_THAT(message({0, -1}), contains("not a permutation"));
  Tensor<std::int32_t> longer = random_permutation(7, RandomStream(1, RandomPurpose::shuffle));
  const MnistTask foreign({.data = folder.path(), .permuted = true, .input_order = longer, .batch = 4});
  CHECK_THAT(error_message<FileError>([&] { foreign.load(); }), contains("images have 6 pixels"));
}

TEST_CASE("An MNIST task comes back from its config, and needs no data until a batch is asked for",
          "[mnist]") {
  const MnistTask task({.permuted = true, .permutation_seed = 77});
  const auto rebuilt = make_task(task.config(), {});
  CHECK(rebuilt->name() == "mnist");
  CHECK(rebuilt->config() == task.config());
  CHECK(rebuilt->length() == 784);
  CHECK(std::ranges::equal(rebuilt->input_order(), task.input_order()));
  CHECK(dynamic_cast<const Task&>(*rebuilt).data().classes == 10);

  Batch batch;
  CHECK_THAT(error_message<FileError>([&] { rebuilt->training_batch(0, batch); }),
             contains("no folder was given"));
  CHECK_THROWS_AS(rebuilt->load(), FileError);
  CHECK_THROWS_AS(rebuilt->evaluation_batches(HeldOut::test), FileError);
  CHECK_THROWS_AS(rebuilt->batches_per_epoch(), FileError);

  const auto sequential = make_task(R"({"task": "mnist"})", {});
  CHECK(sequential->input_order().empty());
  const Tensor<std::int32_t> order = random_permutation(784, RandomStream(1, RandomPurpose::shuffle));
  CHECK_THROWS_AS(make_task(R"({"task": "mnist"})", {.input_order = order}), ValueError);
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "mnist", "permuted": 1})", {}); }),
             contains("true or false"));
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "mnist", "permutation_seed": -1})", {}); }),
             contains("whole number from 0"));
}

TEST_CASE("MNIST files that are missing, damaged or do not fit are errors that name them", "[mnist]") {
  const TinyMnist folder;
  const auto message = [&] {
    return error_message<FileError>([&] { MnistTask({.data = folder.path(), .batch = 4}).load(); });
  };
  REQUIRE(message().empty());

  SECTION("missing") {
    std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
    CHECK_THAT(message(), contains(folder.path().string() + " has no file t10k-labels-idx1-ubyte"));
    CHECK_THAT(message(), contains("tools/fetch-data mnist"));
  }
  SECTION("truncated") {
    Bytes bytes = tiny_pixels(0, training_count);
    bytes.pop_back();
    write_plain(folder.path() / "train-images-idx3-ubyte", bytes);
    CHECK_THAT(message(),
               contains("train-images-idx3-ubyte: expected 120 bytes of data ([20, 2, 3]), found 119"));
  }
  SECTION("images where labels should be") {
    write_plain(folder.path() / "t10k-labels-idx1-ubyte", tiny_pixels(0, test_count));
    CHECK_THAT(message(), contains("t10k-labels-idx1-ubyte: expected the magic number 00 00 08 01"));
  }
  SECTION("fewer labels than images") {
    write_plain(folder.path() / "train-labels-idx1-ubyte", tiny_labels(0, training_count - 1));
    CHECK_THAT(message(), contains("has 20 images"));
    CHECK_THAT(message(), contains("has 19 labels"));
  }
  SECTION("a label beyond nine") {
    Bytes bytes = tiny_labels(0, training_count);
    bytes[8 + 13] = 10;
    write_plain(folder.path() / "train-labels-idx1-ubyte", bytes);
    CHECK_THAT(message(), contains("train-labels-idx1-ubyte: label 13 is 10, expected 0 to 9"));
  }
  SECTION("test images of another size") {
    write_plain(folder.path() / "t10k-images-idx3-ubyte",
                idx_bytes({test_count, 1, 3}, Bytes(3 * test_count)));
    CHECK_THAT(message(), contains("training images have 6 pixels and test images 3"));
  }
  SECTION("too few images for a batch") {
    const MnistTask task({.data = folder.path(), .batch = 21});
    CHECK_THAT(error_message<ValueError>([&] { task.load(); }),
               contains("only 19 images to train on, beside 1"));
  }
}

TEST_CASE("An MNIST task that could not load loads once the files are there", "[mnist]") {
  const TemporaryFolder folder;
  const MnistTask task({.data = folder.path(), .batch = 4});
  CHECK_THROWS_AS(task.load(), FileError);
  write_tiny_mnist(folder.path());
  CHECK_NOTHROW(task.load());
  CHECK(task.batches_per_epoch() == 4);
}

TEST_CASE("MNIST refills a batch in place", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 5});
  Batch batch;
  task.training_batch(0, batch);
  const float* memory = batch.reals(batch_names::features).data();
  task.evaluation_batch(HeldOut::test, 1, batch);  // of two images
  task.training_batch(9, batch);
  CHECK(batch.reals(batch_names::features).data() == memory);
}

TEST_CASE("MNIST scores digits named, and is solved with nearly all of them", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 4});
  Batch batch;
  task.training_batch(0, batch);
  Tensor<float> outputs(Shape{4, 10});
  for (Index b = 0; b < 4; ++b) outputs(b, batch.integers(batch_names::classes)(b)) = 1;
  CHECK(score_of(task, outputs, batch).right == 4);
  CHECK(score_of(task, outputs, batch).counted == 4);
  outputs(2, (batch.integers(batch_names::classes)(2) + 1) % 10) = 2;
  CHECK(score_of(task, outputs, batch).right == 3);
  CHECK_THROWS_AS(score_of(task, Tensor<float>(Shape{3, 10}), batch), ShapeError);

  const MnistTask permuted({.permuted = true});
  CHECK(task.solved({.loss = 0.1, .metrics = {{Metric::accuracy(), 0.981}}}));
  CHECK_FALSE(task.solved({.loss = 0.1, .metrics = {{Metric::accuracy(), 0.979}}}));
  CHECK_FALSE(task.solved({.loss = 0.1}));
  CHECK(permuted.solved({.loss = 0.1, .metrics = {{Metric::accuracy(), 0.951}}}));
  CHECK_FALSE(permuted.solved({.loss = 0.1, .metrics = {{Metric::accuracy(), 0.949}}}));
}

TEST_CASE("The real MNIST files read as they are distributed", "[mnist]") {
  const std::filesystem::path data = real_mnist();
  if (data.empty()) {
    WARN("skipped: no MNIST files; run tools/fetch-data mnist or name their folder in ORTHORNN_MNIST_DIR");
    return;
  }
  const MnistTask task({.data = data});
  CHECK(task.batches_per_epoch() == 429);
  CHECK(task.evaluation_batches(HeldOut::test) == 79);
  CHECK(task.evaluation_batches(HeldOut::validation) == 40);
  CHECK(task.length() == 784);

  std::array<double, 10> found{};
  double sum = 0;
  Index count = 0;
  std::vector<std::int32_t> first_labels;
  Batch batch;
  for (Index number = 0; number < 79; ++number) {
    task.evaluation_batch(HeldOut::test, number, batch);
    for (const float pixel : batch.reals(batch_names::features)) sum += pixel;
    for (const std::int32_t label : batch.integers(batch_names::classes))
      ++found[static_cast<std::size_t>(label)];
    if (number == 0)
      first_labels.assign(batch.integers(batch_names::classes).begin(),
                          batch.integers(batch_names::classes).begin() + 10);
    count += batch.integers(batch_names::classes).size();
  }
  CHECK(count == 10000);
  CHECK(first_labels == std::vector<std::int32_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  // The test set's mean pixel, as it is often published: 0.1325 (0.1307 for the training set).
  CHECK(std::abs(sum / 7840000 - 0.1325) < 5e-5);

  // Nobody who does not look at the image does better than the frequencies of the digits; ln 10 is close to
  // that.
  double entropy = 0;
  for (const double times : found) entropy -= times / 10000 * std::log(times / 10000);
  CHECK(task.baseline_loss() >= entropy);
  CHECK(task.baseline_loss() - entropy < 0.005);

  std::array<int, 10> trained{};
  for (std::uint64_t step = 0; step < 429; ++step) {
    task.training_batch(step, batch);
    for (const std::int32_t label : batch.integers(batch_names::classes))
      ++trained[static_cast<std::size_t>(label)];
  }
  Index held_out = 0;
  for (Index number = 0; number < 40; ++number) {
    task.evaluation_batch(HeldOut::validation, number, batch);
    for (const std::int32_t label : batch.integers(batch_names::classes))
      ++trained[static_cast<std::size_t>(label)];
    held_out += batch.integers(batch_names::classes).size();
  }
  CHECK(held_out == 5000);
  // 5923, 6742, .. images of each digit for training and validation, less the 88 that do not fill a batch.
  const std::array<int, 10> published{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
  for (std::size_t digit = 0; digit < 10; ++digit) {
    CHECK(trained[digit] <= published[digit]);
    CHECK(trained[digit] >= published[digit] - 88);
  }
}

TEST_CASE("The config of an MNIST task says that images are held out for validation", "[mnist]") {
  // A training begun before there were any would call images held out that it has trained on.
  const MnistTask task;
  CHECK_THAT(task.config(), contains("\"validation_share\":12"));
  CHECK(make_task(task.config(), {})->config() == task.config());
  CHECK(make_task(R"({"task": "mnist"})", {})->config() == task.config());
  CHECK_THROWS_WITH(make_task(R"({"task": "mnist", "validation_share": 6})", {}),
                    contains("'validation_share' is 6; expected 12"));
  CHECK_THROWS_WITH(MnistTask({.validation_share = 6}), contains("validation_share is 6; expected 12"));
}

TEST_CASE("An MNIST task knows its images by a checksum, and takes no others with a model's", "[mnist]") {
  const TinyMnist folder;
  const MnistTask task({.data = folder.path(), .batch = 4});
  const std::vector<TaskPart> parts = task.parts();
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].name == "data");
  CHECK_THAT(parts[0].bytes, contains("20 training images, CRC-32 ") && contains("7 test images, CRC-32 "));
  const auto message = [&](const std::vector<TaskPart>& of_model) {
    const auto same = make_task(task.config(), {.batch = 4, .data = folder.path(), .parts = of_model});
    return error_message<FileError>([&] { same->load(); });
  };
  CHECK(message(parts) == "");
  CHECK(message({}) == "");  // a model of an earlier version
  const std::vector<TaskPart> before = parts;
  SECTION("test images") {
    Bytes other = tiny_pixels(training_count, test_count);
    other.back() ^= 1;
    write_plain(folder / "t10k-images-idx3-ubyte", other);
  }
  SECTION("test labels") {
    write_plain(folder / "t10k-labels-idx1-ubyte", tiny_labels(training_count + 1, test_count));
  }
  SECTION("training images") {
    write_plain(folder / "train-images-idx3-ubyte", tiny_pixels(1, training_count));
  }
  SECTION("more training images") {
    write_plain(folder / "train-images-idx3-ubyte", tiny_pixels(0, training_count + 1));
    write_plain(folder / "train-labels-idx1-ubyte", tiny_labels(0, training_count + 1));
  }
  SECTION("images of another shape with the same bytes") {
    Bytes pixels = tiny_pixels(0, training_count);
    std::swap(pixels[11], pixels[15]);  // rows and columns
    write_plain(folder / "train-images-idx3-ubyte", pixels);
    pixels = tiny_pixels(training_count, test_count);
    std::swap(pixels[11], pixels[15]);
    write_plain(folder / "t10k-images-idx3-ubyte", pixels);
  }
  const std::string found = message(before);
  CHECK_THAT(found, contains(folder.path().string()) && contains("other images") &&
                        contains(before[0].bytes + " there"));
  CHECK(message({}) == "");
  CHECK((MnistTask({.data = folder.path(), .batch = 4}).parts() != before));
}

TEST_CASE("An MNIST task refuses parts that are no checksum", "[mnist]") {
  const auto message = [](const std::vector<TaskPart>& parts) {
    return error_message<ValueError>([&] { make_task(R"({"task": "mnist"})", {.parts = parts}); });
  };
  CHECK(message({{"data", "20 training images"}}) == "");
  CHECK_THAT(message({{"other", "20 training images"}}), contains("no part 'data'"));
  CHECK_THAT(message({{"data", ""}}), contains("'data' has 0 bytes"));
  CHECK_THAT(message({{"data", std::string(1000, 'a')}}), contains("'data' has 1000 bytes"));
  CHECK_THAT(message({{"data", "20\n"}}), contains("printable"));
}
