#pragma once

#include "cuda/core/ptx.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {

/// What a persistent rollout reads in the next steps, on its way from device memory: fetched `Ahead` - 1
/// steps before it is needed into shared memory, [Ahead][Groups][inputs][threads], where each thread finds
/// what it asked for, without a barrier. Registers cannot be ahead by several steps: loads report in one
/// order, so the oldest value would wait for the youngest load.
template <class Element, int Ahead, int Groups, int Threads>
class InputRing {
 public:
  static constexpr int inputs = Element::input_count;
  static constexpr std::size_t shared_bytes = sizeof(float) * Ahead * Groups * inputs * Threads;
  static_assert((Ahead & (Ahead - 1)) == 0, "slots are told apart by the last bits of the step");

  explicit __device__ InputRing(unsigned char* memory)
      : mine_(reinterpret_cast<float*>(memory) + threadIdx.x) {
    // For elements that are absent, which fetch nothing.
    for (int i = 0; i < Ahead * Groups * inputs; ++i) mine_[i * Threads] = 0.0f;
  }

  /// Starts fetching what a step reads at `place`, if such a step `exists`; every one in its order.
  __device__ void fetch(const RolloutArguments<float>& arguments, const Element (&elements)[Groups], int step,
                        bool exists, StepPlace place) const {
    if (exists) {
#pragma unroll
      for (int group = 0; group < Groups; ++group) {
        if (!elements[group].present()) continue;
#pragma unroll
        for (int i = 0; i < inputs; ++i)
          ptx::cp_async<sizeof(float)>(slot(step, group, i), elements[group].input(arguments, place, i));
      }
    }
    ptx::cp_async_commit();
  }
  /// What was fetched for the step before the last Ahead - 1 has arrived.
  __device__ void wait() const { ptx::cp_async_wait<Ahead - 1>(); }
  __device__ typename Element::Input take(const RolloutArguments<float>& arguments, const Element& element,
                                          int step, int group, int t) const {
    float numbers[inputs];
#pragma unroll
    for (int i = 0; i < inputs; ++i) numbers[i] = *slot(step, group, i);
    return element.input_of(arguments, t, numbers);
  }

 private:
  __device__ float* slot(int step, int group, int i) const {
    return mine_ + (((step & (Ahead - 1)) * Groups + group) * inputs + i) * Threads;
  }

  float* mine_;
};

}  // namespace orthornn::cuda
