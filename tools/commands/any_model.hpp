#pragma once
// Models of the kinds that model files hold.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {

/// A model of these options with parameters from `seed`, or all zero without one.
std::unique_ptr<Model<float>> make_model(const Execution& execution, const AnyModelOptions& options,
                                         std::optional<std::uint64_t> seed);

/// Numbers in all parameters of such a model. Throws as `parameter_layout`.
Index parameter_count(const AnyModelOptions& options);
/// Throws as `parameter_layout`.
void check_sizes(const AnyModelOptions& options);

/// Steps that a sequence may have: the fewest of the layers of positions, and those within others; nothing
/// without such a layer.
std::optional<Index> fewest_positions(const std::vector<LayerOptions>& layers);

/// Throws UsageError, which begins with `option`, for a model in `file` that reads backward in time too.
void check_reads_forward(const char* option, const std::string& file, const SequenceModel<float>& model);

/// The layers of the options in the order of `Model::describe`; empty for a program's own model.
std::vector<LayerOptions> layers_of(const AnyModelOptions& options);

}  // namespace orthornn::program
