#include "orthornn/core/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
Index ParameterSet<T>::add(std::string name, const Shape& shape, ParameterKind kind) {
  if (!values_.empty()) throw ValueError(fmt::format("parameter '{}' was added after allocate()", name));
  if (std::ranges::find(list_, name, &Parameter::name) != list_.end())
    throw ValueError(fmt::format("there is a parameter '{}' already", name));
  Index count = 0;
  if (__builtin_add_overflow(count_, shape.count(), &count))
    throw ShapeError(
        fmt::format("with parameter '{}' there are more than 2^63 numbers; use smaller sizes", name));
  list_.push_back({std::move(name), shape, kind, count_});
  count_ = count;
  return static_cast<Index>(list_.size()) - 1;
}

template <class T>
void ParameterSet<T>::allocate(Device device) {
  values_ = Tensor<T>(Shape{count_}, device);
  gradients_ = Tensor<T>(Shape{count_}, device);
}

template <class T>
void ParameterSet<T>::throw_not_allocated() const {
  throw ValueError(
      fmt::format("the parameters, '{}' the first of {}, have no memory yet; call allocate(device) of their "
                  "ParameterSet when all layers are made, and before the first of them is used",
                  list_.front().name, list_.size()));
}

template <class T>
Index ParameterSet<T>::find(const std::string& name) const {
  const auto found = std::ranges::find(list_, name, &Parameter::name);
  if (found == list_.end()) throw ValueError(fmt::format("there is no parameter '{}'", name));
  return found - list_.begin();
}

template class ParameterSet<float>;
template class ParameterSet<double>;

}  // namespace orthornn
