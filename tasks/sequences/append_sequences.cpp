#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "orthornn/core/error.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

/// The rows of a second array after those of the first. Both have the same columns.
template <class T>
StoredNumbers<T> joined(const StoredNumbers<T>& first, const StoredNumbers<T>& second,
                        const std::filesystem::path& path) {
  if (first.empty() && second.empty()) return {};
  Shape shape = {first.shape()[0] + second.shape()[0]};
  for (int i = 1; i < first.shape().rank(); ++i) shape.append(first.shape()[i]);
  NumberCollector<T> both(shape, path);
  for (const StoredNumbers<T>* numbers : {&first, &second})
    numbers->each_piece([&](std::span<const T> piece) { both.add(piece); });
  return std::move(both).finish();
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 200;
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  return names.empty() ? "arrays without names of columns"
                       : "the columns " + (text.size() > most ? text.substr(0, most) + " .." : text);
}

Index columns_of(const StoredNumbers<float>& rows) { return rows.empty() ? 0 : rows.shape()[1]; }

}  // namespace

void append_sequences(SequenceFile& all, const SequenceFile& more, const std::filesystem::path& path) {
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
  all.features = joined(all.features, more.features, path);
  all.symbols = joined(all.symbols, more.symbols, path);
  all.classes = joined(all.classes, more.classes, path);
  all.values = joined(all.values, more.values, path);
  all.lengths.insert(all.lengths.end(), more.lengths.begin(), more.lengths.end());
  // Their groups play no part, as they are not drawn.
  if (!all.groups.empty()) all.groups.resize(all.lengths.size());
}

}  // namespace orthornn
