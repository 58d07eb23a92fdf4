#include "bench/cudnn_rnn.hpp"

#include <cudnn.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/random_tensors.hpp"
#include "commands/program.hpp"
#include "core/set_zero.hpp"  // not public
#include "orthornn/scalar/bfloat16.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

/// cuDNN does not take it: another algorithm may.
class CudnnError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

void check(cudnnStatus_t status, std::source_location place = std::source_location::current()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw CudnnError(
      fmt::format("cuDNN says: {} ({}:{})", cudnnGetErrorString(status), place.file_name(), place.line()));
}

/// One of cuDNN's objects, destroyed in the end.
template <class Object, cudnnStatus_t (*create)(Object*), cudnnStatus_t (*destroy)(Object)>
class Owned {
 public:
  Owned() { check(create(&object_)); }
  ~Owned() { destroy(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Object() const { return object_; }

 private:
  Object object_ = nullptr;
};
using Handle = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using Dropout = Owned<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;
using Rnn = Owned<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using Sequences =
    Owned<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using State = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

/// A way to compute that cuDNN may have for the sizes.
struct Algorithm {
  const char* name;
  cudnnRNNAlgo_t algorithm;
  cudnnMathType_t math;
};

std::vector<Algorithm> algorithms(Precision precision) {
  constexpr auto standard = CUDNN_RNN_ALGO_STANDARD, persistent = CUDNN_RNN_ALGO_PERSIST_STATIC,
                 small = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  const cudnnMathType_t math = precision == Precision::fp32   ? CUDNN_FMA_MATH
                               : precision == Precision::tf32 ? CUDNN_DEFAULT_MATH
                                                              : CUDNN_TENSOR_OP_MATH;
  std::vector<Algorithm> all = {{"standard", standard, math},
                                {"persist-static", persistent, math},
                                {"persist-static-small-h", small, math}};
  // cuDNN has two arithmetics of 11-bit significands: TensorFloat-32, and halves.
  constexpr cudnnMathType_t halves = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  if (precision == Precision::tf32) {
    all.push_back({"standard-fp16", standard, halves});
    all.push_back({"persist-static-fp16", persistent, halves});
    all.push_back({"persist-small-h-fp16", small, halves});
  }
  return all;
}

/// What cuDNN calls a layer, and its blocks of N weight rows.
struct Kind {
  cudnnRNNMode_t mode;
  Index gates;
};

Kind kind_of(CudnnLayer layer) {
  return layer == CudnnLayer::lstm  ? Kind{CUDNN_LSTM, 4}
         : layer == CudnnLayer::gru ? Kind{CUDNN_GRU, 3}
                                    : Kind{CUDNN_RNN_TANH, 1};
}

struct RnnSizes {
  Index hidden, length, batch;
};

/// The layer by one algorithm, of numbers of T: float or bfloat16.
template <class T>
class CudnnRnn {
 public:
  /// Throws CudnnError where cuDNN refuses.
  CudnnRnn(CudnnLayer layer, Device device, const RnnSizes& sizes, const Algorithm& algorithm)
      : h_first_({sizes.batch, sizes.hidden}, device),
        h_last_(h_first_.shape(), device),
        d_h_first_(h_first_.shape(), device) {
    check(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream_of(device))));
    check(cudnnSetDropoutDescriptor(dropout_, handle_, 0, nullptr, 0, 0));
    constexpr cudnnDataType_t type = std::is_same_v<T, float> ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
    const int hidden = static_cast<int>(sizes.hidden), length = static_cast<int>(sizes.length),
              batch = static_cast<int>(sizes.batch), inputs = static_cast<int>(measured_input_size);
    check(cudnnSetRNNDescriptor_v8(rnn_, algorithm.algorithm, kind_of(layer).mode, CUDNN_RNN_DOUBLE_BIAS,
                                   CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT,
                                   algorithm.math, inputs, hidden, hidden, 1, dropout_,
                                   CUDNN_RNN_PADDED_IO_ENABLED));
    const std::vector<int> lengths(static_cast<std::size_t>(batch), length);
    constexpr auto layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
    check(cudnnSetRNNDataDescriptor(x_, type, layout, length, batch, inputs, lengths.data(), nullptr));
    check(cudnnSetRNNDataDescriptor(y_, type, layout, length, batch, hidden, lengths.data(), nullptr));
    const int state_shape[] = {1, batch, hidden}, state_strides[] = {batch * hidden, hidden, 1};
    check(cudnnSetTensorNdDescriptor(state_, type, 3, state_shape, state_strides));
    lengths_ = filled_tensor<std::int32_t>(Shape{sizes.batch}, device, length);
    allocate(layer, device, sizes);
  }

  void forward() {
    check(cudnnRNNForward(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, lengths_.data(), x_, inputs_.data(), y_,
                          outputs_.data(), state_, h_first_.data(), h_last_.data(), state_, c_first_.data(),
                          c_last_.data(), bytes_of(weights_), weights_.data(), bytes_of(work_), work_.data(),
                          bytes_of(reserve_), reserve_.data()));
  }

