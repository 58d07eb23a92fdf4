#include "tasks/sequences/number_survey.hpp"

#include <zlib.h>

#include <bit>
#include <cmath>
#include <exception>

#include "core/parallel.hpp"
#include "io/crc32_of.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {

void ColumnSums::add(const ColumnSums& other) {
  if (other.count == 0) return;
  const auto before = static_cast<double>(count), more = static_cast<double>(other.count);
  const double distance = other.mean - mean, share = more / (before + more);
  mean += distance * share;
  square += other.square + distance * distance * before * share;
  low = std::min(low, other.low);
  high = std::max(high, other.high);
  count += other.count;
}

double ColumnSums::deviation() const {
  return count > 0 ? std::sqrt(square / static_cast<double>(count)) : 0;
}

template <class Visit>
void TrainingRows::within(Index first, Index last, const Visit& visit) const {
  const auto start = [&](Index i) { return starts == nullptr ? i : (*starts)[static_cast<std::size_t>(i)]; };
  Index begin = first, end = first;  // rows that were found and not yet visited
  bool are_targets = true;
  const auto add = [&](Index from, Index to, bool targets) {
    if (from >= to) return;
    if (from != end || targets != are_targets) {
      if (begin < end) visit(begin, end, are_targets);
      begin = from;
      are_targets = targets;
    }
    end = to;
  };
  Index i = first;
  if (starts != nullptr) i = std::ranges::upper_bound(*starts, first) - starts->begin() - 1;
  for (; i < std::ssize(is_training) && start(i) < last; ++i) {
    if (!is_training[static_cast<std::size_t>(i)]) continue;
    const Index head = std::min(start(i) + ahead, start(i + 1));
    add(std::max(start(i), first), std::min(head, last), false);
    add(std::max(head, first), std::min(start(i + 1), last), true);
  }
  if (begin < end) visit(begin, end, are_targets);
}

namespace {

// A block of rows is what a thread reads at a time: 1 MiB, so that it stays in the cache of a core between
// the passes over it, and at least some rows, so that sums are joined rarely.
constexpr Index numbers_of_block = Index{1} << 18, fewest_rows = 16;

/// Number of blocks that the threads look at before they wait for one another. Each has a slot for its
/// result.
Index slot_count() { return 8 * Index{thread_count()}; }

/// Calls look(slot, first, numbers) with several threads for every block of rows, `first` being its first
/// row; then take(slot) for each slot, in the order of the blocks, with one thread.
template <class T, class Look, class Take>
void for_blocks(const StoredNumbers<T>& numbers, Index columns, const Look& look, const Take& take) {
  const Index rows = numbers.size() / columns;
  const Index rows_of_block = std::max(fewest_rows, numbers_of_block / columns);
  const Index blocks = (rows + rows_of_block - 1) / rows_of_block, slots = slot_count();
  std::vector<Tensor<T>> rooms(static_cast<std::size_t>(slots));
  std::vector<std::exception_ptr> errors(rooms.size());
  for (Index wave = 0; wave < blocks; wave += slots) {
    const Index count = std::min(slots, blocks - wave);
    parallel_for(count, 1, [&](Index first_slot, Index last_slot) {
      const auto own = static_cast<std::size_t>(first_slot);
      for (Index s = first_slot; s < last_slot; ++s) {
        const auto slot = static_cast<std::size_t>(s);
        try {
          const Index first = (wave + s) * rows_of_block, last = std::min(rows, first + rows_of_block);
          look(own, slot, first, numbers.read(first * columns, (last - first) * columns, rooms[own]));
        } catch (...) {
          errors[slot] = std::current_exception();
        }
      }
    });
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(count); ++slot) {
      if (errors[slot]) std::rethrow_exception(errors[slot]);
      take(slot);
    }
  }
}

/// Sums of a block of rows, in double around one number of each column, so that they lose nothing far from 0.
/// A few rows of numbers, the lanes, are summed side by side, which compilers make vector instructions of.
class BlockSums {
 public:
  explicit BlockSums(Index columns)
      : columns_(static_cast<std::size_t>(columns)), lanes_(columns_ * ((columns_ + 15) / columns_)) {}

