#include "orthornn/tasks/sequences_task.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/npz_file.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/zip_writer.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

namespace fs = std::filesystem;

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

fs::path file_with(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

/// Twenty sequences of two steps: x of step t is 100 i + t, and the class is i modulo 2.
struct Expected {
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  Expected() {
    for (int i = 0; i < 20; ++i) {
      for (int t = 0; t < 2; ++t) inputs.push_back(static_cast<float>(100 * i + t));
      targets.push_back(i % 2);
    }
  }
};

/// All sequences of the task, by their first number.
std::map<int, int> classes_of(const SequencesTask& task) {
  std::map<int, int> found;
  Batch batch;
  const auto add = [&] {
    const auto x = std::as_const(batch).reals(batch_names::features);
    const auto classes = std::as_const(batch).integers(batch_names::classes);
    for (Index b = 0; b < classes.size(); ++b) {
      CHECK(x(1, b, 0) == x(0, b, 0) + 1);
      found[static_cast<int>(x(0, b, 0))] = classes(b);
    }
  };
  for (Index i = 0; i < *task.batches_per_epoch(); ++i) {
    task.training_batch(static_cast<std::uint64_t>(i), batch);
    add();
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    task.evaluation_batch(set, 0, batch);
    add();
  }
  return found;
}

void check_twenty(const SequencesTask& task) {
  std::map<int, int> expected;
  for (int i = 0; i < 20; ++i) expected[100 * i] = i % 2;
  CHECK(classes_of(task) == expected);
  CHECK(task.data().features == 1);
  CHECK(task.data().classes == 2);
}

SequencesOptions options_for(const fs::path& file) {
  return {.data = file, .normalization = Normalization::none, .batch = 4};
}

/// What is said of a CSV file.
std::string csv_error(const std::string& text, SequencesOptions options = {.batch = 1}) {
  const TemporaryFolder folder;
  options.data = file_with(folder / "own.csv", text);
  return error_message<Error>([&] { SequencesTask(options).load(); });
}

}  // namespace

TEST_CASE("The same sequences are read from HDF5, npz and both forms of CSV", "[sequences]") {
  const TemporaryFolder folder;
  const Expected expected;
  {
    Hdf5Writer writer;
    writer.dataset("inputs", ConstTensorView<float>(expected.inputs.data(), {20, 2, 1}));
    writer.dataset("targets", ConstTensorView<std::int64_t>(expected.targets.data(), {20}));
    writer.commit(folder / "own.h5");
  }
  write_npz(folder / "own.npz", {{"inputs", npy("<f4", "20, 2", raw_bytes(expected.inputs))},
                                 {"targets", npy("<i8", "20,", raw_bytes(expected.targets))}});
  std::string wide = "a,b,label\r\n", tall = "x,series,target\n";
  for (int i = 0; i < 20; ++i) {
    wide += std::to_string(100 * i) + "," + std::to_string(100 * i + 1) + "," +
            (i % 2 ? "\"o,dd\"" : "even") + "\r\n";
  }
  // The steps of sequences come in turn.
  for (int t = 0; t < 2; ++t) {
    for (int i = 0; i < 20; ++i)
      tall += std::to_string(100 * i + t) + ",s" + std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  }
  SequencesOptions of_wide = options_for(file_with(folder / "wide.csv", wide));
  of_wide.target = "label";
  SequencesOptions of_tall = options_for(file_with(folder / "tall.csv", tall));
  of_tall.id = "series";

  check_twenty(SequencesTask(options_for(folder / "own.h5")));
  check_twenty(SequencesTask(options_for(folder / "own.npz")));
  check_twenty(SequencesTask(of_tall));
  const SequencesTask named(of_wide);
  check_twenty(named);
  CHECK(named.class_names() == std::vector<std::string>{"even", "o,dd"});
}

TEST_CASE("Sequences of different lengths and symbols are read from arrays", "[sequences]") {
  const TemporaryFolder folder;
  std::vector<std::int32_t> lengths, symbols;
  for (int i = 0; i < 12; ++i) {
    lengths.push_back(2 + i % 2);
    for (int t = 0; t < lengths.back(); ++t) symbols.push_back(t);
  }
  write_npz(folder / "own.npz", {{"symbols", npy("<i4", "30,", raw_bytes(symbols))},
                                 {"lengths", npy("<i4", "12,", raw_bytes(lengths))}});
  const SequencesTask task({.data = folder / "own.npz", .goal = Goal::forecast, .batch = 2});
  task.load();
  CHECK(task.data().symbols == 3);
  CHECK(task.data().classes == 3);
  CHECK(task.length() == 2);
  Batch batch;
  task.evaluation_batch(HeldOut::test, 0, batch);
  CHECK(batch.integers(batch_names::symbols)(0, 0) == 0);
  CHECK(batch.integers(batch_names::classes)(0, 0) == 1);
}

