#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/tasks/sequences_task.hpp"
#include "tasks/sequences/stored_numbers.hpp"
#include "tasks/sequences/symbol_table.hpp"

namespace orthornn {

/// Sequences as a file has them, one after the other.
struct SequenceFile {
  /// [S, K], NaN where a number is missing; empty where steps are symbols.
  StoredNumbers<float> features = {};
  StoredNumbers<std::int32_t> symbols = {};  ///< [S]; empty where steps are vectors.
  std::vector<std::int32_t> lengths = {};    ///< Steps of each sequence, [N].
  bool every_step = false;                   ///< Whether each step has a target.
  StoredNumbers<std::int32_t> classes = {};  ///< [N] or [S]; empty where targets are numbers.
  StoredNumbers<float> values = {};          ///< [N, C] or [S, C]; empty where targets are classes.
  /// Names of the classes, those of a model that was trained before if there is one; empty where classes are
  /// numbers in the file too.
  std::vector<std::string> class_names = {};
  std::vector<std::int32_t> groups = {};  ///< [N]; empty where each sequence is a group.
  Index validation = 0, test = 0;         ///< As SequenceView has them.
  /// Names of the columns of the inputs; empty for arrays, which have no such names.
  std::vector<std::string> input_names = {};
  std::vector<std::string> names = {};  ///< [N], what a column says; empty where none names sequences.
  /// Symbols of a text; null where symbols are numbers of the file, or steps are vectors.
  std::unique_ptr<const SymbolTable> symbol_table = {};
  std::vector<std::int32_t> symbol_bytes = {};  ///< Of the symbols of a text (SymbolTable::bytes_of_symbols).
};

/// Names that a model which was trained before knows.
struct KnownNames {
  std::vector<std::string> classes = {};  ///< Empty where no model knows any.
  const SymbolTable* symbols = nullptr;   ///< Null where no model knows any.
};

/// The text without blanks and tabs at its ends (csv_sequences.cpp).
std::string_view without_blanks(std::string_view text);

/// What is read of a file.
enum class Wanted {
  everything,  ///< Training data, and the parts of the others that have no file of their own.
  held_out,    ///< Sequences of one part.
  inputs       ///< Inputs alone: targets and groups need not be there.
};

/// Reads a file by the end of its name. Throws FileError, with the place, for what is no such file.
SequenceFile read_sequence_file(const SequencesOptions& options, const KnownNames& known, Wanted what);

/// The form with one column for each name (csv_sequences.cpp).
SequenceFile read_csv(const SequencesOptions& options, const KnownNames& known, Wanted what);
/// The forms with named arrays, HDF5 and npz (array_sequences.cpp).
SequenceFile read_arrays(const SequencesOptions& options, Wanted what);
/// A text: a sequence of symbols for each part that the file has (text_sequences.cpp).
SequenceFile read_text(const SequencesOptions& options, const KnownNames& known, Wanted what);

/// A text of the file, a sequence or a part of one.
struct FileText {
  std::string_view text;
  Index line = 0;  ///< Its line or row in the file, from 1 on.
};
/// Where the end of a text stands in a sequence: the next symbol is learned from it on, and at last is it.
enum class Ends { none, before, around };
/// Reads texts as symbols, those that `known` has or else those of the texts whose part is 0. Throws
/// FileError for text that is not UTF-8.
void read_symbols(const SequencesOptions& options, const std::vector<FileText>& texts,
                  const std::vector<std::int32_t>& parts, Ends ends, const KnownNames& known,
                  SequenceFile& to);
/// The options of a DataTask for these (sequences_task.cpp).
DataTaskOptions data_options(const SequencesOptions& options);

/// A file of validation or test data.
struct HeldOutFile {
  std::filesystem::path path;
  SequenceFile sequences;
  std::string checksum = {};  ///< Number and CRC-32 of its sequences.
};

/// Adds the sequences of files to those of a task's training file, one file after the other, and finds their
/// checksums on the way: each array is copied once. Throws FileError where inputs or targets of a file are
/// others than those of the training.
void join_sequences(SequenceFile& all, std::vector<HeldOutFile>& more);

/// Numbers of class names: those known, or else all that there are, sorted, by their value if they are whole
/// numbers. An empty name has -1. Calls refuse(i, why), which throws, for a name that is not known.
std::vector<std::int32_t> class_numbers(
    const std::vector<std::string>& names, const std::vector<std::string>& known,
    const std::function<void(std::size_t i, const std::string& why)>& refuse,
    std::vector<std::string>& class_names);

}  // namespace orthornn