  void clear() {
    first_.assign(lanes_, std::numeric_limits<float>::quiet_NaN());
    sum_.assign(lanes_, 0);
    square_.assign(lanes_, 0);
    count_.assign(lanes_, 0);
    low_.assign(lanes_, std::numeric_limits<float>::infinity());
    high_.assign(lanes_, -std::numeric_limits<float>::infinity());
    unknown_ = columns_;
  }
  /// Adds whole rows.
  void add(std::span<const float> rows) {
    find_first(rows);
    for (std::size_t at = 0; at < rows.size(); at += lanes_)
      add_lanes(rows.data() + at, std::min(lanes_, rows.size() - at));
  }
  /// Adds the sums to those of each column.
  void add_to(std::vector<ColumnSums>& columns) const {
    for (std::size_t k = 0; k < columns_; ++k) {
      ColumnSums of_block;
      double sum = 0, square = 0, count = 0;
      for (std::size_t j = k; j < lanes_; j += columns_) {
        sum += sum_[j];
        square += square_[j];
        count += count_[j];
        of_block.low = std::min(of_block.low, low_[j]);
        of_block.high = std::max(of_block.high, high_[j]);
      }
      if (count == 0) continue;
      of_block.count = static_cast<Index>(count);
      of_block.mean = static_cast<double>(first_[k]) + sum / count;
      of_block.square = std::max(0.0, square - sum * sum / count);
      columns[k].add(of_block);
    }
  }

 private:
  /// Finds the first number of each column that is not missing.
  void find_first(std::span<const float> rows) {
    for (std::size_t i = 0; unknown_ > 0 && i < rows.size(); ++i) {
      const std::size_t k = i % columns_;
      if (!std::isnan(first_[k]) || std::isnan(rows[i])) continue;
      for (std::size_t j = k; j < lanes_; j += columns_) first_[j] = rows[i];
      --unknown_;
    }
  }
  void add_lanes(const float* __restrict x, std::size_t count) {
    const float* __restrict first = first_.data();
    double* __restrict sum = sum_.data();
    double* __restrict square = square_.data();
    double* __restrict counted = count_.data();
    float* __restrict low = low_.data(), * __restrict high = high_.data();
    for (std::size_t j = 0; j < count; ++j) {
      const bool is_there = x[j] == x[j];
      const double away = is_there ? static_cast<double>(x[j]) - static_cast<double>(first[j]) : 0.0;
      sum[j] += away;
      square[j] += away * away;
      counted[j] += is_there ? 1.0 : 0.0;
      low[j] = x[j] < low[j] ? x[j] : low[j];
      high[j] = x[j] > high[j] ? x[j] : high[j];
    }
  }

  std::size_t columns_, lanes_, unknown_ = 0;
  std::vector<float> first_, low_, high_;
  std::vector<double> sum_, square_, count_;
};

/// Whether an exponent has all bits set: then a number is infinite or missing.
bool has_unusual(std::span<const float> numbers) {
  constexpr std::uint32_t exponent = 0x7f800000;
  std::uint32_t found = 0;
  for (const float x : numbers)
    found |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & exponent) == exponent);
  return found != 0;
}

}  // namespace

std::uint32_t joined_checksum(std::uint32_t first, std::uint32_t second, Index bytes_of_second) {
  return static_cast<std::uint32_t>(crc32_combine(first, second, bytes_of_second));
}