TEST_CASE("A task of a file is made again from config and parts, and needs no data to normalize",
          "[sequences]") {
  const TemporaryFolder folder;
  std::string text = "x,target\n";
  for (int i = 0; i < 30; ++i) text += std::to_string(i) + "," + std::to_string(0.5 * i) + "\n";
  const fs::path file = file_with(folder / "own.csv", text);
  const SequencesTask task({.data = file, .batch = 4});
  task.load();
  CHECK(task.data().values == 1);
  const TaskSource source{.batch = 4, .seed = 1, .parts = task.parts()};
  const auto again = make_task(task.config(), source);
  CHECK(again->config() == task.config());
  CHECK(again->data().values == 1);
  Tensor<float> x(Shape{1, 1});
  x(0, 0) = 3;
  CHECK(again->own_features(x)(0, 0) == task.own_features(x)(0, 0));
  Tensor<float> y(Shape{1, 1});
  again->restore_outputs(y.view());
  CHECK(y(0, 0) == task.statistics().values.shift[0]);
  // Another text is not what the model was trained with.
  TaskSource other = source;
  other.data = file_with(folder / "other.csv", text + "30,15\n");
  CHECK_THAT(error_message<FileError>([&] { make_task(task.config(), other)->load(); }),
             contains("other data than those that the model was trained with"));
  TaskSource damaged = source;
  damaged.parts[0].bytes = R"({"features": {"shift": [1], "divisor": [0]}})";
  CHECK_THAT(error_message<ValueError>([&] { make_task(task.config(), damaged); }), contains("statistics"));
}

TEST_CASE("A CSV that cannot be read is refused by row and column", "[sequences]") {
  CHECK_THAT(csv_error(""), contains("it is empty"));
  CHECK_THAT(csv_error("x,target\n"), contains("no rows beside its header"));
  CHECK_THAT(csv_error("x,target\n1,0\n2,1,5\n"), contains("row 3: it has 3 cells; expected 2"));
  CHECK_THAT(csv_error("x,target\n1,0\none,1\n"), contains("row 3, column 'x': 'one' is no finite number"));
  CHECK_THAT(csv_error("x,target\n1,0\ninf,1\n"), contains("row 3, column 'x'"));
  CHECK_THAT(csv_error("x,y\n1,0\n"), contains("--target names the column 'target'; it has 2 columns: x, y"));
  CHECK_THAT(csv_error("x,target\n\"1,0\n"), contains("row 2: a quotation mark is not closed"));
  CHECK_THAT(csv_error("x,target\n1,caf\xe9\n"), contains("row 2: it is no text in UTF-8"));
  CHECK_THAT(csv_error(std::string("x,target\n1\0,0\n", 14)), contains("row 2: it is no text in UTF-8"));
  CHECK_THAT(csv_error("x,target\n1,0\n,1\n2,0\n", {.batch = 1}),
             contains("row 3, column 'x': it is missing; expected a number, or --missing zero or mask"));
  CHECK_THAT(csv_error("x,s\n1,a\nNA,a\n", {.goal = Goal::forecast, .id = "s", .missing = Missing::zero}),
             contains("row 3, column 'x': it is missing; expected a number, as a forecast"));
  CHECK_THAT(csv_error("x,target\n1,0\n2,\n3,1\n"),
             contains("row 3, column 'target': the class is missing; expected one for each sequence"));
  CHECK_THAT(csv_error("x,target\n1,0.5\n2,nan\n3,1\n"),
             contains("row 3, column 'target': it is missing; expected a number"));
  CHECK_THAT(csv_error("x,s,target\n1,a,0\n2,a,1\n", {.id = "s", .batch = 1}),
             contains("row 3, column 'target': it differs from row 2 of the same sequence"));
  CHECK_THAT(csv_error("x,target\n1,a\n", {.goal = Goal::values, .batch = 1}),
             contains("row 2, column 'target': 'a' is no finite number; expected a number for --goal value"));
  CHECK_THAT(csv_error("x,s,target\n1,a,5\n2,b,none\n", {.goal = Goal::values, .id = "s", .batch = 1}),
             contains("row 3, column 'target': 'none'"));
  CHECK_THAT(csv_error("x,target\n1,0\n", {.goal = Goal::step_classes, .batch = 1}), contains("need --id"));
}

