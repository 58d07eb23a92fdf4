#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// How an optimizer treats a parameter. Orthogonal ones (reflection vectors, skew generators) have a learning
/// rate of their own and no weight decay.
enum class ParameterKind { ordinary, orthogonal };

/// Name ("cell/reflection_vectors"), shape and place of one parameter in the flat buffers.
struct Parameter {
  std::string name;
  Shape shape;
  ParameterKind kind;
  Index offset;
};

/// All parameters of a model in one flat buffer, their gradients in another of the same layout, so that an
/// optimizer is one loop and a checkpoint is another. Layers `add` what they need while they are constructed,
/// then `allocate` is called once, then views are valid for the life of the set. Before it there is no
/// memory: `value` and `gradient` throw ValueError, and so do initialize, prepare and load of whatever owns
/// the set.
template <class T>
class ParameterSet {
 public:
  /// Returns the number by which `value` and `gradient` know it. Throws ValueError after `allocate` or for a
  /// name that is there already, ShapeError when all parameters together do not fit in 63 bits.
  Index add(std::string name, const Shape& shape, ParameterKind kind = ParameterKind::ordinary);
  void allocate(Device device);
  /// 0, 1, 2, ..: for layers that draw random numbers while they run, a stream of its own for each.
  std::uint64_t take_stream() { return streams_++; }

  const std::vector<Parameter>& list() const { return list_; }
  /// Number of scalars in all.
  Index count() const { return count_; }
  /// Throws ValueError before `allocate`.
  void check_allocated() const {
    if (values_.size() != count_) throw_not_allocated();
  }

  TensorView<T> value(Index i) { return window(values_.view(), i); }
  TensorView<const T> value(Index i) const { return window(values_.view(), i); }
  TensorView<T> gradient(Index i) { return window(gradients_.view(), i); }
  TensorView<const T> gradient(Index i) const { return window(gradients_.view(), i); }
  /// By name; throws ValueError when there is no such parameter.
  Index find(const std::string& name) const;

  /// Flat, [count].
  Tensor<T>& values() { return values_; }
  const Tensor<T>& values() const { return values_; }
  Tensor<T>& gradients() { return gradients_; }
  const Tensor<T>& gradients() const { return gradients_; }

 private:
  template <class U>
  TensorView<U> window(TensorView<U> flat, Index i) const {
    check_allocated();
    const Parameter& parameter = list_[static_cast<std::size_t>(i)];
    return TensorView<U>(flat.data() + parameter.offset, parameter.shape, flat.device());
  }
  [[noreturn]] void throw_not_allocated() const;

  std::vector<Parameter> list_;
  Index count_ = 0;
  std::uint64_t streams_ = 0;
  Tensor<T> values_;
  Tensor<T> gradients_;
};

extern template class ParameterSet<float>;
extern template class ParameterSet<double>;

}  // namespace orthornn
