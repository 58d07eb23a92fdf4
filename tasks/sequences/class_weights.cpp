#include "tasks/sequences/class_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "core/parsed_number.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/sequences/loaded_sequences.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {

ChosenClassWeights chosen_class_weights(std::string_view text) {
  if (text == "none") return {};
  if (text == "balanced") return {.balanced = true};
  ChosenClassWeights chosen;
  const auto refuse = [&](std::string_view item, std::string_view why) {
    throw ValueError(fmt::format(
        "--class-weights: '{}' {}; expected none, balanced, or classes with weights above 0, such "
        "as up=2,down=0.5",
        item.substr(0, 40), why));
  };
  for (std::string_view left = text; !left.empty() || chosen.named.empty();) {
    const std::string_view part = left.substr(0, left.find(',')), item = without_blanks(part);
    left.remove_prefix(std::min(part.size() + 1, left.size()));
    const std::size_t sign = item.rfind('=');
    if (sign == std::string_view::npos) refuse(item, "has no weight");
    const std::optional<float> weight = parsed_number<float>(without_blanks(item.substr(sign + 1)));
    if (!weight || !(*weight > 0 && std::isfinite(*weight))) refuse(item, "has no weight above 0");
    std::string name(without_blanks(item.substr(0, sign)));
    if (std::ranges::find(chosen.named, name, &std::pair<std::string, float>::first) != chosen.named.end())
      refuse(item, "is a class that was named before");
    chosen.named.emplace_back(std::move(name), *weight);
  }
  return chosen;
}

std::vector<float> ChosenClassWeights::by_number(const std::vector<std::string>& class_names) const {
  std::vector<float> weights;
  std::set<std::size_t> seen;
  for (const auto& [name, weight] : named) {
    std::optional<std::size_t> number = parsed_number<std::size_t>(name);
    if (!class_names.empty()) {
      const auto found = std::ranges::find(class_names, name);
      number = found == class_names.end() ? std::nullopt : std::optional(found - class_names.begin());
    }
    if (!number || *number >= most_names) {
      constexpr std::size_t shown = 20;
      const auto first = std::span(class_names).first(std::min(shown, class_names.size()));
      throw ValueError(fmt::format("--class-weights names the class '{}'; expected {}", name.substr(0, 40),
                                   class_names.empty()
                                       ? "numbers of classes, such as 0=2,1=0.5"
                                       : fmt::format("those of the data: {}{}", fmt::join(first, ", "),
                                                     class_names.size() > shown ? ", .." : "")));
    }
    if (!seen.insert(*number).second)
      throw ValueError(
          fmt::format("--class-weights names class {} more than once; expected one weight for it", *number));
    weights.resize(std::max(weights.size(), *number + 1), 1.0F);
    weights[*number] = weight;
  }
  return weights;
}

void ChosenClassWeights::check_unnamed() const {
  if (named.empty()) return;
  throw ValueError(
      "--class-weights names classes, and a forecast has symbols as its classes; expected none or balanced");
}

}  // namespace orthornn