TEST_CASE("Arrays that cannot be read are refused by name", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  const auto message = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    write_npz(file, members);
    return error_message<Error>([&] { SequencesTask({.data = file, .batch = 1}).load(); });
  };
  const std::string inputs = npy("<f4", "3, 2", raw_bytes(std::vector<float>(6)));
  CHECK_THAT(message({{"targets", inputs}}), contains("expected an array 'inputs' or an array 'symbols'"));
  CHECK_THAT(message({{"inputs", inputs}}), contains("no array 'targets'"));
  CHECK_THAT(message({{"inputs", inputs},
                      {"targets", npy("<i4", "3,", raw_bytes(std::vector<std::int32_t>{0, -1, 1}))}}),
             contains("own.npz: sequence 1: its class is -1"));
  CHECK_THAT(message({{"inputs", inputs},
                      {"targets", npy("<f4", "3,", raw_bytes(std::vector<float>{0, missing, 1}))}}),
             contains("own.npz: sequence 1: target 0 is missing"));
  CHECK_THAT(message({{"inputs", npy("<f4", "3, 2", raw_bytes(std::vector<float>{0, 0, 0, missing, 0, 0}))},
                      {"targets", npy("<i4", "3,", raw_bytes(std::vector<std::int32_t>{0, 1, 1}))}}),
             contains("own.npz: sequence 1: input 0 of step 1 is missing"));
  CHECK_THAT(
      message({{"inputs", inputs}, {"lengths", npy("<i4", "1,", raw_bytes(std::vector<std::int32_t>{6}))}}),
      contains("'inputs' has shape [3, 2]") || contains("lengths are 6 steps in all, and there are 3"));
  CHECK_THAT(message({{"inputs", npy("<f4", "0, 2", "")}, {"targets", npy("<i4", "0,", "")}}),
             contains("at least one number"));
  CHECK_THAT(
      message({{"inputs", inputs}, {"targets", npy("<i4", "2,", raw_bytes(std::vector<std::int32_t>(2)))}}),
      contains("'targets' has shape [2]"));
  CHECK_THAT(message({{"inputs", npy("|O", "1,", "\x80\x04N.")}}), contains("pickle"));
  CHECK_THAT(message({{"inputs", npy("<f4", "1000000000000, 8", "")}}), contains("does not fit"));
  CHECK_THAT(message({{"inputs", npy("<f4", "99999999999999999999,", "")}}),
             contains("larger than any memory"));
  CHECK_THAT(message({{"inputs", npy("<f4", "1, 2", raw_bytes(std::vector<float>(2)), "True")}}),
             contains("Fortran order"));
  CHECK_THAT(message({{"inputs", npy("<c8", "1,", "01234567")}}), contains("its type is '<c8'"));
  CHECK_THAT(message({{"inputs", "\x93NUMPY"}}), contains("no array of NumPy"));
  file_with(file, "PK\x03\x04 and no more");
  CHECK_THAT(error_message<FileError>([&] { read_npz(file, {"inputs"}); }), contains("no .npz file"));
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.dat"}).load(); }),
             contains("no such file"));
  file_with(folder / "own.dat", "a");
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.dat"}).load(); }),
             contains(".h5, .hdf5, .npz, .csv or .txt"));
}

TEST_CASE("NumPy arrays are read in both byte orders", "[sequences]") {
  const auto array = [](const std::string& text) { return parse_npy("own", {text.begin(), text.end()}); };
  const NumpyArray big = array(npy(">i2", "2,", std::string("\x01\x02\xff\xff", 4)));
  CHECK(big.is_integer);
  CHECK(big.integers(0) == 258);
  CHECK(big.integers(1) == -1);
  CHECK(array(npy(">f8", "1,", std::string("\x3f\xf0\0\0\0\0\0\0", 8))).reals(0) == 1);
  CHECK(array(npy("|b1", "2,", std::string("\x01\0", 2))).integers(0) == 1);
  CHECK(array(npy(">u8", "1,", std::string("\0\0\0\0\0\0\x01\x02", 8))).integers(0) == 258);
  CHECK_THAT(error_message<FileError>([&] { array(npy(">u8", "1,", std::string("\xff\0\0\0\0\0\0\0", 8))); }),
             contains("2^63 or more"));
}

