#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/tasks/data_task.hpp"

namespace orthornn {

class SequencesTask;
class SymbolTable;

/// What is learned of the sequences in a file.
enum class Goal {
  automatic,     ///< A class where targets are whole numbers or text, else numbers; of each step if they are.
  classes,       ///< A class of each sequence.
  step_classes,  ///< A class of each step.
  values,        ///< Numbers of each sequence.
  step_values,   ///< Numbers of each step.
  forecast       ///< The inputs, `ahead` steps later, at each step.
};
template <>
struct Names<Goal> {
  using enum Goal;
  static constexpr Choice<Goal> list[] = {{"automatic", automatic},     {"class", classes},
                                          {"step-class", step_classes}, {"value", values},
                                          {"step-value", step_values},  {"forecast", forecast}};
};

/// What a text is read as.
enum class TextUnit {
  automatic,   ///< Characters of a .txt file; columns of a CSV file are numbers.
  bytes,       ///< Bytes, each a symbol.
  characters,  ///< Unicode code points.
  words        ///< Words, which white space separates. The end of a line is a word too.
};
template <>
struct Names<TextUnit> {
  using enum TextUnit;
  static constexpr Choice<TextUnit> list[] = {
      {"automatic", automatic}, {"bytes", bytes}, {"characters", characters}, {"words", words}};
};

/// Options of a SequencesTask.
struct SequencesOptions {
  using Made = SequencesTask;
  static constexpr const char* name = "sequences";  ///< Name in files and on the command line.
  /// File of the sequences, whose form its name tells: .h5 or .hdf5, .npz, .csv, or .txt.
  std::filesystem::path data = {};
  /// File of the validation sequences, of the form of `data`; empty: a part of `data` is drawn.
  std::filesystem::path validation_data = {};
  /// File of the test sequences, of the form of `data`; empty: a part of `data` is drawn.
  std::filesystem::path test_data = {};
  /// What is learned.
  Goal goal = Goal::automatic;
  /// CSV: columns that are read, names or numbers from 1 with commas and ranges as 2-785; empty: all others.
  std::string inputs = {};
  /// CSV: column of the target; empty: "target".
  std::string target = {};
  /// CSV: column that names the sequence of a row, which is a step then; empty: a row is a sequence.
  std::string id = {};
  /// CSV: column that names the group of a sequence; empty: each sequence is a group.
  std::string group_by = {};
  /// Steps that a forecast lies ahead, >= 1.
  Index ahead = 1;
  /// What a text file or the text column of a CSV file is read as.
  TextUnit text = TextUnit::automatic;
  /// Symbols of a text that are known at most, the most frequent ones of the training data; 0: all
  /// characters, or 30,000 words.
  Index vocabulary = 0;
  /// Steps of the pieces into which a text, or a file with one long sequence, is cut; 0: 128 for a text, and
  /// otherwise sequences are whole.
  Index length = 0;
  /// How numbers are brought to a common size.
  Normalization normalization = Normalization::standard;
  /// Weights of the classes in the loss: "none", "balanced" (DataTaskOptions::balanced), or names of classes
  /// with their weights, "up=2,down=0.5"; classes that are not named weigh 1.
  std::string class_weights = "none";
  /// What is done with numbers that are missing.
  Missing missing = Missing::refuse;
  /// Share of the groups that are validation data, where no file has them.
  double validation_part = 0.1;
  /// Share of the groups that are test data, where no file has them.
  double test_part = 0.1;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of the split and of the order of the sequences.
  std::uint64_t seed = 1;
  /// Parts of the task that a model was trained with (Task::parts). Empty: they are made of the data.
  std::vector<TaskPart> parts = {};

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = SequencesOptions;
    const Domain share{.low = 0, .high = 1, .low_included = false, .high_included = false};
    visit("goal", &Self::goal, domain::any, "what is learned; automatic as the targets are");
    visit("inputs", &Self::inputs, domain::any,
          "CSV: columns that are read, names or numbers from 1, such as 2-785 or x,y; left out: all others");
    visit("target", &Self::target, domain::any, "CSV: column of the target; left out: target");
    visit("id", &Self::id, domain::any,
          "CSV: column that names the sequence of a row, which is one step; left out: a row is a sequence");
    visit("group_by", &Self::group_by, domain::any,
          "CSV: column whose equal values stay together in training, validation or test data");
    visit("ahead", &Self::ahead, domain::count, "steps that a forecast lies ahead");
    visit("text", &Self::text, domain::any,
          "what a .txt file or the text column of a CSV is read as: bytes, characters or words");
    visit("vocabulary", &Self::vocabulary, Domain{.low = 0, .high = 1'000'000},
          "symbols of a text at most; 0: all characters, 30,000 words");
    visit("length", &Self::length, domain::not_negative,
          "steps of the pieces into which a text or one long sequence is cut; 0: 128 for a text");
    visit("normalization", &Self::normalization, domain::any,
          "numbers by mean and deviation of the training data, by their range, or as they are");
    visit("class_weights", &Self::class_weights, domain::added_later,
          "weights of the classes in the loss: none, balanced, or of each class, such as up=2,down=0.5");
    visit(
        "missing", &Self::missing, domain::any,
        "missing inputs are refused, zero, or zero with a column that marks them; with the last two, missing "
        "target numbers do not count");
    visit("validation_part", &Self::validation_part, share, "share of the groups that are validation data");
    visit("test_part", &Self::test_part, share, "share of the groups that are test data");
  }
};