FoundReals survey(const StoredNumbers<float>& numbers, Index columns, const TrainingRows& rows,
                  bool with_checksum) {
  struct Slot {
    BlockSums heads, targets;
    bool has_missing = false, has_infinite = false;
    std::uint32_t checksum = 0;
    Index bytes = 0;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(slot_count()),
                          Slot{BlockSums(columns), BlockSums(columns)});
  FoundReals found;
  for (auto* sums : {&found.heads, &found.targets}) sums->resize(static_cast<std::size_t>(columns));
  const auto look = [&](std::size_t, std::size_t number, Index first, std::span<const float> block) {
    Slot& slot = slots[number];
    slot.heads.clear();
    slot.targets.clear();
    rows.within(first, first + std::ssize(block) / columns, [&](Index begin, Index end, bool are_targets) {
      (are_targets ? slot.targets : slot.heads)
          .add(block.subspan(static_cast<std::size_t>((begin - first) * columns),
                             static_cast<std::size_t>((end - begin) * columns)));
    });
    slot.has_missing = slot.has_infinite = false;
    if (has_unusual(block)) {
      slot.has_missing = std::ranges::any_of(block, [](float x) { return std::isnan(x); });
      slot.has_infinite = std::ranges::any_of(block, [](float x) { return std::isinf(x); });
    }
    slot.bytes = static_cast<Index>(block.size_bytes());
    if (with_checksum) slot.checksum = crc32_of(block.data(), block.size_bytes());
  };
  for_blocks(numbers, columns, look, [&](std::size_t number) {
    const Slot& slot = slots[number];
    slot.heads.add_to(found.heads);
    slot.targets.add_to(found.targets);
    found.has_missing |= slot.has_missing;
    found.has_infinite |= slot.has_infinite;
    if (with_checksum) found.checksum = joined_checksum(found.checksum, slot.checksum, slot.bytes);
  });
  return found;
}

FoundIntegers survey(const StoredNumbers<std::int32_t>& numbers, const TrainingRows& rows,
                     bool with_checksum) {
  struct Slot {
    FoundIntegers found;
    std::vector<bool> in_any_row;
    std::uint32_t checksum = 0;
    Index bytes = 0;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(slot_count()));
  const auto look = [&](std::size_t own, std::size_t number, Index first,
                        std::span<const std::int32_t> block) {
    Slot& slot = slots[number];
    FoundIntegers& found = slots[own].found;  // sums of integers have no order
    for (const std::int32_t x : block) {
      found.smallest = std::min(found.smallest, x);
      found.largest = std::max(found.largest, x);
    }
    if (found.largest >= most_names) return;  // it is refused, with its place
    std::vector<bool>& in_any_row = slots[own].in_any_row;
    in_any_row.resize(static_cast<std::size_t>(found.largest + 1));
    for (const std::int32_t x : block) {
      if (x >= 0) in_any_row[static_cast<std::size_t>(x)] = true;
    }
    rows.within(first, first + std::ssize(block), [&](Index begin, Index end, bool are_targets) {
      const auto of_rows =
          block.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin));
      for (const std::int32_t x : of_rows) found.largest_to_train = std::max(found.largest_to_train, x);
      found.counts.resize(static_cast<std::size_t>(found.largest_to_train + 1));
      found.seen.resize(found.counts.size());
      for (const std::int32_t x : of_rows) {
        if (x < 0) continue;
        found.seen[static_cast<std::size_t>(x)] = true;
        if (are_targets) ++found.counts[static_cast<std::size_t>(x)];
      }
    });
    slot.bytes = static_cast<Index>(block.size_bytes());
    if (with_checksum) slot.checksum = crc32_of(block.data(), block.size_bytes());
  };
  FoundIntegers found;
  for_blocks(numbers, 1, look, [&](std::size_t slot) {
    if (with_checksum)
      found.checksum = joined_checksum(found.checksum, slots[slot].checksum, slots[slot].bytes);
  });
  for (const Slot& slot : slots) {
    found.smallest = std::min(found.smallest, slot.found.smallest);
    found.largest = std::max(found.largest, slot.found.largest);
    found.largest_to_train = std::max(found.largest_to_train, slot.found.largest_to_train);
    found.counts.resize(std::max(found.counts.size(), slot.found.counts.size()));
    for (std::size_t c = 0; c < slot.found.counts.size(); ++c) found.counts[c] += slot.found.counts[c];
    found.seen.resize(std::max(found.seen.size(), slot.found.seen.size()));
    for (std::size_t c = 0; c < slot.found.seen.size(); ++c)
      found.seen[c] = found.seen[c] || slot.found.seen[c];
  }
  for (const Slot& slot : slots) {
    for (std::size_t c = 0; c < slot.in_any_row.size(); ++c)
      found.has_new = found.has_new || (slot.in_any_row[c] && (c >= found.seen.size() || !found.seen[c]));
  }
  return found;
}

}  // namespace orthornn
