#pragma once

#include <Eigen/Core>

#include "core/for_each.hpp"

namespace orthornn {

/// `count` numbers that the CPU computes with at once, as bodies of src/pointwise need them
/// (pointwise/numbers.hpp). Their functions have the same bits for every count.
template <class T, int count>
class Lanes {
  using Array = Eigen::Array<T, count, 1>;

 public:
  /// Zeros.
  Lanes() : numbers_(Array::Zero()) {}
  Lanes(T x) : numbers_(Array::Constant(x)) {}
  static Lanes load(const T* from) { return Lanes(Eigen::Map<const Array>(from)); }
  void store(T* to) const { Eigen::Map<Array>{to} = numbers_; }

  friend Lanes operator+(const Lanes& a, const Lanes& b) { return Lanes(a.numbers_ + b.numbers_); }
  friend Lanes operator-(const Lanes& a, const Lanes& b) { return Lanes(a.numbers_ - b.numbers_); }
  friend Lanes operator*(const Lanes& a, const Lanes& b) { return Lanes(a.numbers_ * b.numbers_); }
  friend Lanes tanh_of(const Lanes& a) { return Lanes(a.numbers_.tanh()); }
  /// (1 + tanh(a / 2)) / 2.
  friend Lanes sigmoid(const Lanes& a) { return T(0.5) * tanh_of(T(0.5) * a) + T(0.5); }

 private:
  template <class Expression>
  explicit Lanes(const Eigen::ArrayBase<Expression>& numbers) : numbers_(numbers) {}

  Array numbers_;
};

/// Numbers of the largest vector of a processor, 512 bits. Smaller vectors hold them in several registers.
template <class T>
inline constexpr int vector_lanes = 64 / sizeof(T);
template <class T>
using Vector = Lanes<T, vector_lanes<T>>;

/// Calls part.template operator()<V>(row) for rows 0 .. count - 1: V has the numbers of the row and of those
/// after it, those of a vector of the processor or one.
template <class T, class Part>
void for_each_lanes(Index count, const Part& part) {
  constexpr int together = vector_lanes<T>;
  Index row = 0;
  for (; row + together <= count; row += together) part.template operator()<Lanes<T, together>>(row);
  for (; row < count; ++row) part.template operator()<Lanes<T, 1>>(row);
}

/// As `for_each_entry`, for a body with `run<V>`.
template <class T, class Body>
void for_each_entry_in_lanes(Device device, Index rows, Index columns, const Body& body) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::for_each_entry(device, rows, columns, body);
  }
  // A column costs some hundred operations at least; fewer than this are done before another thread has
  // started.
  constexpr Index columns_of_thread = 16;
  parallel_for(columns, columns_of_thread, [own = body, rows](Index first, Index last) {
    for (Index column = first; column < last; ++column)
      for_each_lanes<T>(rows, [&]<class V>(Index row) { own.template run<V>(row, column); });
  });
}

}  // namespace orthornn