/// Sequences of a file, to be learned as DataTask does. docs/own-data.md describes the forms of the file.
///
/// A text is one long sequence of symbols, cut into pieces, whose last tenth is test data, and the tenth
/// before it validation data. So is a file with one sequence, if `length` is given.
///
/// Files are read when they are first needed. Arrays of more than 256 MB stay in their file, or in a
/// temporary one (docs/own-data.md), and a thread assembles the next training batches from it; the file must
/// stay as it is, and a batch throws FileError where it does not. A model file keeps the normalization, the
/// names of classes and symbols, and checksums, so that `predict` needs no data, and `eval` and a resumption
/// refuse other data.
class SequencesTask final : public DataTask, public TaskText {
 public:
  /// Makes the task; reads no file. Throws ValueError for options outside their domains and for parts that
  /// are not those of such a task.
  explicit SequencesTask(const SequencesOptions& options = {});
  ~SequencesTask() override;

  std::string name() const override { return SequencesOptions::name; }
  /// Reads the data unless they have been read. Throws FileError, with file and place, for what is no such
  /// data and for data other than those of the parts, and as DataTask.
  void load() const override;
  std::string config() const override;
  /// The parts "statistics", JSON of the normalization and the names of classes and symbols, and "data", a
  /// checksum of all files; for files of held-out data also their checksums, "validation" and "test". Reads
  /// the data unless the options had the parts, and throws as `load`.
  std::vector<TaskPart> parts() const override;

  std::vector<std::string> class_names() const override { return class_names_; }
  bool reports_answers() const override { return true; }
  /// Null where the data are no texts, as the data or the parts of a model file say, and before either is
  /// there.
  const TaskText* text() const override { return symbol_table_ != nullptr ? this : nullptr; }
  /// Throws ValueError for a task whose data are no text, and for text that is not UTF-8 where it is read as
  /// characters or words.
  std::vector<std::int32_t> symbols_of(std::string_view text) const override;
  /// Throws ValueError for a task whose data are no text.
  std::string text_of(std::span<const std::int32_t> symbols) const override;
  /// No value where the data are one long text. Throws ValueError for a task whose data are no text.
  std::optional<std::int32_t> text_end() const override;
  /// No value for bytes, which are all known. Throws ValueError for a task whose data are no text.
  std::optional<std::int32_t> unknown_symbol() const override;
  /// Steps that the target of a step lies ahead, also of numbers; 0 where the data have targets of their own.
  Index ahead() const override;
  /// Reads the inputs of another file, by the end of its name, with the columns that the options name. Their
  /// numbers are not normalized (`own_features`). Targets and groups need not be there. Throws FileError,
  /// with file and place, for what is no such file.
  SequenceInputs read_inputs(const std::filesystem::path& file) const;
  /// As `read_inputs`. No value for a file whose name is not that of a form of own sequences, and for an HDF5
  /// file that has `x`, or neither `inputs` nor `symbols`.
  std::optional<SequenceInputs> own_inputs(const std::filesystem::path& place) const override;

 private:
  struct Files;
  /// One of the three files.
  struct Source;

  void read_parts(const std::vector<TaskPart>& parts);
  const SymbolTable& symbol_table() const;
  /// Training, validation and test data, in this order.
  std::array<Source, 3> sources() const;
  void check_given(const Source& source, const std::string& known) const;
  void read_into(Files& files) const;

  SequencesOptions options_;
  // What is there once the files or the parts are.
  mutable std::unique_ptr<Files> files_;
  mutable std::vector<std::string> class_names_;
  /// Names of the CSV columns that are read; empty for arrays.
  mutable std::vector<std::string> input_names_;
  mutable std::unique_ptr<const SymbolTable> symbol_table_;
  /// Checksums in the order of `sources`; "" where there is no file.
  mutable std::array<std::string, 3> checksums_;
};

}  // namespace orthornn
