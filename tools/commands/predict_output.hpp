#pragma once
// The forms in which predictions are written (docs/own-data.md, "Predictions").

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/predictions.hpp"

namespace orthornn::program {

/// What is written with the numbers.
struct PredictionNames {
  /// Whether outputs are logarithms of unnormalized probabilities of classes, and not numbers.
  bool has_classes = false;
  /// Names of the classes, [C]; empty where they have none.
  std::vector<std::string> classes = {};
  /// Names of the inputs; empty where there is a single one.
  std::vector<std::string> files = {};
  /// Number of each sequence's input, [N].
  std::vector<std::int32_t> file_of = {};
  /// Names of the sequences, [N]; empty where they are numbered from 0 in each input.
  std::vector<std::string> sequences = {};
  /// Rows and columns of a frame, which the outputs are; 0 where they are none.
  std::array<Index, 2> frame_size = {};
};

/// Throws UsageError for a name that does not end as those of a form, and with `with_states` for a form that
/// has no states.
void check_prediction_form(const std::filesystem::path& file, bool with_states);

/// Writes a file in the form that the end of its name tells; a link is replaced by it. Returns what is in the
/// file, in words. Throws as write_file_atomically.
std::string write_predictions(const std::filesystem::path& file, const Predictions& found,
                              const PredictionNames& names);

/// Whether a text that begins with this line is predictions in the form of CSV, or of JSON lines.
bool begins_predictions(std::string_view line);

}  // namespace orthornn::program
