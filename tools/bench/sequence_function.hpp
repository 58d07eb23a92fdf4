#pragma once
// What benchmarks of functions of whole sequences share.

#include <algorithm>
#include <functional>

#include "bench/eigen_product.hpp"
#include "commands/machine.hpp"
#include "commands/program.hpp"

namespace orthornn::program {

/// What a function computes in that has floats and doubles on every device.
enum class NumberType { fp32, fp64 };

/// Where the benchmark of a function in chunks computes. A GPU has no longer chunks than `most_on_gpu`.
/// Throws Error where the CPU has less memory than `settings.numbers()` need.
template <class Settings>
Execution execution_in_chunks(Settings& settings, Index most_on_gpu) {
  const Execution execution = settings.machine.apply(settings.batch);
  if (execution.device.is_cuda()) {
    settings.chunk = std::min(settings.chunk, most_on_gpu);
  } else {
    const double bytes = settings.precision == NumberType::fp64 ? sizeof(double) : sizeof(float);
    check_free_memory("these sizes take", settings.numbers() * bytes,
                      "choose a smaller --length, --batch or --heads");
  }
  return execution;
}

/// Eigen's product that such functions are compared with, for vectors of `size` numbers.
template <class T>
std::function<double()> usual_product(Device device, Index size) {
  return eigen_product<T>(device, size, 64 * Index{thread_count()});
}

/// Operations of the recurrent form of a delta product for so many tokens of all heads, with n factors each:
/// of its forward, with its backward or without.
inline double recurrent_flops(double tokens, double key, double value, double n, bool with_backward) {
  return 2 * tokens * key * value * (2 * n + 1 + (with_backward ? 7 * n + 2 : 0));
}

}  // namespace orthornn::program

namespace orthornn {

template <>
struct Names<program::NumberType> {
  using enum program::NumberType;
  static constexpr Choice<program::NumberType> list[] = {{"fp32", fp32}, {"fp64", fp64}};
};

}  // namespace orthornn
