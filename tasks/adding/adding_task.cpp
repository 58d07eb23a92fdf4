#include "orthornn/tasks/adding_task.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "core/fields_json.hpp"
#include "cuda/tasks/adding_task.hpp"
#include "orthornn/scalar/philox.hpp"
#include "tasks/batches.hpp"

namespace orthornn {

AddingTask::AddingTask(const AddingOptions& options)
    : length_(options.length), batch_(options.batch), seed_(options.seed) {
  check_fields("task adding", options);
  check_batch_size("adding", length_, batch_);
}

void AddingTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(RandomPurpose::training, step, batch);
}

void AddingTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  fill(held_out_stream(set), static_cast<std::uint64_t>(number), batch);
}

void AddingTask::fill(RandomPurpose purpose, std::uint64_t index, Batch& batch) const {
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<float>& values = batch.reals(batch_names::values);
  features.reserve({length_, batch_, 2});
  values.reserve({batch_, 1});
  if constexpr (has_cuda_bodies) {
    if (batch.device().is_cuda()) {
      return cuda::fill_adding_batch(PhiloxStream(seed_, purpose, index), features, values);
    }
  }
  RandomStream stream(seed_, purpose, index);
  for (Index t = 0; t < length_; ++t) {
    for (Index b = 0; b < batch_; ++b) {
      features(t, b, 0) = uniform_float(stream.bits());
      features(t, b, 1) = 0;
    }
  }
  const Index half = length_ / 2;
  for (Index b = 0; b < batch_; ++b) {
    const Index first = stream.integer(static_cast<std::uint32_t>(half));
    const Index second = half + stream.integer(static_cast<std::uint32_t>(length_ - half));
    features(first, b, 1) = 1;
    features(second, b, 1) = 1;
    values(b, 0) = features(first, b, 0) + features(second, b, 0);
  }
}

std::string AddingTask::config() const {
  return json_object(AddingOptions{.length = length_}, "task").dump();
}

}  // namespace orthornn
