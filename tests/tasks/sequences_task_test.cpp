// Tasks of own sequences in files: forms, parts, held-out files.

#include "orthornn/tasks/sequences_task.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/own_files.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace fs = std::filesystem;

TEST_CASE("The same sequences are read from HDF5, npz and both forms of CSV", "[sequences]") {
  const TemporaryFolder folder;
  const TwentyPairs expected;
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
  SequencesOptions of_wide = options_for(write_text(folder / "wide.csv", wide));
  of_wide.target = "label";
  SequencesOptions of_tall = options_for(write_text(folder / "tall.csv", tall));
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
  CHECK(task.data().is_forecast);
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
  const fs::path file = write_text(folder / "own.csv", text);
  const SequencesTask task({.data = file, .batch = 4});
  task.load();
  CHECK(task.data().values == 1);
  CHECK_FALSE(task.data().is_forecast);
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
  other.data = write_text(folder / "other.csv", text + "30,15\n");
  CHECK_THAT(error_message<FileError>([&] { make_task(task.config(), other)->load(); }),
             contains("other data than those that the model was trained with"));
  TaskSource damaged = source;
  damaged.parts[0].bytes = R"({"features": {"shift": [1], "divisor": [0]}})";
  CHECK_THAT(error_message<ValueError>([&] { make_task(task.config(), damaged); }), contains("statistics"));
}

TEST_CASE("A step of a CSV without a class does not count", "[sequences]") {
  const TemporaryFolder folder;
  std::string text = "x,series,target\n";
  for (int i = 0; i < 20; ++i) {
    // The second step has none, and -1 is a class as any other.
    for (int t = 0; t < 3; ++t)
      text += fmt::format("{},{},{}\n", i, i, t == 1 ? (i % 2 == 0 ? "" : "NA") : i % 2 == 0 ? "-1" : "1");
  }
  const SequencesTask task({.data = write_text(folder / "own.csv", text),
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
    return write_text(folder / name, text + more);
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
  changed.validation_data = write_text(folder / "swapped.csv", "y,x,kind\n1,2,odd\n");
  CHECK_THAT(message(changed), contains("swapped.csv: it has the columns y, x; expected the columns x, y"));
  changed.validation_data = write_text(folder / "text.csv", "x,y,kind\n1,two,odd\n");
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

TEST_CASE("Inputs of other files are read with the columns of the training, without targets", "[sequences]") {
  const TemporaryFolder folder;
  const auto inputs = [&](const std::string& csv, const SequencesOptions& options) {
    return SequencesTask(options).read_inputs(write_text(folder / "own.csv", csv));
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
             contains("the training had --id for the column 's'"));

  const std::vector<std::int32_t> symbols = {3, 1, 2}, lengths = {1, 2};
  write_npz(folder / "own.npz", {{"symbols", npy("<i4", "3,", raw_bytes(symbols))},
                                 {"lengths", npy("<i4", "2,", raw_bytes(lengths))},
                                 {"notes", npy("|S1", "1,", "a")}});
  const SequenceInputs arrays = SequencesTask(by_id).read_inputs(folder / "own.npz");
  CHECK(arrays.lengths == lengths);
  CHECK(arrays.symbols(2) == 2);
  CHECK(arrays.features.empty());

  // Files that may be of another form are left to who asks.
  const SequencesTask task(by_id);
  CHECK(task.own_inputs(folder / "own.npz")->lengths == lengths);
  CHECK_FALSE(task.own_inputs(write_text(folder / "own.png", "x\n1\n")));
}
