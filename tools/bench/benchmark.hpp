#pragma once
// What all benchmarks share: how they are registered, and their options.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "commands/field_options.hpp"
#include "commands/program.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {

/// A subcommand of `orthornn bench`.
struct Benchmark {
  /// On the command line, and in the JSON of its results.
  const char* name;
  const char* help;
  /// Adds its options. `chosen` is set when it is the one that is called.
  void (*add_to)(CLI::App& command, Command& chosen);
};
/// A benchmark by its settings, which have `name`, `help`, `add_to(command)` and `run()`.
template <class Settings>
Benchmark benchmark_of() {
  return {Settings::name, Settings::help, [](CLI::App& command, Command& chosen) {
            const auto settings = std::make_shared<Settings>();
            settings->add_to(command);
            command.callback([&chosen, settings] { chosen = [settings] { return settings->run(); }; });
          }};
}
/// Whether there is a benchmark of this name.
bool is_benchmark(const std::string& name);

/// Sizes from 1.
constexpr Domain up_to(double most) { return {.low = 1, .high = most}; }

/// Adds an option --KEY for each field of the settings; several values have commas between. A default that is
/// outside the field's domain is not shown: its help says what the command does without the option.
template <HasFields Settings>
void add_settings(CLI::App& command, Settings& settings) {
  Settings::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
    auto& value = settings.*member;
    using Value = std::decay_t<decltype(value)>;
    const std::string flag = std::string("--") + key;
    if constexpr (is_a<Value, std::vector>) {
      CLI::Option* option =
          command.add_option(flag, value, std::string(help) + ", with commas between")->delimiter(',');
      if constexpr (std::same_as<Value, std::vector<Index>>)
        option->transform(whole_number_in(static_cast<Index>(domain.low), static_cast<Index>(domain.high)));
      if constexpr (std::same_as<Value, std::vector<std::uint64_t>>) option->transform(seed_number());
      if (value.empty()) option->default_str("");
    } else {
      CLI::Option* option = add_value(command, flag, value, help, domain);
      if constexpr (std::same_as<Value, Index>) {
        if (!domain.contains(static_cast<double>(value))) option->default_str("");
      }
    }
  });
}

/// The values in their order, each once.
template <class Value>
std::vector<Value> each_once(const std::vector<Value>& values) {
  std::vector<Value> found;
  for (const Value& value : values) {
    if (std::ranges::find(found, value) == found.end()) found.push_back(value);
  }
  return found;
}

/// The file that a benchmark writes its results into, if it was asked for.
struct ResultsFile {
  std::string path = {};
  bool overwrite = false;

  /// --json and --overwrite.
  void add_to(CLI::App& command);
  /// Before minutes of measuring. Throws as `check_output`. From here on the command goes on without a reader
  /// of its output.
  void check() const;
  /// Writes the results and says where they are.
  void write(const Json& results) const;
};

/// How a benchmark takes its samples, and where they go.
struct SamplingOptions {
  /// 0 until `complete`, unless the user says how many.
  Index samples = 0;
  ResultsFile results = {};

  /// --samples, --json and --overwrite.
  void add_to(CLI::App& command);
  /// Throws as `ResultsFile::check`.
  void complete(Device device);
};

}  // namespace orthornn::program
