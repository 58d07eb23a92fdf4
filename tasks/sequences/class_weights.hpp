#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orthornn {

/// What SequencesOptions::class_weights says.
struct ChosenClassWeights {
  bool balanced = false;
  /// Weights by the names of the classes; empty where no class is named.
  std::vector<std::pair<std::string, float>> named = {};

  /// The weights in the order of the classes, up to the last one that is named. Without names of classes
  /// their numbers name them. Throws ValueError for a class that there is not.
  std::vector<float> by_number(const std::vector<std::string>& class_names) const;
  /// Throws ValueError where classes are named.
  void check_unnamed() const;
};

/// Throws ValueError for a text that says nothing such.
ChosenClassWeights chosen_class_weights(std::string_view text);

}  // namespace orthornn
