#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orthornn/core/error.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const DenseInput& input) { return {{"kind", "dense"}, {"size", input.size}}; }
Json json_of(const OneHot& input) { return {{"kind", "one_hot"}, {"symbols", input.symbols}}; }
Json json_of(const TokenEmbedding& input) {
  return {{"kind", "embedding"}, {"tokens", input.tokens}, {"size", input.size}};
}

InputOptions input_of(const Json& json) {
  const std::string kind = json.at("kind");
  if (kind == "dense") return DenseInput{json.at("size").get<Index>()};
  if (kind == "one_hot") return OneHot{json.at("symbols").get<Index>()};
  if (kind == "embedding")
    return TokenEmbedding{json.at("tokens").get<Index>(), json.at("size").get<Index>()};
  throw ValueError(fmt::format("unknown input '{}'", kind));
}

Json json_of(const EveryStep& readout) { return {{"kind", "every_step"}, {"outputs", readout.outputs}}; }
Json json_of(const LastStep& readout) { return {{"kind", "last_step"}, {"outputs", readout.outputs}}; }

ReadoutOptions readout_of(const Json& json) {
  const std::string kind = json.at("kind");
  if (kind == "every_step") return EveryStep{json.at("outputs").get<Index>()};
  if (kind == "last_step") return LastStep{json.at("outputs").get<Index>()};
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
  const std::string kind = json.at("kind");
  const Init init = parse_init(json.at("init"));
  if (kind == "cwy")
    return Cwy{json.at("reflections").get<Index>(), init, parse_reflection_form(json.at("form"))};
  if (kind == "householder") {
    return HouseholderProduct{json.at("reflections").get<Index>(), init,
                              json.at("rank_one_updates").get<bool>()};
  }
  if (kind == "cayley") return ScaledCayley{json.at("negative_signs").get<Index>(), init};
  if (kind == "expm") return MatrixExponential{init};
  if (kind == "free") return Unconstrained{init};
  throw ValueError(fmt::format("unknown cell '{}'", kind));
}

Json json_of(const OrthogonalCell& cell) {
  return {{"hidden_size", cell.hidden_size},
          {"transition", json_of(cell.transition)},
          {"activation", name_of(cell.activation)},
          {"input_matrix", name_of(cell.input_matrix)}};
}

OrthogonalCell cell_of(const Json& json) {
  return {.hidden_size = json.at("hidden_size").get<Index>(),
          .transition = transition_of(json.at("transition")),
          .activation = parse_activation(json.at("activation")),
          .input_matrix = parse_input_matrix(json.at("input_matrix"))};
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
  o.beta1 = json.at("beta1");
  o.beta2 = json.at("beta2");
  o.epsilon = json.at("epsilon");
  o.weight_decay = json.at("weight_decay");
  return o;
}

OptimizerOptions optimizer_of(const Json& json) {
  const std::string kind = json.at("kind");
  OptimizerOptions options;
  if (kind == "sgd") {
    options = Sgd{.momentum = json.at("momentum"), .weight_decay = json.at("weight_decay")};
  } else if (kind == "rmsprop") {
    options = RmsProp{
        .decay = json.at("decay"), .epsilon = json.at("epsilon"), .weight_decay = json.at("weight_decay")};
  } else if (kind == "adam") {
    options = adam_of<Adam>(json);
  } else if (kind == "adamw") {
    options = adam_of<AdamW>(json);
  } else {
    throw ValueError(fmt::format("unknown optimizer '{}'", kind));
  }
  std::visit(
      [&](auto& o) {
        o.lr = json.at("lr");
        if (json.contains("lr_orthogonal")) o.lr_orthogonal = json.at("lr_orthogonal").get<double>();
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
  return {.kind = parse_schedule(json.at("kind")),
          .warmup_steps = json.at("warmup_steps"),
          .total_steps = json.at("total_steps"),
          .step_every = json.at("step_every"),
          .step_factor = json.at("step_factor"),
          .final_factor = json.at("final_factor")};
}

template <class Read>
auto parse(const std::string& text, const char* what, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
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
    ModelOptions options{.input = input_of(json.at("input")),
                         .cells = {},
                         .readout = readout_of(json.at("readout")),
                         .loss = parse_loss(json.at("loss"))};
    for (const Json& cell : json.at("cells")) options.cells.push_back(cell_of(cell));
    return options;
  });
}

TrainerOptions trainer_options_from_json(const std::string& text) {
  return parse(text, "a training", [](const Json& json) {
    return TrainerOptions{.optimizer = optimizer_of(json.at("optimizer")),
                          .schedule = schedule_of(json.at("schedule")),
                          .clip = json.at("clip")};
  });
}

}  // namespace orthornn
