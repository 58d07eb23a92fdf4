#pragma once

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"

namespace orthornn {

/// Operations of a GPU that may run at the same time, because none reads what another one writes. They give
/// the same bits as one after another. On the CPU all run where they stand.
///
///     const Overlap overlap(device);
///     overlap.aside([&] { make_q(); });           // goes to the side stream
///     overlap.beside([&] { multiply_inputs(); });  // does not wait for it
///     multiply_by_q();                             // waits for it
///
/// Only `beside` lets operations go on without what was sent aside; all others wait, whoever starts them, and
/// so does the end of the outermost scope. What is sent aside comes after all that was started before.
class Overlap {
 public:
  explicit Overlap(Device device) : device_(device) {
    if constexpr (has_cuda_bodies) {
      if (device_.is_cuda()) cuda::begin_overlap(device_);
    }
  }
  ~Overlap() {
    if constexpr (has_cuda_bodies) {
      if (device_.is_cuda()) cuda::end_overlap(device_);
    }
  }
  Overlap(const Overlap&) = delete;
  Overlap& operator=(const Overlap&) = delete;

  template <class Operations>
  void aside(const Operations& operations) const {
    const Part part(device_, Part::aside);
    operations();
  }
  template <class Operations>
  void beside(const Operations& operations) const {
    const Part part(device_, Part::beside);
    operations();
  }

 private:
  class Part {
   public:
    enum Kind { aside, beside };

    Part(Device device, Kind kind) : device_(device), kind_(kind) {
      if constexpr (has_cuda_bodies) {
        if (!device_.is_cuda()) return;
        began_ = kind == aside ? cuda::begin_aside(device_) : (cuda::begin_beside(device_), true);
      }
    }
    ~Part() {
      if constexpr (has_cuda_bodies) {
        if (began_) kind_ == aside ? cuda::end_aside(device_) : cuda::end_beside(device_);
      }
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    Device device_;
    Kind kind_;
    bool began_ = false;
  };

  Device device_;
};

}  // namespace orthornn
