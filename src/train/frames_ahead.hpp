#pragma once
// What a model of the next step says of later steps: it reads its own outputs.

#include <functional>
#include <vector>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// Outputs [M, B, K] for the `count` = M steps after the last live step of each sequence of a batch. The
/// model reads the features of the batch [T, B, K], and then each output as the features of the next step,
/// with numbers below 0 as 0 and above 1 as 1. The outputs are as the model gives them, on its device. Throws
/// ValueError for a model whose outputs are no features of a next step, or with a layer that is not causal.
Tensor<float> outputs_ahead(SequenceModel<float>& model, const Batch& batch, Index count);

/// As `outputs_ahead`, where `outputs` are those of the last forward of the model, which was of this batch.
Tensor<float> outputs_after(SequenceModel<float>& model, const Batch& batch, TensorView<const float> outputs,
                            Index count);

/// The task's metrics of frames on its test data, for the 1st to the last of `count` frames ahead: the model
/// reads all frames of a clip but the last `count`. `after_batch` is called after each batch. Throws as
/// `outputs_ahead`, and ValueError unless `count` is 1 to the task's length.
std::vector<std::vector<MetricValue>> metrics_ahead(SequenceModel<float>& model, const Task& task,
                                                    Index count,
                                                    const std::function<void()>& after_batch = {});

}  // namespace orthornn
