#include <fmt/format.h>

#include "core/checked_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn {
namespace {

Json json_of(const DenseInput& input) { return {{"kind", "dense"}, {"size", input.size}}; }
Json json_of(const OneHot& input) { return {{"kind", "one_hot"}, {"symbols", input.symbols}}; }
Json json_of(const TokenEmbedding& input) {
  return {{"kind", "embedding"}, {"tokens", input.tokens}, {"size", input.size}};
}

InputOptions input_of(const Json& json) {
  const std::string kind = text_member(json, "kind");
  if (kind == "dense") return DenseInput{integer_member(json, "size")};
  if (kind == "one_hot") return OneHot{integer_member(json, "symbols")};
  if (kind == "embedding")
    return TokenEmbedding{integer_member(json, "tokens"), integer_member(json, "size")};
  throw ValueError(fmt::format("unknown input '{}'", kind));
}

Json json_of(const EveryStep& readout) { return {{"kind", "every_step"}, {"outputs", readout.outputs}}; }
Json json_of(const LastStep& readout) { return {{"kind", "last_step"}, {"outputs", readout.outputs}}; }

ReadoutOptions readout_of(const Json& json) {
  const std::string kind = text_member(json, "kind");
  if (kind == "every_step") return EveryStep{integer_member(json, "outputs")};
  if (kind == "last_step") return LastStep{integer_member(json, "outputs")};
  throw ValueError(fmt::format("unknown readout '{}'", kind));
}

void add_options(Json& json, const Cwy& o) {
  json["reflections"] = o.reflections;
  json["form"] = name_of(o.form);
}
void add_options(Json& json, const HouseholderProduct& o) {
  json["reflections"] = o.reflections;
  json["rank_one_updates"] = o.rank_one_updates;
}
void add_options(Json& json, const ScaledCayley& o) { json["negative_signs"] = o.negative_signs; }
void add_options(Json&, const MatrixExponential&) {}
void add_options(Json&, const Unconstrained&) {}

Json json_of(const TransitionOptions& options) {
  Json json = {{"kind", name_of(options)}};
  std::visit(
      [&](const auto& o) {
        add_options(json, o);
        json["init"] = name_of(o.init);
      },
      options);
  return json;
}

TransitionOptions transition_of(const Json& json) {
  const std::string kind = text_member(json, "kind");
  const Init init = parse_init(text_member(json, "init"));
  if (kind == "cwy")
    return Cwy{integer_member(json, "reflections"), init, parse_reflection_form(text_member(json, "form"))};
  if (kind == "householder") {
    return HouseholderProduct{integer_member(json, "reflections"), init,
                              boolean_member(json, "rank_one_updates")};
  }
  if (kind == "cayley") return ScaledCayley{integer_member(json, "negative_signs"), init};
  if (kind == "expm") return MatrixExponential{init};
  if (kind == "free") return Unconstrained{init};
  throw ValueError(fmt::format("unknown cell '{}'", kind));
}

Json json_of(const OrthogonalCell& cell) {
  return {{"hidden_size", cell.hidden_size},
          {"transition", json_of(cell.transition)},
          {"activation", name_of(cell.activation)},
          {"input_matrix", name_of(cell.input_matrix)},
          {"learn_initial_state", cell.learn_initial_state}};
}

OrthogonalCell cell_of(const Json& json) {
  return {.hidden_size = integer_member(json, "hidden_size"),
          .transition = transition_of(object_member(json, "transition")),
          .activation = parse_activation(text_member(json, "activation")),
          .input_matrix = parse_input_matrix(text_member(json, "input_matrix")),
          // Files from before there was this option do not have it.
          .learn_initial_state =
              json.contains("learn_initial_state") && boolean_member(json, "learn_initial_state")};
}

Json json_of(const Sgd& o) {
  return {{"kind", "sgd"}, {"momentum", o.momentum}, {"weight_decay", o.weight_decay}};
}
Json json_of(const RmsProp& o) {
  return {{"kind", "rmsprop"}, {"decay", o.decay}, {"epsilon", o.epsilon}, {"weight_decay", o.weight_decay}};
}
template <class AdamOptions>
Json json_of_adam(const char* kind, const AdamOptions& o) {
  return {{"kind", kind},
          {"beta1", o.beta1},
          {"beta2", o.beta2},
          {"epsilon", o.epsilon},
          {"weight_decay", o.weight_decay}};
}
Json json_of(const Adam& o) { return json_of_adam("adam", o); }
Json json_of(const AdamW& o) { return json_of_adam("adamw", o); }

Json json_of(const OptimizerOptions& options) {
  return std::visit(
      [](const auto& o) {
        Json json = json_of(o);
        json["lr"] = o.lr;
        if (o.lr_orthogonal) json["lr_orthogonal"] = *o.lr_orthogonal;
        return json;
      },
      options);
}

template <class AdamOptions>
AdamOptions adam_of(const Json& json) {
  AdamOptions o;
  o.beta1 = real_member(json, "beta1");
  o.beta2 = real_member(json, "beta2");
  o.epsilon = real_member(json, "epsilon");
  o.weight_decay = real_member(json, "weight_decay");
  return o;
}

OptimizerOptions optimizer_of(const Json& json) {
  const std::string kind = text_member(json, "kind");
  OptimizerOptions options;
  if (kind == "sgd") {
    options =
        Sgd{.momentum = real_member(json, "momentum"), .weight_decay = real_member(json, "weight_decay")};
  } else if (kind == "rmsprop") {
    options = RmsProp{.decay = real_member(json, "decay"),
                      .epsilon = real_member(json, "epsilon"),
                      .weight_decay = real_member(json, "weight_decay")};
  } else if (kind == "adam") {
    options = adam_of<Adam>(json);
  } else if (kind == "adamw") {
    options = adam_of<AdamW>(json);
  } else {
    throw ValueError(fmt::format("unknown optimizer '{}'", kind));
  }
  std::visit(
      [&](auto& o) {
        o.lr = real_member(json, "lr");
        if (json.contains("lr_orthogonal")) o.lr_orthogonal = real_member(json, "lr_orthogonal");
      },
      options);
  return options;
}

Json json_of(const Schedule& schedule) {
  return {{"kind", name_of(schedule.kind)},      {"warmup_steps", schedule.warmup_steps},
          {"total_steps", schedule.total_steps}, {"step_every", schedule.step_every},
          {"step_factor", schedule.step_factor}, {"final_factor", schedule.final_factor}};
}

Schedule schedule_of(const Json& json) {
  return {.kind = parse_schedule(text_member(json, "kind")),
          .warmup_steps = integer_member(json, "warmup_steps"),
          .total_steps = integer_member(json, "total_steps"),
          .step_every = integer_member(json, "step_every"),
          .step_factor = real_member(json, "step_factor"),
          .final_factor = real_member(json, "final_factor")};
}

template <class Read>
auto parse(const std::string& text, const char* what, const Read& read) {
  try {
    return read(parse_json(text));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("this is not a description of {}: {}", what, error.what()));
  }
}

}  // namespace