  void backward() {
    check(cudnnRNNBackwardData_v8(handle_, rnn_, lengths_.data(), y_, outputs_.data(), d_outputs_.data(), x_,
                                  d_inputs_.data(), state_, h_first_.data(), nullptr, d_h_first_.data(),
                                  state_, c_first_.data(), nullptr, d_c_first_.data(), bytes_of(weights_),
                                  weights_.data(), bytes_of(work_), work_.data(), bytes_of(reserve_),
                                  reserve_.data()));
    set_zero(d_weights_.view());  // cuDNN only adds to it
    check(cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, lengths_.data(), x_, inputs_.data(),
                                     state_, h_first_.data(), y_, outputs_.data(), bytes_of(d_weights_),
                                     d_weights_.data(), bytes_of(work_), work_.data(), bytes_of(reserve_),
                                     reserve_.data()));
  }

 private:
  template <class Number>
  static std::size_t bytes_of(const Tensor<Number>& x) {
    return x.shape().bytes(sizeof(Number));
  }

  void allocate(CudnnLayer layer, Device device, const RnnSizes& sizes) {
    std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
    check(cudnnGetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes));
    check(cudnnGetRNNTempSpaceSizes(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, x_, &work_bytes, &reserve_bytes));
    work_ = Tensor<std::byte>(Shape{static_cast<Index>(work_bytes)}, device);
    reserve_ = Tensor<std::byte>(Shape{static_cast<Index>(reserve_bytes)}, device);
    inputs_ = normal_tensor<T>({sizes.length, sizes.batch, measured_input_size}, device, 3);
    d_inputs_ = Tensor<T>(inputs_.shape(), device);
    d_outputs_ = normal_tensor<T>({sizes.length, sizes.batch, sizes.hidden}, device, 4);
    outputs_ = Tensor<T>(d_outputs_.shape(), device);
    const float deviation = 1 / std::sqrt(static_cast<float>(sizes.hidden));
    weights_ = normal_tensor<T>(Shape{static_cast<Index>(weight_bytes / sizeof(T))}, device, 5,
                                [&](float x) { return deviation * x; });
    d_weights_ = Tensor<T>(weights_.shape(), device);
    if (layer != CudnnLayer::lstm) return;  // cuDNN knows by null that a layer has no such state
    for (Tensor<T>* state : {&c_first_, &c_last_, &d_c_first_}) *state = Tensor<T>(h_first_.shape(), device);
  }

  Handle handle_;
  Dropout dropout_;
  Rnn rnn_;
  Sequences x_, y_;
  State state_;
  Tensor<T> h_first_, h_last_, d_h_first_, c_first_, c_last_, d_c_first_;
  Tensor<T> inputs_, d_inputs_, outputs_, d_outputs_, weights_, d_weights_;
  Tensor<std::byte> work_, reserve_;
  Tensor<std::int32_t> lengths_;
};

template <class T>
Pass pass_of(CudnnLayer layer, Device device, const RnnSizes& sizes, const Algorithm& algorithm) {
  const auto rnn = std::make_shared<CudnnRnn<T>>(layer, device, sizes, algorithm);
  return {.forward = [rnn] { rnn->forward(); }, .backward = [rnn] { rnn->backward(); }, .recordable = false};
}

std::string cudnn_version() {
  const std::size_t number = cudnnGetVersion();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

Measured measured_cudnn_rnn(const std::string& cell, CudnnLayer layer, Index hidden, Index length,
                            Index batch, const Execution& execution) {
  if (!execution.device.is_cuda()) {
    throw UsageError(
        fmt::format("{} runs on a GPU, and this would run on the CPU; leave it out of --cells, "
                    "or use --device cuda",
                    cell));
  }
  const RnnSizes sizes{hidden, length, batch};
  const auto pass_by = [&](const Algorithm& algorithm) {
    return execution.precision == Precision::bf16
               ? pass_of<bfloat16>(layer, execution.device, sizes, algorithm)
               : pass_of<float>(layer, execution.device, sizes, algorithm);
  };
  constexpr Index trials = 5;
  std::optional<Algorithm> fastest;
  double least = 0;
  std::string refusals;
  for (const Algorithm& algorithm : algorithms(execution.precision)) {
    try {
      const double time = median(take_samples(execution.device, pass_by(algorithm), trials).total_ms);
      if (!fastest || time < least) {
        fastest = algorithm;
        least = time;
      }
    } catch (const CudnnError& refusal) {
      refusals += fmt::format("; {}: {}", algorithm.name, refusal.what());
    }
  }
  if (!fastest) {
    throw DeviceError(
        fmt::format("no algorithm of cuDNN takes {} of hidden size {}, batch {}, {} steps in {}{}", cell,
                    hidden, batch, length, name_of(execution.precision), refusals));
  }
  Measured measured{.fields = {{"form", "cudnn"},
                               {"hidden", hidden},
                               {"reflections", 0},
                               {"rollout", fastest->name},
                               {"input_size", measured_input_size},
                               {"cudnn", cudnn_version()}},
                    .pass = pass_by(*fastest),
                    .flops = flops_of_gates(kind_of(layer).gates, hidden, length, batch)};
  if (layer == CudnnLayer::tanh) measured.fields["activation"] = "tanh";
  return measured;
}

}  // namespace orthornn::program
