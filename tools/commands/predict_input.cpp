#include "commands/predict_input.hpp"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "commands/suggestion.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn::program {

Batch read_predict_input(const std::string& file, const ModelOptions& model,
                         const Tensor<std::int32_t>& order, const Task* task) {
  const Hdf5Reader reader(file);
  if (!reader.has("x")) throw FileError(fmt::format("{}: no dataset '/x'", file));
  // A misnamed /lengths would change the outputs without a word.
  for (const std::string& name : reader.names("/")) {
    if (name == "x" || name == "lengths") continue;
    throw FileError(fmt::format("{}: it has '/{}'{}; predict reads /x and /lengths, expected these alone",
                                file, name, did_you_mean("/" + name, {"/lengths"})));
  }
  const Shape shape = reader.shape("x");
  Batch batch;
  if (const auto* dense = std::get_if<DenseInput>(&model.input)) {
    const auto refuse = [&] {
      throw FileError(fmt::format("{}: /x has shape {} of {}; this model reads floats [T, B, {}]", file,
                                  to_string(shape), reader.is_integer("x") ? "integers" : "floats",
                                  dense->size));
    };
    if (shape.rank() != 3 || reader.is_integer("x")) refuse();
    Tensor<float>& features = batch.reals(batch_names::features);
    features = reader.read<float>("x");
    if (task != nullptr) {
      try {
        features = task->own_features(features);
      } catch (const Error& error) {
        throw FileError(fmt::format("{}: /x: {}", file, error.what()));
      }
    }
    if (features.shape()[2] != dense->size) refuse();
    for (const float x : features) {
      if (!std::isfinite(x)) throw FileError(fmt::format("{}: /x holds a value that is not finite", file));
    }
    if (!order.empty()) {
      if (shape[0] != order.size()) {
        throw FileError(fmt::format("{}: /x has {} steps; this model reads {} in an order of its own", file,
                                    shape[0], order.size()));
      }
      const Tensor<float> original = features.copy();
      for (Index t = 0; t < order.size(); ++t) copy<float>(original.view()[order(t)], features.view()[t]);
    }
  } else {
    if (shape.rank() != 2 || !reader.is_integer("x")) {
      throw FileError(fmt::format("{}: /x has shape {} of {}; this model reads integer symbols [T, B]", file,
                                  to_string(shape), reader.is_integer("x") ? "integers" : "floats"));
    }
    batch.integers(batch_names::symbols) = reader.read<std::int32_t>("x");
  }
  if (shape.count() == 0)
    throw FileError(fmt::format("{}: /x is empty, its shape is {}", file, to_string(shape)));
  if (reader.has("lengths")) batch.integers(batch_names::lengths) = reader.read<std::int32_t>("lengths");
  return batch;
}

}  // namespace orthornn::program