TEST_CASE("An archive that says to inflate to far more than it is, is refused", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "own.npz";
  const std::string zeros(std::size_t{1} << 24, '\0');
  const auto message = [&](std::uint64_t size) {
    write_npz(file, {{"inputs", npy("|u1", "4096, 4096", zeros)}});
    change_directory(file, [&](std::string& bytes, std::size_t place) {
      for (std::size_t i = 0; i < 4; ++i) bytes[place + 24 + i] = static_cast<char>(size >> (8 * i));
    });
    return error_message<FileError>([&] { SequencesTask({.data = file}).load(); });
  };
  CHECK_THAT(message(std::uint64_t{3} << 30), contains("(inputs)") && contains("zip bomb"));
  // What has another name is not inflated.
  write_npz(file, {{"other", npy("|u1", "1000000,", "damaged")}});
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = file}).load(); }),
             contains("expected an array 'inputs'"));
}

TEST_CASE("A step of a CSV without a class does not count", "[sequences]") {
  const TemporaryFolder folder;
  std::string text = "x,series,target\n";
  for (int i = 0; i < 20; ++i) {
    // The second step has none, and -1 is a class as any other.
    for (int t = 0; t < 3; ++t)
      text += fmt::format("{},{},{}\n", i, i, t == 1 ? (i % 2 == 0 ? "" : "NA") : i % 2 == 0 ? "-1" : "1");
  }
  const SequencesTask task({.data = file_with(folder / "own.csv", text),
                            .goal = Goal::step_classes,
                            .id = "series",
                            .normalization = Normalization::none,
                            .batch = 16});
  task.load();
  CHECK(task.class_names() == std::vector<std::string>{"-1", "1"});
  Batch batch;
  task.training_batch(0, batch);
  const auto classes = std::as_const(batch).integers(batch_names::classes);
  REQUIRE(classes.shape() == Shape{3, 16});
  for (Index b = 0; b < 16; ++b) {
    const int odd = static_cast<int>(std::as_const(batch).reals(batch_names::features)(0, b, 0)) % 2;
    CHECK(classes(0, b) == odd);
    CHECK(classes(1, b) == -1);
    CHECK(classes(2, b) == odd);
  }
  // Of the three metrics, each has counted two steps of the two test sequences.
  Tensor<float> outputs(Shape{3, 2, 2});
  task.evaluation_batch(HeldOut::test, 0, batch);
  Tensor<double> sums(task.counters());
  task.count_metrics(outputs, batch, sums);
  CHECK(sums(0, 1) + sums(1, 1) == 4);
}

TEST_CASE("Validation and test sequences are read from files of their own", "[sequences]") {
  const TemporaryFolder folder;
  const auto rows = [&](const char* name, int first, int last, const std::string& more = "") {
    std::string text = "x,y,kind\n";
    for (int i = first; i < last; ++i)
      text += fmt::format("{},{},{}\n", i, i + 1, i % 2 == 0 ? "even" : "odd");
    return file_with(folder / name, text + more);
  };
  const SequencesOptions options{.data = rows("training.csv", 0, 10),
                                 .validation_data = rows("validation.csv", 10, 13),
                                 .test_data = rows("test.csv", 13, 15),
                                 .target = "kind",
                                 .normalization = Normalization::range,
                                 .batch = 5};
  const SequencesTask task(options);
  task.load();
  CHECK(task.batches_per_epoch() == 2);
  Batch batch;
  task.evaluation_batch(HeldOut::validation, 0, batch);
  // Normalized by the training data alone, whose numbers are 0 to 10.
  CHECK(std::as_const(batch).reals(batch_names::features)(0, 2, 0) == 1.2F);
  CHECK(std::as_const(batch).integers(batch_names::classes)(1) == 1);
  task.evaluation_batch(HeldOut::test, 0, batch);
  CHECK(std::as_const(batch).reals(batch_names::features).shape() == Shape{2, 2, 1});
  REQUIRE(task.parts().size() == 4);
  CHECK(task.parts()[2].name == "validation");
  CHECK(task.parts()[3].name == "test");

  const auto message = [](const SequencesOptions& changed) {
    return error_message<Error>([&] { SequencesTask(changed).load(); });
  };
  SequencesOptions changed = options;
  changed.validation_data = rows("new_class.csv", 10, 12, "1,2,prime\n");
  CHECK_THAT(message(changed),
             contains("new_class.csv: row 4, column 'kind': the class 'prime' is not among the 2 classes"));
  changed.validation_data = file_with(folder / "swapped.csv", "y,x,kind\n1,2,odd\n");
  CHECK_THAT(message(changed), contains("swapped.csv: it has the columns y, x; expected the columns x, y"));
  changed.validation_data = file_with(folder / "text.csv", "x,y,kind\n1,two,odd\n");
  CHECK_THAT(message(changed), contains("text.csv: row 2, column 'y': 'two'"));
  changed.validation_data = folder / "none.csv";
  CHECK_THAT(message(changed), contains("none.csv: there is no such file"));
  // One file alone: the other part is drawn.
  changed.validation_data = "";
  const SequencesTask drawn(changed);
  drawn.load();
  drawn.evaluation_batch(HeldOut::validation, 0, batch);
  CHECK(std::as_const(batch).integers(batch_names::classes).size() == 1);

  // A model knows all three, and which of them were files.
  SequencesOptions again = options;
  again.parts = task.parts();
  SequencesTask(again).load();
  again.test_data = rows("test.csv", 13, 16);
  CHECK_THAT(message(again), contains("test.csv has other data") && contains("by --test"));
  again.test_data = "";
  CHECK_THAT(message(again), contains("needs its test data") && contains("by --test"));
  again = changed;
  again.parts = drawn.parts();
  again.validation_data = options.validation_data;
  CHECK_THAT(message(again), contains("leave out --validation"));
}

