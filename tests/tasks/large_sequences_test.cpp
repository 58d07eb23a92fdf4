// Own sequences whose numbers stay in a file: as in memory to the bit, in little memory, and with errors
// where the file changes.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/crc32_of.hpp"
#include "io/npz_file.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/hdf5_edit.hpp"
#include "support/npz_writer.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/sequences/number_survey.hpp"
#include "tasks/sequences/stored_numbers.hpp"
#include "test_paths.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

namespace fs = std::filesystem;

/// Leaves arrays of more than so many bytes in their files while it lives.
class MemoryBound {
 public:
  explicit MemoryBound(Index bytes) { most_bytes_in_memory = bytes; }
  ~MemoryBound() { most_bytes_in_memory = before_; }
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;

 private:
  Index before_ = most_bytes_in_memory;
};

/// Sets a variable of the environment while it lives.
class TemporaryVariable {
 public:
  TemporaryVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~TemporaryVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

template <class T>
Tensor<T> drawn(const Shape& shape, std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::validation);
  Tensor<T> numbers(shape);
  for (T& x : numbers) x = static_cast<T>(random.integer(1000)) - static_cast<T>(500);
  return numbers;
}

using Sizes = std::vector<hsize_t>;

/// Datasets of an HDF5 file in the way that they lie there.
class Hdf5Arrays {
 public:
  explicit Hdf5Arrays(const fs::path& file) : file_(file) {
    Hdf5Writer writer;
    writer.commit(file);
  }
  template <class T>
  void contiguous(const char* name, hid_t type, const Tensor<T>& numbers) const {
    add(name, type, numbers, H5P_DEFAULT);
  }
  template <class T>
  void chunked(const char* name, hid_t type, const Tensor<T>& numbers, const Sizes& chunk,
               bool compressed = false) const {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    REQUIRE(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()) >= 0);
    if (compressed) REQUIRE((H5Pset_shuffle(properties) >= 0 && H5Pset_deflate(properties, 4) >= 0));
    add(name, type, numbers, properties);
    H5Pclose(properties);
  }

 private:
  template <class T>
  void add(const char* name, hid_t type, const Tensor<T>& numbers, hid_t properties) const {
    Hdf5Edit(file_).dataset(name, type, Sizes(numbers.shape().begin(), numbers.shape().end()), properties,
                            numbers.data());
  }
  fs::path file_;
};

/// All batches of a task: of three epochs, of steps out of order, and of the held-out data between them.
std::deque<Batch> batches_of(const Task& task) {
  std::deque<Batch> batches;
  const auto held_out = [&] {
    for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
      for (Index i = 0; i < task.evaluation_batches(set); ++i)
        task.evaluation_batch(set, i, batches.emplace_back());
    }
  };
  const auto epoch = static_cast<std::uint64_t>(*task.batches_per_epoch());
  for (std::uint64_t step = 0; step < 3 * epoch; ++step) {
    task.training_batch(step, batches.emplace_back());
    if (step == 1) held_out();
  }
  for (const std::uint64_t step : {epoch, epoch, epoch + 2, std::uint64_t{0}, 100 * epoch})
    task.training_batch(step, batches.emplace_back());
  return batches;
}

void check_same(const SequencesOptions& options, Index bound = 64) {
  const SequencesTask in_memory(options);
  const std::deque<Batch> expected = batches_of(in_memory);
  const MemoryBound all_in_files(bound);
  const SequencesTask in_file(options);
  const std::deque<Batch> found = batches_of(in_file);
  CAPTURE(options.data.string());
  CHECK(in_file.parts() == in_memory.parts());
  CHECK(in_file.baseline_loss() == in_memory.baseline_loss());
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    BatchShapes shapes;
    shapes.set(expected[i]);
    CAPTURE(i);
    REQUIRE(shapes.are_of(found[i]));
    for (const auto name : {batch_names::features, batch_names::values})
      CHECK(std::ranges::equal(found[i].reals(name), expected[i].reals(name)));
    for (const auto name : {batch_names::symbols, batch_names::lengths, batch_names::classes})
      CHECK(std::ranges::equal(found[i].integers(name), expected[i].integers(name)));
  }
}

}  // namespace

