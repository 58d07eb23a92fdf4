// Own sequences that are texts.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/npz_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/own_files.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace fs = std::filesystem;

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
  const fs::path file = write_text(folder / "own.txt", ten_lines("añ b ñ"));
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
  const SequencesTask task({.data = write_text(folder / "own.txt", text), .length = 4, .batch = 2});
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
  const fs::path file = write_text(folder / "own.csv", csv);
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
  const fs::path file = write_text(folder / "own.csv", csv);
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
    options.data = write_text(folder / "own.txt", text);
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

TEST_CASE("Bits of a byte are counted by the bytes of the symbols", "[sequences]") {
  const TemporaryFolder folder;
  const SequencesTask task(
      {.data = write_text(folder / "own.txt", ten_lines("ñb ñb")), .length = 4, .batch = 2});
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
  const fs::path text = write_text(folder / "own.txt", ten_lines("ab"));
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

TEST_CASE("The mark of UTF-8 is no character of a text", "[sequences]") {
  const TemporaryFolder folder;
  SequencesOptions options{
      .data = write_text(folder / "own.txt", "\xEF\xBB\xBF" + ten_lines("abab")), .length = 4, .batch = 2};
  const SequencesTask characters(options);
  characters.load();
  CHECK(characters.data().symbols == 4);  // a, b, \n and what is unknown
  CHECK(characters.unknown_symbol() == 0);
  CHECK(characters.ahead() == 1);
}
