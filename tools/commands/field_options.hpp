#pragma once
// Options of the command line that are made from the fields of options types (core/fields.hpp): their types,
// checks, defaults and help. Which alternatives of a variant have a field says whose option it is.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "commands/program.hpp"

namespace orthornn::program {

/// A value as the command line and config.toml have it.
template <class Value>
std::string text_of(const Value& value) {
  if constexpr (is_a<Value, std::optional>) {
    return value ? text_of(*value) : "";
  } else if constexpr (HasNames<Value>) {
    return name_of(value);
  } else {
    return fmt::format("{}", value);
  }
}

/// Of text that its checks have accepted.
template <class Value>
void set_from_text(Value& value, const std::string& text) {
  if constexpr (is_a<Value, std::optional>) {
    set_from_text(value.emplace(), text);
  } else if constexpr (HasNames<Value>) {
    value = parse<Value>(text);
  } else if constexpr (std::same_as<Value, std::string>) {
    value = text;
  } else if constexpr (std::same_as<Value, double>) {
    value = std::strtod(text.c_str(), nullptr);  // CLI11 goes by way of a long double, and rounds twice
  } else if constexpr (std::same_as<Value, std::uint64_t>) {
    value = std::strtoull(text.c_str(), nullptr, 10);
  } else if constexpr (std::same_as<Value, Index>) {
    value = std::strtoll(text.c_str(), nullptr, 10);  // CLI11 takes 010 for 8
  } else {
    CLI::detail::lexical_cast(text, value);
  }
}

/// Adds an option or a flag that sets `value`, whose default the help shows.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& flag, Value& value, const std::string& help,
                       const Domain& domain = domain::any) {
  constexpr double most = 1099511627776;  // 2^40
  CLI::Option* option = nullptr;
  if constexpr (std::same_as<Value, bool>) {
    option = command.add_flag(flag, help);
  } else {
    option = command.add_option(flag, help);
    if constexpr (HasNames<Value>) {
      option->type_name("TEXT")->check(CLI::IsMember(names_of<Value>()));
    } else if constexpr (std::same_as<Value, Index>) {
      option->type_name("INT")->transform(whole_number_in(static_cast<Index>(std::max(domain.low, -most)),
                                                          static_cast<Index>(std::min(domain.high, most))));
    } else if constexpr (std::same_as<Value, std::uint64_t>) {
      option->type_name("UINT")->transform(seed_number());
    } else if constexpr (std::same_as<Value, std::string>) {
      option->type_name("TEXT");
    } else {
      option->type_name("FLOAT")->check(number_in(domain));
    }
  }
  option->each([&value](const std::string& text) { set_from_text(value, text); });
  option->default_function([&value] { return text_of(value); });
  if (!std::same_as<Value, bool>) option->capture_default_str();
  return option;
}

/// One of each alternative of a variant that the program knows, and the name of the one that is meant.
template <class Variant>
struct Alternatives;
template <class... Options>
struct Alternatives<std::variant<Options...>> {
  std::string name;
  NamedAlternatives<Options...> all = {};

  void each(const auto& visit) {
    std::apply([&](auto&... options) { (visit(options), ...); }, all);
  }
  std::variant<Options...> chosen() const { return named(name); }
  std::variant<Options...> named(const std::string& other) const {
    auto found = parse<std::variant<Options...>>(other);
    const auto take = [&]<class Chosen>(const Chosen& options) {
      if (std::holds_alternative<Chosen>(found)) found = options;
    };
    std::apply([&](const auto&... options) { (take(options), ...); }, all);
    return found;
  }
};

/// How the command line has the fields of a key.
struct FlagOfField {
  std::string key;
  /// With its dashes; "" where it has none.
  std::string flag;
  /// What an option means that is left out, where that is no fixed default; {} stands for the field's
  /// default.
  const char* left_out = "";
  /// Where the command line starts later than the field's domain.
  double low = -std::numeric_limits<double>::infinity();
};
FlagOfField flag_of(const std::string& key);