TEST_CASE("Batches from a file have the bits of batches from memory, however the numbers lie there",
          "[sequences]") {
  const TemporaryFolder folder;
  const auto inputs = drawn<float>({40, 5, 3}, 1);
  const auto wide = drawn<double>({40, 5, 3}, 2);
  const auto whole = drawn<std::int32_t>({40, 5, 3}, 3);
  auto classes = drawn<std::int32_t>({40, 5}, 4);
  for (std::int32_t& c : classes) c = std::abs(c) % 3;
  const auto values = drawn<float>({40, 5, 2}, 5);
  const auto check = [&](const char* name, const auto& add) {
    const fs::path file = folder / name;
    const Hdf5Arrays arrays(file);
    add(arrays);
    check_same({.data = file, .batch = 4});
  };
  check("plain.h5", [&](const Hdf5Arrays& to) {
    to.contiguous("inputs", H5T_IEEE_F32LE, inputs);
    to.contiguous("targets", H5T_STD_I32LE, classes);
  });
  // The second number of chunks does not divide the steps.
  check("chunks.h5", [&](const Hdf5Arrays& to) {
    to.chunked("inputs", H5T_IEEE_F32LE, inputs, {7, 2, 3});
    to.chunked("targets", H5T_STD_I32LE, classes, {3, 5});
  });
  check("wide.h5", [&](const Hdf5Arrays& to) {
    to.contiguous("inputs", H5T_IEEE_F64LE, wide);
    to.contiguous("targets", H5T_IEEE_F32LE, values);
  });
  check("whole.h5", [&](const Hdf5Arrays& to) {
    to.contiguous("inputs", H5T_STD_I32LE, whole);
    to.chunked("targets", H5T_IEEE_F32LE, values, {40, 5, 1});
  });
  write_npz(folder / "own.npz", {{"inputs", npy("<f4", "40, 5, 3", raw_bytes(inputs))},
                                 {"targets", npy("<i4", "40, 5", raw_bytes(classes))}});
  check_same({.data = folder / "own.npz", .batch = 4});
  // Compressed, by rows of chunks.
  check("gzip.h5", [&](const Hdf5Arrays& to) {
    to.chunked("inputs", H5T_IEEE_F64LE, wide, {7, 2, 3}, /*compressed=*/true);
    to.chunked("targets", H5T_STD_I32LE, classes, {3, 5}, /*compressed=*/true);
  });
}

TEST_CASE("Numbers of an archive that are not compressed stay there", "[sequences]") {
  const TemporaryFolder folder;
  NpzWriter writer("");
  writer.dataset("inputs", drawn<float>({40, 5, 3}, 1));
  auto classes = drawn<std::int32_t>({40}, 2);
  for (std::int32_t& c : classes) c = std::abs(c) % 3;
  writer.dataset("targets", classes);
  writer.commit(folder / "own.npz");
  check_same({.data = folder / "own.npz", .batch = 4});
  const TemporaryVariable none("TMPDIR", (folder / "none").string());
  const MemoryBound all_in_files(64);
  const SequencesTask task({.data = folder / "own.npz", .batch = 4});
  Batch batch;
  task.training_batch(0, batch);
  // It must stay as it is.
  fs::last_write_time(folder / "own.npz", fs::last_write_time(folder / "own.npz") + std::chrono::seconds(1));
  CHECK_THAT(error_message<FileError>([&] { task.evaluation_batch(HeldOut::test, 0, batch); }),
             contains("own.npz: it has changed"));
}

