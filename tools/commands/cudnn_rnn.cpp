#include "commands/cudnn_rnn.hpp"

#include <cudnn.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "commands/measured_layer.hpp"
#include "commands/program.hpp"
#include "commands/timed_pass.hpp"
#include "commands/timing.hpp"
#include "core/set_zero.hpp"  // not public

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

constexpr auto standard = CUDNN_RNN_ALGO_STANDARD, persistent = CUDNN_RNN_ALGO_PERSIST_STATIC,
               small = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
constexpr Algorithm fp32_algorithms[] = {{"standard", standard, CUDNN_FMA_MATH},
                                         {"persist-static", persistent, CUDNN_FMA_MATH},
                                         {"persist-static-small-h", small, CUDNN_FMA_MATH}};
/// cuDNN has two arithmetics of 11-bit significands: TensorFloat-32, and halves.
constexpr Algorithm tf32_algorithms[] = {
    {"standard", standard, CUDNN_DEFAULT_MATH},
    {"persist-static", persistent, CUDNN_DEFAULT_MATH},
    {"persist-static-small-h", small, CUDNN_DEFAULT_MATH},
    {"standard-fp16", standard, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
    {"persist-static-fp16", persistent, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
    {"persist-small-h-fp16", small, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION}};
constexpr Algorithm bf16_algorithms[] = {{"standard", standard, CUDNN_TENSOR_OP_MATH},
                                         {"persist-static", persistent, CUDNN_TENSOR_OP_MATH},
                                         {"persist-static-small-h", small, CUDNN_TENSOR_OP_MATH}};

std::span<const Algorithm> algorithms(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return fp32_algorithms;
    case Precision::tf32:
      return tf32_algorithms;
    case Precision::bf16:
      return bf16_algorithms;
  }
  return {};
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

struct Sizes {
  Index hidden, length, batch;
};

/// Memory of a GPU for numbers of the kind that the RNN has.
class Numbers {
 public:
  Numbers(Device device, std::size_t bytes) : bytes_(Shape{static_cast<Index>(bytes)}, device) {}

  void* data() { return bytes_.data(); }
  std::size_t size() const { return static_cast<std::size_t>(bytes_.size()); }
  void set_zero() { orthornn::set_zero(bytes_.view()); }
  /// Normal numbers of this standard deviation.
  void fill(Precision precision, double deviation, std::uint64_t stream) {
    const bool halved = precision == Precision::bf16;
    const Index count = bytes_.size() / (halved ? 2 : 4);
    Tensor<float> drawn(Shape{count});
    fill_normal(drawn, stream);
    for (float& x : drawn) x *= static_cast<float>(deviation);
    if (!halved) return detail::copy_bytes(bytes_.device(), data(), Device::cpu(), drawn.data(), size());
    std::vector<std::uint16_t> short_numbers;
    short_numbers.reserve(static_cast<std::size_t>(count));
    // Cut, not rounded: to be timed with, any numbers will do.
    for (const float x : drawn)
      short_numbers.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
    detail::copy_bytes(bytes_.device(), data(), Device::cpu(), short_numbers.data(), size());
  }

 private:
  Tensor<std::byte> bytes_;
};

/// Numbers that are there; else nullptr, by which cuDNN knows that a layer has no such state.
void* data_of(std::optional<Numbers>& numbers) { return numbers ? numbers->data() : nullptr; }

/// The layer by one algorithm.
class CudnnRnn final : public Measured {
 public:
  /// Throws CudnnError where cuDNN refuses.
  CudnnRnn(CudnnLayer layer, const Execution& execution, const Sizes& sizes, const Algorithm& algorithm)
      : layer_(layer),
        device_(execution.device),
        precision_(execution.precision),
        sizes_(sizes),
        algorithm_(algorithm),
        pass_(device_, false, {.forward = [this] { forward(); }, .backward = [this] { backward(); }}) {
    check(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream_of(device_))));
    check(cudnnSetDropoutDescriptor(dropout_, handle_, 0, nullptr, 0, 0));
    const bool halved = precision_ == Precision::bf16;
    const cudnnDataType_t type = halved ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
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

    std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
    check(cudnnGetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes));
    check(cudnnGetRNNTempSpaceSizes(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, x_, &work_bytes, &reserve_bytes));
    const std::size_t width = halved ? 2 : 4;
    const auto numbers = [&](std::optional<Numbers>& to, Index count) {
      to.emplace(device_, static_cast<std::size_t>(count) * width);
    };
    const Index steps = sizes.length * sizes.batch;
    for (auto* inputs_like : {&inputs_, &d_inputs_}) numbers(*inputs_like, steps * measured_input_size);
    for (auto* outputs_like : {&outputs_, &d_outputs_}) numbers(*outputs_like, steps * sizes.hidden);
    for (auto* state : {&h_first_, &h_last_, &d_h_first_}) numbers(*state, sizes.batch * sizes.hidden);
    if (layer == CudnnLayer::lstm) {
      for (auto* state : {&c_first_, &c_last_, &d_c_first_}) numbers(*state, sizes.batch * sizes.hidden);
      c_first_->set_zero();
    }
    for (auto* weights : {&weights_, &d_weights_}) weights->emplace(device_, weight_bytes);
    work_.emplace(device_, work_bytes);
    reserve_.emplace(device_, reserve_bytes);
    lengths_ = Tensor<std::int32_t>(Shape{sizes.batch}, device_);
    copy<std::int32_t>(TensorView<const std::int32_t>(lengths.data(), lengths_.shape()), lengths_);
    inputs_->fill(precision_, 1, 3);
    d_outputs_->fill(precision_, 1, 4);
    weights_->fill(precision_, 1 / std::sqrt(static_cast<double>(sizes.hidden)), 5);
    h_first_->set_zero();
  }

  Sample run() override { return pass_.run(); }
  std::string cell() const override { return name_of(layer_); }
  std::string form() const override { return "cudnn"; }
  Index hidden_size() const override { return sizes_.hidden; }
  double flops() const override {
    return flops_of_gates(kind_of(layer_).gates, sizes_.hidden, sizes_.length, sizes_.batch);
  }
  nlohmann::ordered_json details() override {
    const std::size_t number = cudnnGetVersion();
    nlohmann::ordered_json json;
    if (layer_ == CudnnLayer::tanh) json["activation"] = "tanh";
    json.update({{"rollout", algorithm_.name},
                 {"input_size", measured_input_size},
                 {"cudnn", fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)}});
    return json;
  }

 private:
  void forward() {
    check(cudnnRNNForward(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, lengths_.data(), x_, inputs_->data(), y_,
                          outputs_->data(), state_, h_first_->data(), h_last_->data(), state_,
                          data_of(c_first_), data_of(c_last_), weights_->size(), weights_->data(),
                          work_->size(), work_->data(), reserve_->size(), reserve_->data()));
  }

  void backward() {
    check(cudnnRNNBackwardData_v8(handle_, rnn_, lengths_.data(), y_, outputs_->data(), d_outputs_->data(),
                                  x_, d_inputs_->data(), state_, h_first_->data(), nullptr,
                                  d_h_first_->data(), state_, data_of(c_first_), nullptr, data_of(d_c_first_),
                                  weights_->size(), weights_->data(), work_->size(), work_->data(),
                                  reserve_->size(), reserve_->data()));
    d_weights_->set_zero();  // cuDNN only adds to it
    check(cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, lengths_.data(), x_,
                                     inputs_->data(), state_, h_first_->data(), y_, outputs_->data(),
                                     d_weights_->size(), d_weights_->data(), work_->size(), work_->data(),
                                     reserve_->size(), reserve_->data()));
  }

  CudnnLayer layer_;
  Device device_;
  Precision precision_;
  Sizes sizes_;
  Algorithm algorithm_;
  TimedPass pass_;
  Handle handle_;
  Dropout dropout_;
  Rnn rnn_;
  Sequences x_, y_;
  State state_;
  std::optional<Numbers> inputs_, d_inputs_, outputs_, d_outputs_, h_first_, h_last_, d_h_first_, c_first_,
      c_last_, d_c_first_, weights_, d_weights_, work_, reserve_;
  Tensor<std::int32_t> lengths_;
};

}  // namespace

