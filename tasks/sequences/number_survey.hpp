#pragma once
// What is to be known of all numbers of an array before a training: found in one pass, with little memory.

#include <cstdint>
#include <limits>
#include <vector>

#include "tasks/sequences/stored_numbers.hpp"

namespace orthornn {

/// Mean, sum of squared deviations, and bounds of the numbers of a column. Missing numbers do not count.
struct ColumnSums {
  double mean = 0, square = 0;
  float low = std::numeric_limits<float>::infinity(), high = -low;
  Index count = 0;

  /// Adds the numbers of another column (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm
  /// for computing sample variances", 1979).
  void add(const ColumnSums& other);
  /// Standard deviation; exactly 0 where all numbers are one.
  double deviation() const;
};

/// Which rows of an array belong to training sequences.
struct TrainingRows {
  /// Whether each sequence is one to train on, [N].
  const std::vector<bool>& is_training;
  /// First row of each sequence, and the number of all rows, [N + 1]; null where a sequence has one row.
  const std::vector<Index>* starts = nullptr;
  /// Rows at the begin of each sequence that are no targets.
  Index ahead = 0;

  /// Calls visit(begin, end, are_targets) for the training rows among first .. last - 1, in their order, with
  /// neighbors together.
  template <class Visit>
  void within(Index first, Index last, const Visit& visit) const;
};

/// What was found of numbers.
struct FoundReals {
  /// Sums of the training rows that are no targets, and of those that are, [columns].
  std::vector<ColumnSums> heads, targets;
  bool has_missing = false, has_infinite = false;  ///< Among all rows.
  std::uint32_t checksum = 0;                      ///< CRC-32 of all bytes; 0 if none was asked for.
};
/// What was found of symbols or classes.
struct FoundIntegers {
  std::int32_t smallest = std::numeric_limits<std::int32_t>::max();  ///< Of all rows.
  std::int32_t largest = -1, largest_to_train = -1;                  ///< Of all rows, of the training rows.
  std::vector<Index> counts =
      {};                       ///< How often each number is a target of a training row; negative ones not.
  std::vector<bool> seen = {};  ///< Whether a training row has each number.
  bool has_new = false;         ///< Whether another row has a number that no training row has.
  std::uint32_t checksum = 0;   ///< As of FoundReals.
};

/// Looks at all numbers of an array [.., columns] with several threads, whose number changes no bit of the
/// result. Throws FileError.
FoundReals survey(const StoredNumbers<float>& numbers, Index columns, const TrainingRows& rows,
                  bool with_checksum);
/// As the other, for an array of one column. Of numbers of 2^24 or more, only the largest is found.
FoundIntegers survey(const StoredNumbers<std::int32_t>& numbers, const TrainingRows& rows,
                     bool with_checksum);

/// CRC-32 of two pieces, one after the other, from that of each.
std::uint32_t joined_checksum(std::uint32_t first, std::uint32_t second, Index bytes_of_second);

/// A number and where it is.
template <class T>
struct PlacedNumber {
  Index at = 0;
  T number = {};
};
/// The first number that `is_meant` tells of, for messages. Throws FileError where there is none: numbers
/// that were there before have changed.
template <class T, class IsMeant>
PlacedNumber<T> find_number(const StoredNumbers<T>& numbers, const IsMeant& is_meant) {
  constexpr Index piece = Index{1} << 18;
  Tensor<T> room;
  for (Index first = 0; first < numbers.size(); first += piece) {
    const std::span<const T> found = numbers.read(first, std::min(piece, numbers.size() - first), room);
    const auto at = std::ranges::find_if(found, is_meant);
    if (at != found.end()) return {first + (at - found.begin()), *at};
  }
  throw FileError("own sequences have changed while they were read; begin again");
}

}  // namespace orthornn