TEST_CASE("An array that its archive claims and the file has not is refused before it takes memory",
          "[sequences][npz]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  // A header [260000000, 1] and no number, not compressed, with sizes that fit the header.
  const std::string seed = read_text(ORTHORNN_SOURCE_DIR "/tests/fuzz/corpus/sequences/claimed.bin");
  write_text(file, seed.substr(1));
  const auto of_place = [&] {
    return error_message<FileError>([&] { place_in_npz<float>(file, "inputs"); });
  };
  CHECK_THAT(of_place(), contains("(inputs)") && contains("cut short"));
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = file}).load(); }),
             contains("(inputs)") && contains("cut short"));
  // The packed size alone is that of the file.
  change_directory(
      file, [](std::string& bytes, std::size_t place) { bytes.replace(place + 20, 4, "\x50\0\0\0", 4); });
  CHECK_THAT(of_place(), contains("cut short"));
}

TEST_CASE("A place is not taken for one in a file that has come to the same path", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = write_text(folder / "own", "numbers");
  const NumberFile numbers(file);
  numbers.check_is(file);
  // As long, and written at the same time.
  write_text(folder / "other", "Numbers");
  fs::last_write_time(folder / "other", fs::last_write_time(file));
  fs::rename(folder / "other", file);
  CHECK_THAT(error_message<FileError>([&] { numbers.check_is(file); }), contains("has changed"));
  char first = 0;
  numbers.read(0, 1, &first);
  CHECK(first == 'n');
  fs::remove(file);
  CHECK_THROWS_AS(numbers.check_is(file), FileError);
}

TEST_CASE("So have forecasts, and sequences of different lengths", "[sequences]") {
  const TemporaryFolder folder;
  Tensor<std::int32_t> lengths(Shape{40});
  Index steps = 0;
  for (Index i = 0; i < 40; ++i) steps += lengths(i) = static_cast<std::int32_t>(3 + i % 4);
  auto inputs = drawn<float>({steps, 2}, 1);
  auto symbols = drawn<std::int32_t>({steps}, 2);
  for (std::int32_t& s : symbols) s = std::abs(s) % 5;
  const fs::path numbers = folder / "numbers.h5", words = folder / "words.h5";
  const Hdf5Arrays to_numbers(numbers), to_words(words);
  for (const Hdf5Arrays* to : {&to_numbers, &to_words}) to->contiguous("lengths", H5T_STD_I32LE, lengths);
  to_numbers.contiguous("inputs", H5T_IEEE_F32LE, inputs);
  to_numbers.contiguous("targets", H5T_IEEE_F32LE, drawn<float>({steps, 1}, 3));
  to_words.contiguous("symbols", H5T_STD_I32LE, symbols);
  check_same({.data = numbers, .batch = 4}, 16);
  check_same({.data = numbers, .goal = Goal::forecast, .ahead = 2, .batch = 4});
  check_same({.data = words, .goal = Goal::forecast, .batch = 4});
  inputs(7, 1) = std::numeric_limits<float>::quiet_NaN();
  to_numbers.contiguous("inputs", H5T_IEEE_F32LE, inputs);
  check_same({.data = numbers, .missing = Missing::mask, .batch = 4});
}

TEST_CASE("Numbers of a file that cannot be learned are refused by their place", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.h5";
  const Hdf5Arrays arrays(file);
  auto inputs = drawn<float>({40, 5, 3}, 1);
  inputs(31, 4, 2) = std::numeric_limits<float>::infinity();
  arrays.contiguous("inputs", H5T_IEEE_F32LE, inputs);
  const MemoryBound all_in_files(64);
  const auto message = [&](const SequencesOptions& options) {
    return error_message<FileError>([&] { SequencesTask(options).load(); });
  };
  CHECK_THAT(message({.data = file, .goal = Goal::forecast, .batch = 4}),
             contains("own.h5: sequence 31: input 2 of step 4 is infinite"));
  Tensor<std::int32_t> symbols(Shape{40, 5});
  symbols(12, 3) = -7;
  Hdf5Edit(file).remove("inputs");
  arrays.contiguous("symbols", H5T_STD_I32LE, symbols);
  CHECK_THAT(message({.data = file, .goal = Goal::forecast, .batch = 4}),
             contains("own.h5: sequence 12: step 3 is symbol -7"));
}

