#pragma once
// How results say where and how they were computed.

#include <nlohmann/json.hpp>
#include <string>

#include "orthornn/nn/sequence_model.hpp"

namespace orthornn::program {

/// processor, device, threads, precision, and for a GPU what it is.
nlohmann::ordered_json machine_fields(const Execution& execution);
/// The device with its name, and the precision: "cuda:0 (NVIDIA H200, ..), tf32".
std::string machine_text(const Execution& execution);

/// How each cell of a model computes its recurrence of so many steps and sequences: cell, form, hidden,
/// rollout. Throws ValueError where the way that the model's execution names does not take them.
nlohmann::ordered_json recurrences(const SequenceModel<float>& model, Index length, Index batch);
/// The same, a line for each cell.
void print_recurrences(const SequenceModel<float>& model, Index length, Index batch);

}  // namespace orthornn::program
