#pragma once
// What the tests of the C interface on a GPU share. Tensors of a test are on the stream of the test's own
// library, `stream_of`, to which operations of the C interface go as well.

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "c_api/c_case.hpp"
#include "orthornn/core/tensor.hpp"
#include "support/errors.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {

/// The GPU with this stream as the C interface takes it.
inline orthornn_device on_stream(Device device, void* stream) {
  return {ORTHORNN_CUDA, device.index(), stream};
}
inline orthornn_device on_own_stream(Device device) { return on_stream(device, stream_of(device)); }

/// Memory of a caller on a GPU, of exactly the bytes that it asked for, between guards. What an operation
/// does not write is NaN as a number.
class GpuWorkspace {
 public:
  /// Memory that begins `offset` bytes after an aligned address.
  GpuWorkspace(Device device, std::int64_t bytes, Index offset)
      : bytes_(bytes), first_(guard + offset), memory_(pattern(first_ + bytes + guard).copy(device)) {}
  /// Checks that nothing was written beside it.
  ~GpuWorkspace() {
    const Tensor<std::byte> here = memory_.copy(Device::cpu());
    const auto is_whole = [](const std::byte* from, const std::byte* to) {
      return std::all_of(from, to, [](std::byte x) { return x == filling; });
    };
    CHECK(is_whole(here.begin(), here.begin() + first_));
    CHECK(is_whole(here.begin() + first_ + bytes_, here.end()));
  }
  GpuWorkspace(const GpuWorkspace&) = delete;
  GpuWorkspace& operator=(const GpuWorkspace&) = delete;

  /// NULL for no bytes, as callers may pass it.
  void* data() { return bytes_ == 0 ? nullptr : memory_.data() + first_; }
  std::int64_t bytes() const { return bytes_; }
  /// Overwrites the memory by that of another one of this size.
  void copy_from(GpuWorkspace& other) { copy<std::byte>(other.view(), view()); }

 private:
  static constexpr Index guard = 512;
  static constexpr std::byte filling{0xff};

  static Tensor<std::byte> pattern(Index bytes) {
    Tensor<std::byte> memory({bytes});
    std::fill(memory.begin(), memory.end(), filling);
    return memory;
  }
  TensorView<std::byte> view() { return memory_.view().slice(first_, bytes_); }

  std::int64_t bytes_;
  Index first_;
  Tensor<std::byte> memory_;
};

/// Host memory on the CPU and memory of the GPU on a GPU, for a device of the C interface.
class AnyWorkspace {
 public:
  AnyWorkspace(const orthornn_device* device, std::int64_t bytes) {
    if (device == nullptr) {
      here_ = std::make_unique<Workspace>(bytes);
    } else {
      there_ = std::make_unique<GpuWorkspace>(Device::cuda(device->index), bytes, 1);
    }
  }
  void* data() { return here_ ? here_->data() : there_->data(); }
  std::int64_t bytes() const { return here_ ? here_->bytes() : there_->bytes(); }

 private:
  std::unique_ptr<Workspace> here_;
  std::unique_ptr<GpuWorkspace> there_;
};

/// Results on a GPU beside those in double on the CPU.
inline void check_near(auto& found, auto& expected, double bound) {
  for (std::size_t i = 0; i < found.results().size(); ++i) {
    const auto [name, there] = found.results()[i];
    INFO(name);
    CHECK(relative_error(there->copy(Device::cpu()), *expected.results()[i].second) <= bound);
  }
}

/// Sets everything that a case writes to NaN.
template <class Case>
void spoil_results(Case& c) {
  for (auto [name, x] : c.results()) {
    if (x->empty()) continue;
    auto spoiled = x->copy(Device::cpu());
    std::fill(spoiled.begin(), spoiled.end(), std::numeric_limits<double>::quiet_NaN());
    *x = spoiled.copy(x->device());
  }
}

/// Requires results that a case has now to have the bits of former ones, in the order of `results()`.
template <class Case, class T>
void require_results(Case& c, const std::vector<Tensor<T>>& expected, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto [name, x] = c.results()[i];
    INFO(name);
    REQUIRE(same_bits(x->copy(Device::cpu()), expected[i]));
  }
}

}  // namespace orthornn::testing
