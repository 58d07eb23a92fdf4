#include "cuda/rollouts/persistent/grid_launch.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {
namespace {

/// A RolloutElement as grid_rollout has it.
template <Direction way>
class OrthogonalElement : RolloutElement<float, way> {
  using Base = RolloutElement<float, way>;

 public:
  static constexpr Direction direction = way;
  static constexpr int gates = 1, published = 1;
  using Arguments = RolloutArguments<float>;
  struct Work {
    typename Base::Input input;
    float product, value;
  };

  OrthogonalElement() = default;
  __device__ OrthogonalElement(const Arguments& a, int unit, int sequence) : Base(a, unit, sequence) {}

  __device__ Work load(const Arguments& a, int t) const {
    return {load_input(static_cast<const Base&>(*this), a, t, place_of_step(a, t)), 0, 0};
  }
  __device__ void start(const Arguments& a, float (&x)[1]) const { x[0] = Base::start(a); }
  __device__ void step(const Arguments& a, int t, const float (&products)[1], Work& work,
                       float (&x)[1]) const {
    work.product = products[0];
    work.value = x[0] = Base::value(a, t, products[0], work.input);
  }
  __device__ void keep(const Arguments& a, int t, const Work& work) const {
    Base::keep(a, t, place_of_step(a, t), work.product, work.input, work.value);
  }
  __device__ void end(const Arguments& a, const float (&products)[1]) const {
    if constexpr (way == Direction::backward) Base::end(a, products[0]);
  }
};

}  // namespace

void grid_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                  const GridPlan& plan) {
  const GridMatrix matrix{.data = q, .gates = 1, .n = static_cast<int>(arguments.hidden_size), .padded = 0};
  Context& gpu = context(arguments.device);
  if (direction == Direction::forward) {
    return start_in_precision<OrthogonalElement<Direction::forward>>(gpu, arguments, matrix, plan);
  }
  start_in_precision<OrthogonalElement<Direction::backward>>(gpu, arguments, matrix, plan);
}

}  // namespace orthornn::cuda