TEST_CASE("A file that changes while it is learned is an error, not a crash", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.h5";
  const Hdf5Arrays arrays(file);
  arrays.contiguous("inputs", H5T_IEEE_F32LE, drawn<float>({400, 5, 3}, 1));
  const MemoryBound all_in_files(64);
  const SequencesTask task({.data = file, .goal = Goal::forecast, .batch = 4});
  Batch batch;
  task.training_batch(0, batch);
  SECTION("It was written to") {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  }
  SECTION("It was cut off") { fs::resize_file(file, fs::file_size(file) - 400 * 5 * 3 * 2); }
  // Batches that the thread has assembled before are sound.
  std::uint64_t step = 1;
  const std::string message = error_message<FileError>([&] {
    for (; step < 20; ++step) task.training_batch(step, batch);
  });
  CHECK_THAT(message, contains("own.h5: it has changed since it was opened"));
  CHECK(step < 5);
  CHECK_THAT(error_message<FileError>([&] { task.training_batch(step, batch); }), contains("own.h5"));
  CHECK_THAT(error_message<FileError>([&] { task.evaluation_batch(HeldOut::test, 0, batch); }),
             contains("own.h5"));
}

TEST_CASE("A class that came into a file after it was looked at has no weight of its own",
          "[sequences][weights]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  auto classes = drawn<std::int32_t>({40}, 2);
  for (std::int32_t& c : classes) c = std::abs(c) % 3;
  NpzWriter writer("");
  writer.dataset("inputs", drawn<float>({40, 5, 3}, 1));
  writer.dataset("targets", classes);
  writer.commit(file);
  const MemoryBound all_in_files(64);
  const SequencesTask task({.data = file, .class_weights = "balanced", .batch = 4});
  task.load();
  // The file is as long, and says to be as old.
  const auto time = fs::last_write_time(file);
  std::string bytes = read_text(file);
  const std::size_t place = bytes.find(raw_bytes(classes));
  REQUIRE(place != std::string::npos);
  for (Index i = 0; i < 40; ++i)
    bytes.replace(place + 4 * static_cast<std::size_t>(i), 4, "\xff\xff\xff\x7f");
  write_text(file, bytes);
  fs::last_write_time(file, time);
  Batch batch;
  task.evaluation_batch(HeldOut::test, 0, batch);
  for (const float weight : std::as_const(batch).reals(batch_names::weights)) CHECK(weight == 1);
}

TEST_CASE("A temporary file goes to TMPDIR, and where none can be made this is said", "[sequences]") {
  const TemporaryFolder folder;
  const auto inputs = drawn<float>({40, 5, 3}, 1);
  write_npz(folder / "own.npz", {{"inputs", npy("<f4", "40, 5, 3", raw_bytes(inputs))}});
  const MemoryBound all_in_files(64);
  const SequencesTask task({.data = folder / "own.npz", .goal = Goal::forecast, .batch = 4});
  const TemporaryVariable none("TMPDIR", (folder / "none").string());
  const std::string refused = error_message<FileError>([&] { task.load(); });
  fs::create_directory(folder / "none");
  CHECK(error_message<FileError>([&] { task.load(); }).empty());
  CHECK_THAT(refused, contains("own.npz"));
  CHECK_THAT(refused, contains("TMPDIR"));
  CHECK(fs::is_empty(folder / "none"));  // it has no name
}