std::string to_json(const ModelOptions& options) {
  Json cells = Json::array();
  for (const OrthogonalCell& cell : options.cells) cells.push_back(json_of(cell));
  const auto visit = [](const auto& o) { return json_of(o); };
  return Json{{"input", std::visit(visit, options.input)},
              {"cells", cells},
              {"readout", std::visit(visit, options.readout)},
              {"loss", name_of(options.loss)}}
      .dump();
}

std::string to_json(const TrainerOptions& options) {
  return Json{{"optimizer", json_of(options.optimizer)},
              {"schedule", json_of(options.schedule)},
              {"clip", options.clip}}
      .dump();
}

ModelOptions model_options_from_json(const std::string& text) {
  return parse(text, "a model", [](const Json& json) {
    ModelOptions options{.input = input_of(object_member(json, "input")),
                         .cells = {},
                         .readout = readout_of(object_member(json, "readout")),
                         .loss = parse_loss(text_member(json, "loss"))};
    for (const Json& cell : array_member(json, "cells")) options.cells.push_back(cell_of(cell));
    return options;
  });
}

TrainerOptions trainer_options_from_json(const std::string& text) {
  return parse(text, "a training", [](const Json& json) {
    return TrainerOptions{.optimizer = optimizer_of(object_member(json, "optimizer")),
                          .schedule = schedule_of(object_member(json, "schedule")),
                          .clip = real_member(json, "clip")};
  });
}

}  // namespace orthornn