TEST_CASE("Arrays of held-out files are refused by file, sequence and number", "[sequences]") {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, const std::vector<std::int32_t>& symbols) {
    write_npz(folder / name,
              {{"symbols", npy("<i4", fmt::format("{}, 2", symbols.size() / 2), raw_bytes(symbols))}});
    return folder / name;
  };
  SequencesOptions options{.data = file("training.npz", {0, 3, 3, 0, 0, 0}),
                           .validation_data = file("validation.npz", {3, 3}),
                           .test_data = file("test.npz", {0, 0, 3, 1}),
                           .goal = Goal::forecast,
                           .batch = 1};
  CHECK_THAT(error_message<Error>([&] { SequencesTask(options).load(); }),
             contains("test.npz: sequence 1: step 1 is symbol 1, which no training sequence has"));
  options.test_data = file("test.npz", {0, 0});
  SequencesTask(options).load();
  write_npz(folder / "test.npz", {{"inputs", npy("<f4", "1, 2", raw_bytes(std::vector<float>(2)))}});
  CHECK_THAT(error_message<Error>([&] { SequencesTask(options).load(); }),
             contains("test.npz: it has 1 numbers a step as its inputs; expected symbols"));
}

TEST_CASE("Compressed and big-endian HDF5 files of other programs are read", "[sequences]") {
  const TemporaryFolder folder;
  const Expected expected;
  const fs::path file = folder / "own.h5";
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto add = [&](const char* name, hid_t type, hid_t memory_type, std::vector<hsize_t> sizes,
                       const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    std::ranges::fill(sizes, 2);
    H5Pset_chunk(properties, static_cast<int>(sizes.size()), sizes.data());
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 9);
    const hid_t dataset = H5Dcreate2(id, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    REQUIRE(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  };
  add("inputs", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {20, 2}, expected.inputs.data());
  add("targets", H5T_STD_I16BE, H5T_NATIVE_INT64, {20}, expected.targets.data());
  H5Fclose(id);
  check_twenty(SequencesTask(options_for(file)));
}

namespace {

/// The symbols of the training batch 0, stream after stream.
std::vector<std::int32_t> first_symbols(const SequencesTask& task) {
  Batch batch;
  task.training_batch(0, batch);
  const auto symbols = std::as_const(batch).integers(batch_names::symbols);
  std::vector<std::int32_t> result;
  for (Index b = 0; b < symbols.shape()[1]; ++b) {
    for (Index t = 0; t < symbols.shape()[0]; ++t) result.push_back(symbols(t, b));
  }
  return result;
}

/// Ten lines of which the last two are validation and test data.
std::string ten_lines(const std::string& line) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("A text is read as bytes, characters or words", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path file = file_with(folder / "own.txt", ten_lines("añ b ñ"));
  SequencesOptions options{.data = file, .length = 4, .batch = 2};

  options.text = TextUnit::bytes;
  const SequencesTask bytes(options);
  CHECK(bytes.data().symbols == 0);  // before there are data
  bytes.load();
  CHECK(bytes.data().symbols == 256);
  CHECK(bytes.data().classes == 256);
  CHECK(bytes.data().every_step);
  // Eight lines of nine bytes, less the last without a target: streams of 35.
  CHECK(first_symbols(bytes) == std::vector<std::int32_t>{'a', 0xC3, 0xB1, ' ', '\n', 'a', 0xC3, 0xB1});
  CHECK(bytes.text_of(bytes.symbols_of("añ\n")) == "añ\n");

  options.text = TextUnit::characters;
  const SequencesTask characters(options);
  // The most frequent first, equal ones by their bytes: space, ñ, \n, a, b. 0 is what is unknown.
  CHECK(first_symbols(characters) == std::vector<std::int32_t>{4, 2, 1, 5, 3, 4, 2, 1});
  CHECK(characters.data().symbols == 6);
  CHECK(characters.text_of(std::vector<std::int32_t>{4, 2, 0, 3}) == "añ\xEF\xBF\xBD\n");
  CHECK(characters.symbols_of("ax") == std::vector<std::int32_t>{4, 0});

  options.text = TextUnit::words;
  const SequencesTask words(options);
  // \n, añ, b, ñ are as frequent as one another.
  CHECK(first_symbols(words) == std::vector<std::int32_t>{2, 3, 4, 1, 1, 2, 3, 4});
  CHECK(words.text_of(std::vector<std::int32_t>{2, 3, 1, 4}) == "añ b\nñ");
  options.vocabulary = 2;
  const SequencesTask few(options);
  CHECK(first_symbols(few) == std::vector<std::int32_t>{2, 0, 0, 1, 1, 2, 0, 0});
}

TEST_CASE("Symbols of a text are those of its training data", "[sequences]") {
  const TemporaryFolder folder;
  const std::string text = ten_lines("abab").substr(0, 40) + "xyxy\nxyxy\n";
  const SequencesTask task({.data = file_with(folder / "own.txt", text), .length = 4, .batch = 2});
  task.load();
  CHECK(task.data().symbols == 4);  // a, b, \n and what is unknown
  Batch batch;
  task.evaluation_batch(HeldOut::test, 0, batch);
  CHECK(std::as_const(batch).integers(batch_names::symbols)(0, 0) == 0);
  // A model that was trained knows them without the file, and reads its file as before.
  const SequencesTask known({.length = 4, .parts = task.parts()});
  CHECK(known.data().symbols == 4);
  CHECK_FALSE(known.text_end());
  CHECK(known.symbols_of("bx") == task.symbols_of("bx"));
  const SequencesTask again({.data = folder / "own.txt", .length = 4, .batch = 2, .parts = task.parts()});
  CHECK(first_symbols(again) == first_symbols(task));
}

TEST_CASE("A column of texts is read as sequences of symbols", "[sequences]") {
  const TemporaryFolder folder;
  std::string csv = "words,kind\n";
  for (int i = 0; i < 20; ++i) csv += i % 2 == 0 ? "\"ab, a\",even\n" : "bb,odd\n";
  const fs::path file = file_with(folder / "own.csv", csv);
  const SequencesTask task(
      {.data = file, .inputs = "words", .target = "kind", .text = TextUnit::characters, .batch = 2});
  task.load();
  CHECK(task.class_names() == std::vector<std::string>{"even", "odd"});
  CHECK(task.data().symbols == 5);
  CHECK_FALSE(task.data().every_step);
  Batch batch;
  for (Index i = 0; i < *task.batches_per_epoch(); ++i) {
    task.training_batch(static_cast<std::uint64_t>(i), batch);
    const auto lengths = std::as_const(batch).integers(batch_names::lengths);
    for (Index b = 0; b < lengths.size(); ++b)
      CHECK(lengths(b) == (std::as_const(batch).integers(batch_names::classes)(b) == 0 ? 5 : 2));
  }
  // The next symbol is learned from the end of a text before it to the end after it.
  const SequencesTask next(
      {.data = file, .goal = Goal::forecast, .inputs = "words", .text = TextUnit::characters, .batch = 2});
  next.training_batch(0, batch);
  const auto symbols = std::as_const(batch).integers(batch_names::symbols);
  const auto classes = std::as_const(batch).integers(batch_names::classes);
  const auto lengths = std::as_const(batch).integers(batch_names::lengths);
  CHECK(next.text_end() == 1);
  CHECK(symbols(0, 0) == 1);
  const Index last = lengths(0) - 1;
  CHECK((last == 5 || last == 2));
  CHECK(classes(last, 0) == 1);
  CHECK(classes(0, 0) == symbols(1, 0));
}

TEST_CASE("One long series is divided in time and cut", "[sequences]") {
  const TemporaryFolder folder;
  std::string csv = "id,x\n";
  for (int t = 0; t < 100; ++t) csv += "one," + std::to_string(t) + "\n";
  const fs::path file = file_with(folder / "own.csv", csv);
  const SequencesTask task({.data = file,
                            .goal = Goal::forecast,
                            .id = "id",
                            .ahead = 2,
                            .length = 5,
                            .normalization = Normalization::none,
                            .batch = 3});
  CHECK(task.batches_per_epoch() == 6);  // 78 steps in streams of 26
  Batch batch;
  task.evaluation_batch(HeldOut::validation, 0, batch);
  CHECK(std::as_const(batch).reals(batch_names::features)(0, 0, 0) == 80);
  CHECK(std::as_const(batch).reals(batch_names::values)(0, 0, 0) == 82);
  CHECK_THAT(csv_error("id,x\n1,2\n2,3\n", {.goal = Goal::forecast, .id = "id", .length = 1, .batch = 1}),
             contains("it has 2 sequences"));
}

TEST_CASE("Texts that are none are refused with their place", "[sequences]") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text, SequencesOptions options) {
    options.data = file_with(folder / "own.txt", text);
    return error_message<Error>([&] { SequencesTask(options).load(); });
  };
  CHECK_THAT(error("", {}), contains("0 bytes"));
  CHECK_THAT(error(ten_lines("ab\xFF"), {}),
             contains("line 1") && contains("byte 3 of its line 1 is not UTF-8"));
  CHECK_THAT(error(ten_lines("ab"), {.goal = Goal::classes}), contains("--goal class"));
  CHECK_THAT(error(ten_lines("ab"), {.id = "x"}), contains("--id") && contains("is a text"));
  CHECK_THAT(error(ten_lines("ab"), {}), contains("a batch of 128 pieces of 128 steps"));
  CHECK_THAT(csv_error("text,target\n,1\n", {.text = TextUnit::characters, .batch = 1}),
             contains("1 sequences"));
  std::string csv = "text,target\n";
  for (int i = 0; i < 9; ++i) csv += "a,1\n";
  CHECK_THAT(csv_error(csv + ",1\n", {.text = TextUnit::characters, .batch = 1}),
             contains("line 11") && contains("no symbols"));
  CHECK_THAT(csv_error("text,n,target\na,1,1\n", {.id = "n", .text = TextUnit::characters, .batch = 1}),
             contains("--id was given"));
}