TEST_CASE("What is found of all numbers does not depend on threads, and is exact far from 0", "[sequences]") {
  // More than a block of rows for each of three threads.
  constexpr Index rows = 400'000, columns = 3, length = 1000;
  RandomStream random(1, RandomPurpose::validation);
  Tensor<float> numbers(Shape{rows, columns});
  for (Index row = 0; row < rows; ++row) {
    numbers(row, 0) = 1e6F + static_cast<float>(random.integer(64)) / 16;
    numbers(row, 1) = row % 7 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                   : static_cast<float>(random.uniform(-3e4, -3e4 + 1));
    numbers(row, 2) = 0.1F;
  }
  std::vector<bool> is_training(rows / length);
  std::vector<Index> starts = {0};
  for (std::size_t i = 0; i < is_training.size(); ++i) {
    is_training[i] = i % 5 != 3;
    starts.push_back(starts.back() + length);
  }
  const TrainingRows training{is_training, &starts, 10};
  const auto survey_with = [&](int threads) {
    const Threads several(threads);
    return survey(StoredNumbers<float>(numbers), columns, training, true);
  };
  const FoundReals found = survey_with(1), of_three = survey_with(3);
  CHECK(found.checksum == crc32_of(numbers.data(), static_cast<std::size_t>(numbers.size()) * 4));
  CHECK(found.checksum == of_three.checksum);
  CHECK(found.has_missing);
  CHECK_FALSE(found.has_infinite);
  for (Index k = 0; k < columns; ++k) {
    for (const bool is_head : {false, true}) {
      const auto column = static_cast<std::size_t>(k);
      const ColumnSums& sums = (is_head ? found.heads : found.targets)[column];
      const ColumnSums& same = (is_head ? of_three.heads : of_three.targets)[column];
      CHECK(sums.mean == same.mean);
      CHECK(sums.square == same.square);
      // In two passes, in a wider type.
      long double sum = 0, square = 0;
      Index count = 0;
      const auto each = [&](const auto& visit) {
        for (Index row = 0; row < rows; ++row) {
          const bool counts = is_training[static_cast<std::size_t>(row / length)] &&
                              (row % length < 10) == is_head && !std::isnan(numbers(row, k));
          if (counts) visit(static_cast<long double>(numbers(row, k)));
        }
      };
      each([&](long double x) { sum += x, ++count; });
      const long double mean = sum / static_cast<long double>(count);
      each([&](long double x) { square += (x - mean) * (x - mean); });
      CAPTURE(k, is_head);
      CHECK(sums.count == count);
      CHECK(std::abs(sums.mean - static_cast<double>(mean)) <= 1e-15 * std::abs(sums.mean));
      const auto deviation = static_cast<double>(std::sqrt(square / static_cast<long double>(count)));
      if (k < 2) CHECK(std::abs(sums.deviation() / deviation - 1) < 1e-12);
      if (k == 2) CHECK(sums.deviation() == 0);
    }
  }
}

TEST_CASE("Symbols are counted alike by any number of threads", "[sequences]") {
  constexpr Index rows = 1'000'000;
  auto symbols = drawn<std::int32_t>({rows}, 1);
  std::vector<Index> counts(7);
  std::vector<bool> is_training(rows);
  for (Index i = 0; i < rows; ++i) {
    symbols(i) = std::abs(symbols(i)) % 7;
    is_training[static_cast<std::size_t>(i)] = symbols(i) < 5 && i % 3 > 0;
    if (is_training[static_cast<std::size_t>(i)]) ++counts[static_cast<std::size_t>(symbols(i))];
  }
  counts.resize(5);
  for (const int threads : {1, 3}) {
    const Threads several(threads);
    const FoundIntegers found = survey(StoredNumbers<std::int32_t>(symbols), TrainingRows{is_training}, true);
    CHECK(found.largest == 6);
    CHECK(found.largest_to_train == 4);
    CHECK(found.smallest == 0);
    CHECK(found.counts == counts);
    CHECK(found.checksum == crc32_of(symbols.data(), rows * 4));
  }
  symbols(rows - 1) = 1 << 24;
  // Of more numbers than any model has, the largest is found, so that it can be told.
  CHECK(survey(StoredNumbers<std::int32_t>(symbols), TrainingRows{is_training}, false).largest == 1 << 24);
}