/// Adds the option of a field, or none: for one that is made of others, has one value alone or no flag.
template <class Value>
CLI::Option* add_field(CLI::App& command, const char* group, const char* key, Value& value, Domain domain,
                       const char* help) {
  if constexpr (HasFields<Value> || is_a<Value, std::variant> || is_a<Value, std::vector>) {
    return nullptr;
  } else {
    const FlagOfField own = flag_of(key);
    if (own.flag.empty() || domain.low == domain.high) return nullptr;
    domain.low = std::max(domain.low, own.low);
    CLI::Option* option = add_value(command, own.flag, value, help, domain)->group(group);
    if (*own.left_out != 0)
      option->default_str("")->description(
          fmt::format("{}; left out: {}", help, fmt::format(fmt::runtime(own.left_out), text_of(value))));
    return option;
  }
}

template <HasFields Options>
void add_fields(CLI::App& command, const char* group, Options& options) {
  Options::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
    add_field(command, group, key, options.*member, domain, help);
  });
}

/// An option that only some choice of another setting minds. A configuration file may hold them all; on the
/// command line, where nothing would come of it, it is a mistake.
struct OwnedOption {
  CLI::Option* option;
  /// What has the choice, by its name in messages.
  const char* chooser;
  /// What is chosen: several where a model has several parts.
  std::function<std::vector<std::string>()> choices;
  std::vector<std::string> owners = {};
  /// The value, of each owner.
  std::vector<std::function<std::string()>> texts = {};

  bool is_of(std::string_view name) const { return chooser == name; }
  bool belongs_to(const std::string& owner) const;
  /// Whether one of the owners is.
  bool is_chosen() const;
  /// Throws UsageError unless `is_chosen`.
  void check() const;
  /// The value of the first owner that is chosen, or else of the first.
  std::string text() const;
  /// In the help.
  void show_owners() const;
};
/// Such an option where it is no alternative's field.
void add_owned(std::list<OwnedOption>& owned, CLI::Option* option, const char* chooser,
               std::function<std::vector<std::string>()> choices, std::vector<std::string> owners);

/// Adds the fields of all alternatives. What several have is one option, which sets it in each; what all have
/// belongs to none.
template <class... Options>
void add_fields(CLI::App& command, const char* group, Alternatives<std::variant<Options...>>& alternatives,
                const char* chooser, std::list<OwnedOption>& owned,
                const std::function<std::vector<std::string>()>& choices) {
  const auto before = owned.size();
  // Of what several have, an alternative checks its own.
  const auto widest = [&](const std::string& key, Domain domain) {
    alternatives.each([&](auto& options) {
      std::decay_t<decltype(options)>::fields(
          [&](const char* other, auto, const Domain& its_own, const char*) {
            if (key == other) domain.low = std::min(domain.low, its_own.low);
          });
    });
    return domain;
  };
  alternatives.each([&](auto& options) {
    using Chosen = std::decay_t<decltype(options)>;
    Chosen::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
      auto& value = options.*member;
      const std::string flag = flag_of(key).flag;
      auto own = std::find_if(owned.begin(), owned.end(), [&](const OwnedOption& o) {
        return o.option->get_name() == flag && o.is_of(chooser);
      });
      if (own != owned.end()) {
        own->option->each([&value](const std::string& text) { set_from_text(value, text); });
      } else {
        CLI::Option* option = add_field(command, group, key, value, widest(key, domain), help);
        if (option == nullptr) return;
        own = owned.insert(owned.end(), {option, chooser, choices});
      }
      own->owners.emplace_back(Chosen::name);
      own->texts.emplace_back([&value] { return text_of(value); });
    });
  });
  for (auto own = std::next(owned.begin(), static_cast<std::ptrdiff_t>(before)); own != owned.end(); ++own) {
    own->option->default_function([&own = *own] { return own.text(); });
    if (own->owners.size() < std::tuple_size_v<decltype(alternatives.all)>) own->show_owners();
  }
}
/// ... of the one alternative that is meant.
template <class... Options>
void add_fields(CLI::App& command, const char* group, Alternatives<std::variant<Options...>>& alternatives,
                const char* chooser, std::list<OwnedOption>& owned) {
  add_fields(command, group, alternatives, chooser, owned,
             [&alternatives] { return std::vector{alternatives.name}; });
}

}  // namespace orthornn::program
