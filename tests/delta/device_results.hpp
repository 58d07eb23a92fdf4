#pragma once
// What device tests of this stage share: a case is run on a GPU and compared with the same case in double on
// the CPU.

#include <algorithm>
#include <limits>
#include <vector>

#include "orthornn/delta/token_layout.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {

template <template <class> class Case, class T>
std::vector<Tensor<T>> results_on_host(Case<T>& c) {
  std::vector<Tensor<T>> results;
  for (auto [name, result] : c.results()) results.push_back(result->copy(Device::cpu()));
  return results;
}

template <class T>
void fill_with_nan(TensorView<T> x) {
  std::fill(x.begin(), x.end(), std::numeric_limits<T>::quiet_NaN());
}

/// Sets the rows of padding of tensors [R, ..] to NaN.
template <class T>
void spoil_padding(const TokenLayout& layout, std::initializer_list<Tensor<T>*> tensors) {
  std::vector<bool> is_token(static_cast<std::size_t>(layout.rows()));
  for (Index b = 0; b < layout.size(); ++b) {
    for (Index t = 0; t < layout[b].count; ++t) is_token[static_cast<std::size_t>(layout[b].row(t))] = true;
  }
  for (Tensor<T>* x : tensors) {
    for (Index row = 0; row < layout.rows(); ++row) {
      if (!is_token[static_cast<std::size_t>(row)]) fill_with_nan(x->view().slice(row, 1));
    }
  }
}

/// Runs `found` on the device and `expected` on the CPU, and compares all results. Twice, for the same bits,
/// and once more without what a backward reads.
template <template <class> class Case, class T>
void check_like_cpu(Case<T>& found, Case<double>& expected, Device device, double bound) {
  expected.run();
  for (auto [name, x] : found.results()) fill_with_nan(x->view());
  found.move_to(device);
  found.run();
  CHECK(found.saved->size() == 0);
  const std::vector<Tensor<T>> first = results_on_host(found);
  found.run();
  const std::vector<Tensor<T>> second = results_on_host(found);
  found.evaluate();
  const std::vector<Tensor<T>> third = results_on_host(found);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto [name, here] = expected.results()[i];
    INFO(name);
    CHECK(relative_error(first[i], *here) <= bound);
    CHECK(same_bits(first[i], second[i]));
    CHECK(same_bits(first[i], third[i]));
  }
}

/// Runs both cases on the device, and compares all results of `one`, a sequence alone, with `part` of those
/// of `all`.
template <template <class> class Case, class T, class Part>
void check_alone_as_beside_others(Case<T>& all, Case<T>& one, Device device, const Part& part) {
  all.move_to(device);
  one.move_to(device);
  all.run();
  one.run();
  for (std::size_t i = 0; i < all.results().size(); ++i) {
    const auto [name, beside] = all.results()[i];
    INFO(name);
    if (beside->empty()) continue;
    const Tensor<T> alone = one.results()[i].second->copy(Device::cpu());
    Tensor<T> expected(alone.shape());
    copy<T>(part(*beside), expected);
    CHECK(same_bits(alone, expected));
  }
}

/// A tensor that begins so many numbers after aligned memory, as a part of a larger one may.
template <class T>
class WithOffset {
 public:
  explicit WithOffset(const Tensor<T>& x, Index offset = 1)
      : offset_(offset), shape_(x.shape()), memory_({x.size() + offset}, x.device()) {
    copy<T>(x, view());
  }
  TensorView<T> view() { return {memory_.data() + offset_, shape_, memory_.device()}; }
  TensorView<const T> view() const { return {memory_.data() + offset_, shape_, memory_.device()}; }

 private:
  Index offset_;
  Shape shape_;
  Tensor<T> memory_;
};

}  // namespace orthornn::testing
