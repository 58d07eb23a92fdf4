#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orthornn {

/// Class weights as SequencesOptions::class_weights asks for them.
struct ChosenClassWeights {
  bool balanced = false;
  /// Weights by the names of the classes; empty where no class is named.
  std::vector<std::pair<std::string, float>> named = {};

  /// The weights in the order of the classes, up to the last one that is named. Where `class_names` is empty,
  /// classes are named by their numbers. Throws ValueError for a class that the data lack, and for one that
  /// is named twice.
  std::vector<float> by_number(const std::vector<std::string>& class_names) const;
  /// Throws ValueError where classes are named.
  void check_unnamed() const;
};

/// Reads the text of the option: "none", "balanced", or names with weights. Throws ValueError for another
/// text.
ChosenClassWeights chosen_class_weights(std::string_view text);

}  // namespace orthornn
