#include "commands/field_options.hpp"

namespace orthornn::program {
namespace {

/// Fields whose option is not their key with dashes.
const FlagOfField named_flags[] = {
    {"hidden_size", "--hidden", "the task's default"},
    {"length", "--length", "adding 200, language 40, recall 64, words 128, a text 128"},
    {"heads", "--heads", "{}, or that of words, language or --init exact"},
    {"key_size", "--key-size", "{}, or that of words, language or --init exact"},
    {"value_size", "--value-size", "{}, or that of words, language or --init exact"},
    {"householder", "--householder", "{}, or that of --init exact"},
    {"beta_offset", "--beta-offset", "{}, or that of words or language"},
    {"vector_activation", "--vector-activation", "{}, or that of words or language"},
    {"convolution", "--convolution", "{}, or that of language"},
    {"readout_norm", "--readout-norm", "{}, none with --init exact"},
    {"mlp_size", "--mlp-size", "{}, or that of --init exact"},
    {"learn_initial_state", "--learn-initial-state",
     "zeros, or with deltaproduct as words or language has it"},
    {"without_values", "--without-values", "with values, or as words or language has it"},
    {"curriculum", "--curriculum", "0; with deltaproduct a tenth of --steps or less"},
    {"height", ""},  // the task's
    {"width", ""},
    {"source_symbols", ""},
    {"target_symbols", ""},
    {"activation", "--activation", "modrelu; relu for translate"},
    {"init", ""},  // train has an option of its own for it
    {"batch", "--batch", "the task's default"},
    {"lr", "--lr", "the default of task and cell, for their own --optimizer"},
    {"lr_orthogonal", "--lr-orth", "the share of --lr that task and cell have"},
    {"decay", "--rmsprop-decay"},
    {"state_decay", "--decay"},
    {"weight_decay", "--weight-decay", "0, adamw 0.01, or that of words or language with deltaproduct"},
    {"clip", "--clip", "the task's default"},
    {"kind", "--schedule"},
    {"warmup_steps", "--warmup", "0, or a tenth of --steps with --cell free"},
    {"total_steps", "--steps", "the task's default, 0 with --init exact"},
    {"step_every", "--schedule-every", "", 1},
    {"step_factor", "--schedule-factor"},
    {"final_factor", "--schedule-final"}};

}  // namespace

FlagOfField flag_of(const std::string& key) {
  for (const FlagOfField& named : named_flags) {
    if (named.key == key) return named;
  }
  std::string flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return {key, flag};
}

bool OwnedOption::belongs_to(const std::string& owner) const {
  return std::ranges::find(owners, owner) != owners.end();
}

bool OwnedOption::is_chosen() const {
  return std::ranges::any_of(choices(), [&](const std::string& name) { return belongs_to(name); });
}

void OwnedOption::check() const {
  if (is_chosen()) return;
  throw UsageError(fmt::format("{} is an option of {} {}, not of {}", option->get_name(), chooser,
                               one_of(owners), fmt::join(choices(), " and ")));
}

std::string OwnedOption::text() const {
  const std::vector<std::string> chosen = choices();
  const auto owner = std::ranges::find_first_of(chosen, owners);
  return texts[owner == chosen.end()
                   ? 0
                   : static_cast<std::size_t>(std::ranges::find(owners, *owner) - owners.begin())]();
}

void OwnedOption::show_owners() const {
  option->description(fmt::format("{}: {}", fmt::join(owners, ", "), option->get_description()));
}

void add_owned(std::list<OwnedOption>& owned, CLI::Option* option, const char* chooser,
               std::function<std::vector<std::string>()> choices, std::vector<std::string> owners) {
  owned.push_back({option, chooser, std::move(choices), std::move(owners)});
  owned.back().show_owners();
}

}  // namespace orthornn::program
