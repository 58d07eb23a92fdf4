#include "orthornn/tasks/adding_task.hpp"

#include "core/back_end.hpp"
#include "core/fields_json.hpp"
#include "cuda/tasks/adding_task.hpp"
#include "orthornn/scalar/philox.hpp"
#include "tasks/batches.hpp"

namespace orthornn {

AddingTask::AddingTask(const AddingOptions& options) : options_(options) {
  check_fields("task adding", options);
  check_batch_size("adding", options.length, options.batch);
}

void AddingTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(RandomPurpose::training, step, batch);
}

void AddingTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  fill(held_out_stream(set), static_cast<std::uint64_t>(number), batch);
}

void AddingTask::fill(RandomPurpose purpose, std::uint64_t index, Batch& batch) const {
  const Index length = options_.length, count = options_.batch;
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<float>& values = batch.reals(batch_names::values);
  features.reserve({length, count, 2});
  values.reserve({count, 1});
  if constexpr (has_cuda_bodies) {
    if (batch.device().is_cuda()) {
      return cuda::fill_adding_batch(PhiloxStream(options_.seed, purpose, index), features, values);
    }
  }
  RandomStream stream(options_.seed, purpose, index);
  for (Index t = 0; t < length; ++t) {
    for (Index b = 0; b < count; ++b) {
      features(t, b, 0) = uniform_float(stream.bits());
      features(t, b, 1) = 0;
    }
  }
  const Index half = length / 2;
  for (Index b = 0; b < count; ++b) {
    const Index first = stream.integer(static_cast<std::uint32_t>(half));
    const Index second = half + stream.integer(static_cast<std::uint32_t>(length - half));
    features(first, b, 1) = 1;
    features(second, b, 1) = 1;
    values(b, 0) = features(first, b, 0) + features(second, b, 0);
  }
}

std::unique_ptr<Task> AddingTask::with_length(Index length, Index batch) const {
  return task_with_length(options_, length, batch);
}

std::string AddingTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
