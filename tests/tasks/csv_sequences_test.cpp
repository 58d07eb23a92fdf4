// Own sequences in CSV files.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/own_files.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace fs = std::filesystem;

TEST_CASE("A CSV that cannot be read is refused by row and column", "[sequences]") {
  CHECK_THAT(csv_error(""), contains("it is empty"));
  CHECK_THAT(csv_error("x,target\n"), contains("no rows beside its header"));
  CHECK_THAT(csv_error("x;target\n0,5;1\n"), contains("its first row has semicolons and no comma"));
  CHECK_THAT(csv_error("x\ttarget\n"), contains("its first row has tabs and no comma"));
  CHECK_THAT(csv_error("x,target\n1,0\n2,1,5\n"), contains("row 3: it has 3 cells; expected 2"));
  CHECK_THAT(csv_error("x,target\n1,0\none,1\n"), contains("row 3, column 'x': 'one' is no finite number"));
  CHECK_THAT(csv_error("x,target\n1,0\ninf,1\n"), contains("row 3, column 'x'"));
  CHECK_THAT(csv_error("x,target\n1,0\n-1e39,1\n"),
             contains("row 3, column 'x': '-1e39' is infinite, or too large for a number of 32 bits"));
  CHECK_THAT(csv_error("1e39,0\n1,1\n", {.inputs = "1", .target = "2", .batch = 1}),
             contains("row 1") && contains("'1e39' is infinite, or too large"));
  CHECK_THAT(csv_error("x,y\n1,0\n"), contains("--target names the column 'target'; it has 2 columns: x, y"));
  CHECK_THAT(csv_error("x,target\n\"1,0\n"), contains("row 2: a quotation mark is not closed"));
  CHECK_THAT(csv_error("x,target\n1,caf\xe9\n"), contains("row 2: it is no text in UTF-8"));
  CHECK_THAT(csv_error(std::string("x,target\n1\0,0\n", 14)), contains("row 2: it is no text in UTF-8"));
  CHECK_THAT(csv_error("x,target\n1,0\n,1\n2,0\n", {.batch = 1}),
             contains("row 3, column 'x': it is missing; expected a number, or --missing zero or mask"));
  CHECK_THAT(csv_error("x,s\n1,a\nNA,a\n", {.goal = Goal::forecast, .id = "s"}),
             contains("row 3, column 'x': it is missing; expected a number, or --missing"));
  CHECK_THAT(csv_error("x,target\n1,0\n2,\n3,1\n"),
             contains("row 3, column 'target': the class is missing; expected one for each sequence"));
  CHECK_THAT(csv_error("x,target\n1,0.5\n2,nan\n3,1\n"),
             contains("row 3, column 'target': it is missing; expected a number"));
  CHECK_THAT(csv_error("x,s,target\n1,a,0\n2,a,1\n", {.id = "s", .batch = 1}),
             contains("row 3, column 'target': it differs from row 2 of the same sequence"));
  CHECK_THAT(
      csv_error("x,target\n1,a\n", {.goal = Goal::values, .batch = 1}),
      contains("row 2, column 'target': 'a' is no finite number; expected a finite number for --goal value"));
  CHECK_THAT(csv_error("x,s,target\n1,a,5\n2,b,none\n", {.goal = Goal::values, .id = "s", .batch = 1}),
             contains("row 3, column 'target': 'none'"));
  CHECK_THAT(csv_error("x,target\n1,0\n", {.goal = Goal::step_classes, .batch = 1}), contains("need --id"));
}

