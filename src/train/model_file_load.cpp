#include <fmt/format.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/fill_on_host.hpp"
#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

/// From few reflection vectors the dense form of CWY makes N x N numbers, more than a file of their size may
/// ask for. Such a cell is computed in its factored form, which gives the same outputs up to rounding.
/// Everything else that a load allocates is a small multiple of the parameters.
class BoundedForms {
 public:
  explicit BoundedForms(double allowed) : allowed_(allowed) {}

  /// `copies`: how often a model has these layers; both directions have theirs.
  void bound(std::vector<LayerOptions>& layers, double copies) {
    for (LayerOptions& layer : layers) {
      std::visit(
          [&]<class Options>(Options& chosen) {
            if constexpr (std::is_same_v<Options, OrthogonalCell>) bound(chosen, copies);
            if constexpr (requires { chosen.layers; })
              bound(chosen.layers, std::is_same_v<Options, Bidirectional> ? 2 * copies : copies);
          },
          layer);
    }
  }

 private:
  void bound(OrthogonalCell& cell, double copies) {
    auto* cwy = std::get_if<Cwy>(&cell.transition);
    if (cwy == nullptr) return;
    if (cwy->form == ReflectionForm::factored || cwy->form == ReflectionForm::sequential) return;
    const auto n = static_cast<double>(cell.hidden_size);
    numbers_ += copies * n * n;
    if (numbers_ > allowed_) cwy->form = ReflectionForm::factored;
  }

  double allowed_;
  double numbers_ = 0;
};

/// Numbers that all dense forms of such a model may have.
template <class Options>
double largest_forms(const Options& options) {
  constexpr double always_allowed = 8192.0 * 8192.0;  // 256 MiB of floats
  constexpr double for_each_parameter = 16;
  return always_allowed + for_each_parameter * static_cast<double>(parameter_layout<float>(options).count());
}

ModelOptions with_bounded_forms(ModelOptions options) {
  BoundedForms(largest_forms(options)).bound(options.cells, 1);
  return options;
}

EncoderDecoderOptions with_bounded_forms(EncoderDecoderOptions options) {
  BoundedForms forms(largest_forms(options));
  forms.bound(options.encoder, 1);
  forms.bound(options.decoder, 1);
  return options;
}

/// A model with those of the file's options that are `Options`, prepared.
template <class Made, class Options>
std::unique_ptr<Made> loaded(const Hdf5Reader& reader, const Options& options, const Execution& execution) {
  try {
    // Sizes are compared before memory of these sizes is taken.
    expect_parameters(reader, "parameters", parameter_layout<float>(options));
    auto model = std::make_unique<Made>(execution, with_bounded_forms(options), Undrawn{});
    fill_on_host(model->parameters().values().view(), [&](TensorView<float> values) {
      read_parameters(reader, "parameters", model->parameters(), values);
    });
    model->prepare();
    model->synchronize();  // a GPU says only then that the parameters are none
    return model;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    refuse(reader, error.what());
  }
}

/// `loaded` where the file has a model of these options; throws FileError, which names both kinds, elsewhere.
template <class Made, class Options>
std::unique_ptr<Made> loaded_as(const std::filesystem::path& file, const Execution& execution,
                                ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  const auto* options = std::get_if<Options>(&found.model);
  if (options == nullptr) {
    if (const auto* own = std::get_if<OwnModelOptions>(&found.model)) refuse(reader, unknown_kind(*own));
    refuse(reader, fmt::format("its model is {}; expected {}", kind_of(found.model), kind_of(Options{})));
  }
  auto model = loaded<Made>(reader, *options, execution);
  if (info) *info = std::move(found);
  return model;
}

}  // namespace

std::unique_ptr<Model<float>> load_any_model(const std::filesystem::path& file, const Execution& execution,
                                             ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  auto model = std::visit(
      [&]<class Options>(const Options& options) -> std::unique_ptr<Model<float>> {
        if constexpr (std::is_same_v<Options, OwnModelOptions>) {
          refuse(reader, unknown_kind(options));
        } else {
          using Made = std::conditional_t<std::is_same_v<Options, ModelOptions>, SequenceModel<float>,
                                          EncoderDecoder<float>>;
          return loaded<Made>(reader, options, execution);
        }
      },
      found.model);
  if (info) *info = std::move(found);
  return model;
}

std::unique_ptr<SequenceModel<float>> load_model(const std::filesystem::path& file,
                                                 const Execution& execution, ModelFileInfo* info) {
  return loaded_as<SequenceModel<float>, ModelOptions>(file, execution, info);
}

std::unique_ptr<EncoderDecoder<float>> load_encoder_decoder(const std::filesystem::path& file,
                                                            const Execution& execution, ModelFileInfo* info) {
  return loaded_as<EncoderDecoder<float>, EncoderDecoderOptions>(file, execution, info);
}

}  // namespace orthornn
