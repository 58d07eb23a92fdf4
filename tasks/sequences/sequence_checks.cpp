// What a DataTask refuses in its sequences once they have been surveyed.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {

/// Where something is wrong, the numbers are read again to name the place.
void DataTask::Data::check_found(const Survey& found) const {
  const bool may_miss = options.missing != Missing::refuse;
  if (found.features.has_infinite || (found.features.has_missing && !may_miss)) {
    const auto [at, x] = find_number(content.features, [&](float number) {
      return std::isinf(number) || (std::isnan(number) && !may_miss);
    });
    const Index row = at / feature_columns(), i = sequence_of(row);
    const char* what = std::isinf(x) ? "infinite; expected a finite number"
                                     : "missing; expected a number, or --missing zero or mask";
    throw SequenceError(
        i, fmt::format("input {} of step {} is {}", at % feature_columns(), row - start(i), what));
  }
  if (!content.symbols.empty() && (found.symbols.smallest < 0 || found.symbols.largest >= most_names)) {
    const auto [at, x] =
        find_number(content.symbols, [](std::int32_t number) { return number < 0 || number >= most_names; });
    const Index i = sequence_of(at);
    throw SequenceError(i, fmt::format("step {} is symbol {}; expected symbols numbered from 0 to 2^24 - 1",
                                       at - start(i), x));
  }
  if (found.values.has_infinite || (found.values.has_missing && !may_miss)) {
    const auto [at, x] = find_number(content.values, [&](float number) {
      return std::isinf(number) || (std::isnan(number) && !may_miss);
    });
    const Index row = at / value_columns(), i = content.every_step ? sequence_of(row) : row;
    const std::string step = content.every_step ? fmt::format(" of step {}", row - start(i)) : "";
    throw SequenceError(
        i, fmt::format("target {}{} is {}", at % value_columns(), step,
                       std::isnan(x)
                           ? "missing; expected a number, or --missing zero, with which it does not count"
                           : "infinite; expected a finite number"));
  }
  if (has_values() && found_values(found).has_missing) {
    check_counting(value_numbers(), [](float number) { return !std::isnan(number); });
  }
  if (!content.classes.empty()) check_classes(found);
}

/// A batch must have a target that counts, so each sequence has one.
template <class T, class Counts>
void DataTask::Data::check_counting(const StoredNumbers<T>& numbers, const Counts& counts) const {
  if (options.cut > 0) return check_counting_pieces(numbers, counts);
  for (Index i = 0; i < sizes.count(); ++i) {
    if (any_target(numbers, whole(i), counts)) continue;
    Tensor<T> room;
    throw SequenceError(i, target_count(steps(i)) * std::max<Index>(value_columns(), 1) == 1
                               ? fmt::format("its target is {}, so it does not count; leave the sequence out",
                                             numbers.read(target_row(i), 1, room).front())
                               : "none of its targets counts: all are missing or negative; leave it out");
  }
}

/// Each piece of the training is a step, and the pieces of a held-out part are an evaluation.
template <class T, class Counts>
void DataTask::Data::check_counting_pieces(const StoredNumbers<T>& numbers, const Counts& counts) const {
  const Index sequence = training.front();
  const Streams of_training = training_streams();
  for (Index first = 0; first < of_training.steps; first += options.cut) {
    const Index count = std::min(options.cut, of_training.steps - first);
    bool found = false;
    for (Index b = 0; !found && b < of_training.count; ++b)
      found = any_target(numbers, {sequence, b * of_training.steps + first, count}, counts);
    if (found) continue;
    const std::string others =
        of_training.count == 1
            ? ""
            : fmt::format(", nor of those that are {} steps apart and in the same batch", of_training.steps);
    throw SequenceError(
        sequence, fmt::format("of its steps {} to {} no target counts, as all are missing or negative{}; "
                              "leave these steps out, or choose a larger --length",
                              first, first + count - 1, others));
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    const Index i = part(set).front();
    const Streams read = streams(set);
    if (any_target(numbers, {i, 0, read.count * read.steps}, counts)) continue;
    throw SequenceError(
        i, fmt::format("none of its targets counts in the {} steps that are read as {} data: all are missing "
                       "or negative; expected one at least",
                       read.count * read.steps, set == HeldOut::validation ? "validation" : "test"));
  }
}

void DataTask::Data::check_classes(const Survey& found) const {
  if (found.classes.largest >= most_names) {
    const auto [at, x] =
        find_number(content.classes, [](std::int32_t number) { return number >= most_names; });
    throw SequenceError(
        content.every_step ? sequence_of(at) : at,
        fmt::format("its target is class {}; expected classes numbered from 0 to 2^24 - 1, or target numbers "
                    "(--goal value)",
                    x));
  }
  if (found.classes.smallest >= 0) return;
  check_counting(content.classes, [](std::int32_t number) { return number >= 0; });
}

void DataTask::Data::check_seen(const Survey& found, std::span<const std::string> class_names) const {
  const auto check = [&](const StoredNumbers<std::int32_t>& numbers, const std::vector<bool>& seen,
                         bool has_steps, const auto& text) {
    const auto is_new = [&](std::int32_t number) {
      return number >= 0 && (number >= std::ssize(seen) || !seen[static_cast<std::size_t>(number)]);
    };
    const auto [at, x] = find_number(numbers, is_new);
    const Index i = has_steps ? sequence_of(at) : at;
    const std::string step = has_steps ? fmt::format("step {}", at - start(i)) : "the target";
    // Numbers that identify sequences, or are measured, seldom come twice.
    const auto names = std::ranges::count(seen, true);
    const bool are_many = !has_steps && 2 * names > std::ssize(training);
    throw SequenceError(
        i, fmt::format("{} is {}, which no training sequence has; expected what some has: {}", step, text(x),
                       are_many ? fmt::format("the {} training sequences have {} classes, so "
                                              "the targets may be names of sequences, or "
                                              "numbers (--goal value)",
                                              training.size(), names)
                                : "leave this sequence out, or train on more data"));
  };
  if (!content.symbols.empty() && content.symbol_count == 0 && found.symbols.has_new) {
    check(content.symbols, found.symbols.seen, true,
          [](std::int32_t symbol) { return fmt::format("symbol {}", symbol); });
  }
  if (!content.classes.empty() && found.classes.has_new) {
    check(content.classes, found.classes.seen, content.every_step, [&](std::int32_t number) {
      const bool has_name = static_cast<std::size_t>(number) < class_names.size();
      return fmt::format("class '{}'", has_name ? class_names[static_cast<std::size_t>(number)].substr(0, 40)
                                                : std::to_string(number));
    });
  }
}

}  // namespace orthornn
