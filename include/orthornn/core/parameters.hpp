#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// How an optimizer treats a parameter.
enum class ParameterKind {
  ordinary,    ///< It has the general learning rate, and weight decay.
  orthogonal,  ///< It makes an orthogonal matrix: it has a learning rate of its own and no weight decay.
  stiefel      ///< It is a point [N, M] of St(N, M), N >= M, with the learning rate of orthogonal ones. A
               ///< Riemannian optimizer keeps it there, and the others refuse it.
};

/// One parameter of a ParameterSet.
struct Parameter {
  /// Name, such as "cell/reflection_vectors".
  std::string name;
  /// Shape of the parameter and of its gradient.
  Shape shape;
  /// How an optimizer treats it.
  ParameterKind kind;
  /// Place of its first number in the flat buffers, in numbers.
  Index offset;
};

/// All parameters of a model in one flat buffer, and their gradients in another one of that layout, so that
/// an optimizer is one loop and a checkpoint is another. Layers `add` what they need while they are
/// constructed, then `allocate` is called once, then views are valid for the life of the set. Before
/// `allocate` there is no memory: `value` and `gradient` throw ValueError, and so do initialize, prepare and
/// load of what owns the set.
template <class T>
class ParameterSet {
 public:
  /// Adds a parameter and returns its number, by which `value` and `gradient` know it. Throws ValueError
  /// after `allocate` and for a name that is there already, ShapeError when all parameters together do not
  /// fit in 63 bits.
  Index add(std::string name, const Shape& shape, ParameterKind kind = ParameterKind::ordinary);
  /// Takes memory on `device` for all values and gradients, and sets them to zero. Throws std::bad_alloc, or
  /// DeviceError for a GPU, where there is not enough.
  void allocate(Device device);
  /// Returns 0, 1, 2, .. in turn. A layer that draws random numbers while it runs takes a stream of its own.
  std::uint64_t take_stream() { return streams_++; }

  /// All parameters, in the order of their numbers.
  const std::vector<Parameter>& list() const { return list_; }
  /// Number of scalars in all parameters together.
  Index count() const { return count_; }
  /// Throws ValueError before `allocate`.
  void check_allocated() const {
    if (values_.size() != count_) throw_not_allocated();
  }

  /// Value of parameter i, in its shape. Throws ValueError before `allocate`.
  TensorView<T> value(Index i) { return window(values_.view(), i); }
  /// Value of parameter i to read, in its shape. Throws ValueError before `allocate`.
  TensorView<const T> value(Index i) const { return window(values_.view(), i); }
  /// Gradient of parameter i, in its shape. Throws ValueError before `allocate`.
  TensorView<T> gradient(Index i) { return window(gradients_.view(), i); }
  /// Gradient of parameter i to read, in its shape. Throws ValueError before `allocate`.
  TensorView<const T> gradient(Index i) const { return window(gradients_.view(), i); }
  /// Number of the parameter of this name. Throws ValueError when there is none.
  Index find(const std::string& name) const;

  /// Values of all parameters as one buffer, [count].
  Tensor<T>& values() { return values_; }
  /// Values of all parameters to read, as one buffer, [count].
  const Tensor<T>& values() const { return values_; }
  /// Gradients of all parameters as one buffer, [count].
  Tensor<T>& gradients() { return gradients_; }
  /// Gradients of all parameters to read, as one buffer, [count].
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
