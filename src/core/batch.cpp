#include "orthornn/core/batch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

const Shape& shape_of(const auto& numbers) {
  return std::visit([](const auto& tensor) -> const Shape& { return tensor.shape(); }, numbers);
}

[[noreturn]] void throw_other_type(std::string_view name) {
  throw ValueError(fmt::format(
      "the batch's tensor '{}' was asked for as integers and as reals; expected one of them", name));
}

}  // namespace

const Batch::Entry* Batch::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

template <class T>
Tensor<T>& Batch::tensor(std::string_view name) {
  auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) {
    entries_.push_back({std::string(name), Tensor<T>(Shape{0}, device_)});
    found = std::prev(entries_.end());
  }
  if (auto* numbers = std::get_if<Tensor<T>>(&found->numbers)) return *numbers;
  throw_other_type(name);
}

template <class T>
TensorView<const T> Batch::view(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) return {};
  if (const auto* numbers = std::get_if<Tensor<T>>(&entry->numbers)) return numbers->view();
  throw_other_type(name);
}

template <class T>
TensorView<const T> Batch::needed(std::string_view name) const {
  const TensorView<const T> found = view<T>(name);
  if (find(name) == nullptr) {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(fmt::format("'{}'", entry.name));
    throw ValueError(fmt::format("the batch has no tensor '{}', which is needed; it has {}", name,
                                 names.empty() ? "no tensors" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (found.shape() == Shape{0}) {
    throw ValueError(
        fmt::format("the batch's tensor '{}' is empty; expected one that has been filled", name));
  }
  return found;
}

void Batch::check_device(Device expected) const {
  for (const Entry& entry : entries_) {
    const Device found = std::visit([](const auto& tensor) { return tensor.device(); }, entry.numbers);
    if (found == expected) continue;
    throw DeviceError(
        fmt::format("a batch has '{}' in memory of {}, but the model is on {}; make it as Batch(device), "
                    "or copy(device) it",
                    entry.name, to_string(found), to_string(expected)));
  }
}

std::vector<std::uintptr_t> Batch::places() const {
  std::vector<std::uintptr_t> places;
  for (const Entry& entry : entries_) {
    const Shape& shape = shape_of(entry.numbers);
    places.push_back(std::visit(
        [](const auto& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data()); }, entry.numbers));
    places.push_back(static_cast<std::uintptr_t>(shape.rank()));
    places.insert(places.end(), shape.begin(), shape.end());
  }
  return places;
}

Batch Batch::copy(Device device) const {
  Batch result(device);
  result.piece_ = piece_;
  for (const Entry& entry : entries_) {
    result.entries_.push_back(
        {entry.name,
         std::visit([&](const auto& tensor) -> decltype(Entry::numbers) { return tensor.copy(device); },
                    entry.numbers)});
  }
  return result;
}

template Tensor<std::int32_t>& Batch::tensor(std::string_view);
template Tensor<float>& Batch::tensor(std::string_view);
template TensorView<const std::int32_t> Batch::view(std::string_view) const;
template TensorView<const float> Batch::view(std::string_view) const;
template TensorView<const std::int32_t> Batch::needed(std::string_view) const;
template TensorView<const float> Batch::needed(std::string_view) const;

bool BatchShapes::are_of(const Batch& batch) const {
  return std::ranges::equal(kept_, batch.entries_, [](const Kept& kept, const Batch::Entry& entry) {
    return kept.name == entry.name && kept.shape == shape_of(entry.numbers);
  });
}

void BatchShapes::set(const Batch& batch) {
  kept_.resize(batch.entries_.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const Batch::Entry& entry = batch.entries_[i];
    kept_[i].name = entry.name;
    kept_[i].shape = shape_of(entry.numbers);
  }
}

}  // namespace orthornn
