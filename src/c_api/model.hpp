#pragma once
// What a handle of the C interface to a model holds.

#include <memory>
#include <optional>
#include <string>

#include "c_api/arguments.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/translator.hpp"

/// A model with what its file says besides.
struct orthornn_model {
  explicit orthornn_model(std::unique_ptr<orthornn::Model<float>> made) : model(std::move(made)) {}

  std::unique_ptr<orthornn::Model<float>> model;
  /// Empty for a model that was made from options.
  std::optional<orthornn::ModelFileInfo> info;
  /// Null where none is known.
  std::unique_ptr<orthornn::Task> task;
  /// Of an encoder-decoder, once it was asked for a translation.
  std::unique_ptr<orthornn::Translator> translator;
  /// Texts that the caller reads.
  std::string description, translations, generated;
  /// Whether parameters were set since the model was prepared.
  bool changed = false;

  /// Throws ValueError for a model of another kind.
  orthornn::SequenceModel<float>& sequence_model();
  orthornn::EncoderDecoder<float>& encoder_decoder();
  /// Prepares the model where its parameters have changed.
  void prepare();
  /// Order of the steps of the model's own; empty for none.
  orthornn::ConstTensorView<std::int32_t> order() const;
  /// Whether all layers read forward, so that the model has states at every step.
  bool is_causal();
  /// Whether it can run step by step: it reads the steps in the order of the caller, too.
  bool runs_step_by_step() { return is_causal() && order().empty(); }
  /// Numbers K of a step as callers give them; no value for a symbol.
  std::optional<orthornn::Index> caller_numbers();
};

namespace orthornn::c_api {

/// False for null.
inline bool is_on_gpu(const orthornn_model* model) {
  return model != nullptr && model->model->device().is_cuda();
}

/// Calls the body with the model of a handle. Throws ArgumentError for null.
template <class Body>
orthornn_status with_model(orthornn_model* model, const Body& body) noexcept {
  return guarded(is_on_gpu(model), [&] { body(not_null("model", model)); });
}

}  // namespace orthornn::c_api
