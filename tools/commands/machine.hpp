#pragma once
// The machine: how results say where and how they were computed, and what memory it has.

#include <string>
#include <string_view>

#include "core/checked_json.hpp"
#include "orthornn/nn/sequence_model.hpp"

namespace orthornn::program {

/// processor, device, threads, precision, and for a GPU what it is.
Json machine_fields(const Execution& execution);
/// How results say what made them: the command line as a shell takes it, the machine, and the commit of the
/// git repository of the working folder, where there is one.
Json origin_fields(const Execution& execution);
/// The device with its name, and the precision: "cuda:0 (NVIDIA H200, ..), tf32".
std::string machine_text(const Execution& execution);
/// The same for another name of the precision.
std::string machine_text(Device device, std::string_view precision);

/// As `rollout_way`, but that --rollout names a way that does not take the sizes is wrong use: UsageError.
RolloutWay chosen_way(const Transition<float>& transition, Index length, Index batch);

/// As `Layer::describe`, with the same UsageError.
LayerDescription chosen_description(const Layer<float>& layer, const Execution& execution, Index length,
                                    Index batch);

/// How each cell of a model computes its recurrence of so many steps and sequences: cell, form, hidden,
/// rollout, and the layers within it, which have the same. Throws as `chosen_way`.
Json recurrences(const Model<float>& model, Index length, Index batch);
/// Of the first recurrence of those `cells` that has one; else empty.
std::string first_form(const Json& cells);
/// A line for each recurrence of those `cells`.
void print_recurrences(const Json& cells, const Execution& execution, Index length, Index batch);

/// Linux gives memory that it does not have, and ends a program that uses it. So what work takes on the CPU
/// is estimated before. Throws Error, which begins with `work`, where these bytes are more than are free.
void check_free_memory(const std::string& work, double bytes, const char* advice);

}  // namespace orthornn::program