TEST_CASE("Inputs of other files are read with the columns of the training, without targets", "[sequences]") {
  const TemporaryFolder folder;
  const auto inputs = [&](const std::string& csv, const SequencesOptions& options) {
    return SequencesTask(options).read_inputs(file_with(folder / "own.csv", csv));
  };
  const SequencesOptions by_id{.target = "label", .id = "s", .group_by = "g"};
  const SequenceInputs tall = inputs("x,s\n1,b\n2,a\n3,b\n", by_id);
  CHECK(tall.lengths == std::vector<std::int32_t>{2, 1});
  CHECK(tall.names == std::vector<std::string>{"b", "a"});
  CHECK(tall.features.shape() == Shape{3, 1});
  CHECK(tall.features(1, 0) == 3);
  CHECK(tall.features(2, 0) == 2);
  // Targets and groups that are there are no inputs, and may be anything.
  const SequenceInputs with_targets = inputs("label,x,s,g\none,1,b,1\n,2,a,2\ntwo,3,b,2\n", by_id);
  CHECK(with_targets.features.shape() == Shape{3, 1});
  CHECK(with_targets.features(1, 0) == 3);
  const SequenceInputs wide = inputs("1,2,3\n4,5,6\n", {.goal = Goal::values, .inputs = "2-3"});
  CHECK(wide.lengths == std::vector<std::int32_t>{2, 2});
  CHECK(wide.names.empty());
  CHECK(wide.features(3, 0) == 6);
  CHECK_THAT(error_message<FileError>([&] { inputs("x\n1\n", by_id); }),
             contains("--id names the column 's'"));

  const std::vector<std::int32_t> symbols = {3, 1, 2}, lengths = {1, 2};
  write_npz(folder / "own.npz", {{"symbols", npy("<i4", "3,", raw_bytes(symbols))},
                                 {"lengths", npy("<i4", "2,", raw_bytes(lengths))},
                                 {"notes", npy("|S1", "1,", "a")}});
  const SequenceInputs arrays = SequencesTask(by_id).read_inputs(folder / "own.npz");
  CHECK(arrays.lengths == lengths);
  CHECK(arrays.symbols(2) == 2);
  CHECK(arrays.features.empty());
}