std::unique_ptr<Measured> make_cudnn_rnn(CudnnLayer layer, const Execution& execution, Index hidden,
                                         Index length, Index batch) {
  if (!execution.device.is_cuda()) {
    throw UsageError(
        fmt::format("{} runs on a GPU, and this would run on the CPU; leave it out of --cells, "
                    "or use --device cuda",
                    name_of(layer)));
  }
  constexpr int trials = 5;
  std::optional<Algorithm> fastest;
  double least = 0;
  std::string refusals;
  const Sizes sizes{hidden, length, batch};
  for (const Algorithm& algorithm : algorithms(execution.precision)) {
    try {
      CudnnRnn rnn(layer, execution, sizes, algorithm);
      for (int i = 0; i < warm_up_runs(execution.device); ++i) rnn.run();
      std::vector<double> totals;
      for (int i = 0; i < trials; ++i) {
        const Sample sample = rnn.run();
        totals.push_back(sample.forward_ms + sample.backward_ms);
      }
      const double time = median(totals);
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
        fmt::format("no algorithm of cuDNN takes {} of hidden size {}, batch {}, {} steps in {}{}",
                    name_of(layer), hidden, batch, length, name_of(execution.precision), refusals));
  }
  return std::make_unique<CudnnRnn>(layer, execution, sizes, *fastest);
}

}  // namespace orthornn::program