TEST_CASE("Numbers of a CSV that are too small for a float are 0, and no text", "[sequences]") {
  const TemporaryFolder folder;
  const SequencesOptions by_place{.goal = Goal::values, .inputs = "1"};
  // Text in the first row would be a header.
  const SequenceInputs read =
      SequencesTask(by_place).read_inputs(write_text(folder / "x.csv", "1e-50,1\n-1e-400,2\n3,3\n"));
  REQUIRE(read.features.size() == 3);
  CHECK(read.features(0, 0) == 0);
  CHECK(read.features(1, 0) == 0);
  CHECK(read.features(2, 0) == 3);
  // Text as a target would be a class.
  std::string csv = "x,target\n";
  for (int i = 0; i < 20; ++i) csv += fmt::format("{},1e-{}\n", i, 40 + i);
  const SequencesTask task({.data = write_text(folder / "own.csv", csv), .batch = 1});
  task.load();
  CHECK(task.data().classes == 0);
}

TEST_CASE("Options that mean nothing for the data are refused", "[sequences]") {
  const std::string numbers = "x,target\n1,0\n2,1\n3,0\n4,1\n";
  CHECK_THAT(csv_error(numbers, {.ahead = 2, .batch = 1}), contains("--ahead is for --goal forecast"));
  CHECK_THAT(csv_error(numbers, {.vocabulary = 9, .batch = 1}),
             contains("--vocabulary is for symbols of a text"));
  const std::string texts = "x,target\nab,0\nba,1\nab,0\nba,1\n";
  CHECK_THAT(csv_error(texts, {.text = TextUnit::characters, .missing = Missing::zero, .batch = 1}),
             contains("--missing is for numbers"));
}

TEST_CASE("Targets that may be names of sequences are told of", "[sequences]") {
  std::string text = "x,target\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("{},{}\n", i, 1000 + i);
  CHECK_THAT(csv_error(text, {.batch = 1}),
             contains("the 24 training sequences have 24 classes") && contains("--goal value"));
}

TEST_CASE("A cell of a CSV in quotation marks may have several lines", "[sequences]") {
  const TemporaryFolder folder;
  std::string csv = "text,target\n";
  for (int i = 0; i < 10; ++i) csv += i % 2 == 0 ? "\"a\nb\",1\n" : "c,0\n";
  const fs::path file = write_text(folder / "own.csv", csv);
  const SequencesTask task({.data = file, .inputs = "text", .text = TextUnit::characters, .batch = 1});
  task.load();
  CHECK(task.length() == 3);
  CHECK(task.symbols_of("\n") != std::vector<std::int32_t>{0});
  CHECK_THAT(csv_error("x,target\n1,\"2\n3,4\n"), contains("row 2") && contains("not closed"));
}

TEST_CASE("Inputs that are read twice or hold the answer are refused", "[sequences]") {
  std::string csv = "s,x,target\n";
  for (int i = 0; i < 20; ++i) csv += fmt::format("{0},1,{1}\n{0},2,{1}\n", i, i % 2);
  const auto error = [&](SequencesOptions options) {
    options.batch = 1;
    return csv_error(csv, options);
  };
  CHECK_THAT(error({.inputs = "x,x"}), contains("--inputs names the column 'x', and names it twice"));
  CHECK_THAT(error({.inputs = "1-2,x"}), contains("--inputs names the column 'x', and names it twice"));
  CHECK_THAT(error({.inputs = "x,s", .id = "s"}), contains("the column 's', and --id names it too"));
  CHECK_THAT(error({.inputs = "x,target"}), contains("the column 'target', which is the target"));
  CHECK_THAT(error({.inputs = "2-3", .target = "3"}), contains("the column 'target', which is the target"));
  // A forecast has its inputs as targets. What groups sequences may be read.
  CHECK(error({.goal = Goal::forecast, .inputs = "x,target", .id = "s"}).empty());
  CHECK(error({.inputs = "x,s", .group_by = "s"}).empty());
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
  const SequencesTask task({.data = write_text(folder / "own.csv", csv), .batch = 1});
  const SequencesTask trained({.parts = task.parts()});
  CHECK(trained.read_inputs(write_text(folder / "new.csv", "x,y\n1,2\n")).features.size() == 2);
  CHECK_THAT(
      error_message<FileError>([&] { trained.read_inputs(write_text(folder / "other.csv", "y,x\n2,1\n")); }),
      contains("it has the columns y, x; expected x, y"));
}