TEST_CASE("Bits of a byte are counted by the bytes of the symbols", "[sequences]") {
  const TemporaryFolder folder;
  const SequencesTask task(
      {.data = file_with(folder / "own.txt", ten_lines("ñb ñb")), .length = 4, .batch = 2});
  Batch batch;
  task.evaluation_batch(HeldOut::test, 0, batch);
  const auto classes = std::as_const(batch).integers(batch_names::classes);
  Index bytes = 0;
  for (const std::int32_t symbol : classes) bytes += std::ssize(task.text_of(std::vector{symbol}));
  CHECK(bytes > classes.size());
  Tensor<float> outputs(Shape{classes.shape()[0], classes.shape()[1], task.data().classes});
  Tensor<double> sums(task.counters());
  task.count_metrics(outputs, batch, sums);
  const std::vector<double> values = task.metric_values(sums, 2);
  REQUIRE(task.metrics().back().name == "bits_per_byte");
  const double bits = 2 / std::log(2.0) * static_cast<double>(classes.size());
  CHECK(values.back() == Approx(bits / static_cast<double>(bytes)));
}

TEST_CASE("A text beside data that are none is refused", "[sequences]") {
  const TemporaryFolder folder;
  const fs::path text = file_with(folder / "own.txt", ten_lines("ab"));
  CHECK_THAT(error_message<FileError>([&] { SequencesTask().read_inputs(text); }),
             contains("it is a text, and the training data are none"));
  const std::vector<std::int32_t> symbols = {0, 1, 1, 0, 0, 1};
  write_npz(folder / "own.npz", {{"symbols", npy("<i4", "3, 2", raw_bytes(symbols))}});
  SequencesOptions options{.data = folder / "own.npz", .goal = Goal::forecast, .batch = 1};
  options.validation_data = text;
  CHECK_THAT(error_message<FileError>([&] { SequencesTask(options).load(); }),
             contains("own.txt: it is a text"));
  // A model file of a stranger may say anything.
  const SequencesTask task({.data = text, .length = 2, .batch = 2});
  std::vector<TaskPart> parts = task.parts();
  const std::size_t place = parts[0].bytes.find("characters");
  REQUIRE(place != std::string::npos);
  parts[0].bytes.replace(place, 10, "automatic");
  CHECK_THAT(error_message<ValueError>([&] { SequencesTask({.parts = parts}); }), contains("without a unit"));
}

