#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "io/crc32_of.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/sequences/number_survey.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

/// The rows of each file's array after those of the first. All have the same columns. `checksums` have
/// those of the arrays before of each file.
template <class T>
void join(StoredNumbers<T> SequenceFile::*array, SequenceFile& all, std::vector<HeldOutFile>& more,
          std::vector<std::uint32_t>& checksums) {
  const StoredNumbers<T>& first = all.*array;
  if (first.empty()) return;
  Index rows = first.shape()[0];
  for (const HeldOutFile& file : more) rows += (file.sequences.*array).shape()[0];
  Shape shape = {rows};
  for (int i = 1; i < first.shape().rank(); ++i) shape.append(first.shape()[i]);
  NumberCollector<T> joined(shape, more.front().path);
  first.each_piece([&](std::span<const T> piece) { joined.add(piece); });
  for (std::size_t i = 0; i < more.size(); ++i) {
    StoredNumbers<T>& numbers = more[i].sequences.*array;
    numbers.each_piece([&](std::span<const T> piece) {
      joined.add(piece);
      checksums[i] = joined_checksum(checksums[i], crc32_of(piece.data(), piece.size_bytes()),
                                     static_cast<Index>(piece.size_bytes()));
    });
    numbers = {};
  }
  all.*array = std::move(joined).finish();
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 200;
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  return names.empty() ? "arrays without names of columns"
                       : "the columns " + (text.size() > most ? text.substr(0, most) + " .." : text);
}

Index columns_of(const StoredNumbers<float>& rows) { return rows.empty() ? 0 : rows.shape()[1]; }

/// Throws where a file has other inputs or targets than the training.
void check_alike(const SequenceFile& all, const SequenceFile& more, const std::filesystem::path& path) {
  const auto fail = [&](const std::string& found, const std::string& expected) {
    throw FileError(
        fmt::format("{}: it has {}; expected {}, as the training data have", path.string(), found, expected));
  };
  const auto inputs_text = [](const SequenceFile& file) {
    return file.features.empty() ? std::string("symbols as its inputs")
                                 : fmt::format("{} numbers a step as its inputs", columns_of(file.features));
  };
  const auto targets_text = [](const SequenceFile& file) {
    return fmt::format("{} target columns", columns_of(file.values));
  };
  if (all.input_names != more.input_names) fail(names_text(more.input_names), names_text(all.input_names));
  if (columns_of(all.features) != columns_of(more.features)) fail(inputs_text(more), inputs_text(all));
  if (columns_of(all.values) != columns_of(more.values)) fail(targets_text(more), targets_text(all));
}

}  // namespace

void join_sequences(SequenceFile& all, std::vector<HeldOutFile>& more) {
  if (more.empty()) return;
  std::vector<std::uint32_t> checksums;
  for (const HeldOutFile& file : more) {
    const std::vector<std::int32_t>& lengths = file.sequences.lengths;
    check_alike(all, file.sequences, file.path);
    checksums.push_back(crc32_of(lengths.data(), lengths.size() * sizeof lengths[0]));
    all.lengths.insert(all.lengths.end(), lengths.begin(), lengths.end());
  }
  join(&SequenceFile::features, all, more, checksums);
  join(&SequenceFile::values, all, more, checksums);
  join(&SequenceFile::symbols, all, more, checksums);
  join(&SequenceFile::classes, all, more, checksums);
  for (std::size_t i = 0; i < more.size(); ++i)
    more[i].checksum =
        fmt::format("{} sequences, CRC-32 {:08x}", more[i].sequences.lengths.size(), checksums[i]);
  // Their groups play no part, as they are not drawn.
  if (!all.groups.empty()) all.groups.resize(all.lengths.size());
}

}  // namespace orthornn
