#pragma once
// For results that must not depend on the number of threads.

#include <cstring>

#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// The very same bits, NaNs and signs of zeros included.
template <class T>
bool same_bits(const Tensor<T>& a, const Tensor<T>& b) {
  return a.shape() == b.shape() &&
         (a.empty() || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0);
}

/// Sets the number of threads while it lives.
class Threads {
 public:
  explicit Threads(int count) { set_thread_count(count); }
  ~Threads() { set_thread_count(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = thread_count();
};

}  // namespace orthornn::testing