TEST_CASE("Arrays without numbers take no memory for what they claim", "[sequences]") {
  const TemporaryFolder folder;
  write_npz(folder / "own.npz", {{"inputs", npy("<f4", "1000000000, 5, 0", "")}});
  CHECK_THAT(error_message<FileError>([&] { SequencesTask({.data = folder / "own.npz"}).load(); }),
             contains("at least one number"));
}

TEST_CASE("A cell of a CSV in quotation marks may have several lines", "[sequences]") {
  const TemporaryFolder folder;
  std::string csv = "text,target\n";
  for (int i = 0; i < 10; ++i) csv += i % 2 == 0 ? "\"a\nb\",1\n" : "c,0\n";
  const fs::path file = file_with(folder / "own.csv", csv);
  const SequencesTask task({.data = file, .inputs = "text", .text = TextUnit::characters, .batch = 1});
  task.load();
  CHECK(task.length() == 3);
  CHECK(task.symbols_of("\n") != std::vector<std::int32_t>{0});
  CHECK_THAT(csv_error("x,target\n1,\"2\n3,4\n"), contains("row 2") && contains("not closed"));
}

TEST_CASE("Columns of a CSV that are not clear are refused", "[sequences]") {
  CHECK_THAT(csv_error("x,x,target\n1,2,3\n", {.inputs = "x", .batch = 1}),
             contains("several have this name"));
  CHECK_THAT(csv_error("id,x,target\na,1,2\n ,1,2\n", {.id = "id", .batch = 1}),
             contains("row 3, column 'id'") && contains("it is empty"));
  // predict reads the columns of the training, whatever their order says.
  const TemporaryFolder folder;
  std::string csv = "x,y,target\n";
  for (int i = 0; i < 10; ++i) csv += "1,2,0\n";
  const SequencesTask task({.data = file_with(folder / "own.csv", csv), .batch = 1});
  const SequencesTask trained({.parts = task.parts()});
  CHECK(trained.read_inputs(file_with(folder / "new.csv", "x,y\n1,2\n")).features.size() == 2);
  CHECK_THAT(
      error_message<FileError>([&] { trained.read_inputs(file_with(folder / "other.csv", "y,x\n2,1\n")); }),
      contains("it has the columns y, x; expected x, y"));
}

TEST_CASE("The mark of UTF-8 is no character of a text", "[sequences]") {
  const TemporaryFolder folder;
  SequencesOptions options{
      .data = file_with(folder / "own.txt", "\xEF\xBB\xBF" + ten_lines("abab")), .length = 4, .batch = 2};
  const SequencesTask characters(options);
  characters.load();
  CHECK(characters.data().symbols == 4);  // a, b, \n and what is unknown
  CHECK(characters.unknown_symbol() == 0);
  CHECK(characters.ahead() == 1);
}
