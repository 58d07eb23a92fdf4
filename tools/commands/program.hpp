#pragma once
// What the subcommands share: how they are registered, exit codes, the device and thread options.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/orthornn.hpp"
#include "support/files.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {

enum ExitCode : int {
  success = 0,
  failure = 1,     // one sentence on stderr says why
  usage = 2,       // the command line or the configuration file is off
  not_solved = 3,  // train --until-solved ran out of steps
  interrupted = 130,
};

/// What a subcommand does once its options are known.
using Command = std::function<int()>;
/// Adds a subcommand to the program; `chosen` is set when it is the one that is called.
using AddCommand = void (*)(CLI::App& program, Command& chosen);

void add_train(CLI::App& program, Command& chosen);
void add_evaluate(CLI::App& program, Command& chosen);
void add_predict(CLI::App& program, Command& chosen);
void add_translate(CLI::App& program, Command& chosen);
void add_inspect(CLI::App& program, Command& chosen);
void add_convert(CLI::App& program, Command& chosen);
void add_bench(CLI::App& program, Command& chosen);
void add_report(CLI::App& program, Command& chosen);
void add_runs(CLI::App& program, Command& chosen);

/// Parses, runs and turns every error into one line on stderr and an exit code.
int run(int argc, char** argv, const std::vector<AddCommand>& commands);

/// The text with spaces for all that a terminal would obey or hide: control characters (C0, DEL, C1), line
/// and paragraph separators, marks of the direction of writing, and bytes that are not UTF-8.
std::string printable(std::string_view text);
/// The text as one word of a shell: in quotes where a shell would not take it as it is.
std::string shell_word(const std::string& text);
/// One line on standard error, `printable`.
void note(std::string message);
/// Notes what is wrong; returns `code`.
int fail(ExitCode code, std::string message);

/// Wrong use that only shows after parsing; exit code `usage`.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Makes what the settings describe: sizes and numbers that cannot be are wrong use.
template <class Make>
auto as_usage(const Make& make) {
  try {
    return make();
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  } catch (const ShapeError& error) {
    throw UsageError(error.what());
  }
}

/// Throws FileError for a folder, a pipe or a device, which are read without end or not at all.
void check_regular(const std::filesystem::path& file);

/// Where and how to compute.
struct MachineOptions {
  std::string device = "auto";
  int threads = 0;
  Precision precision = Precision::fp32;
  RolloutWay rollout = RolloutWay::automatic;

  /// --device and --threads.
  void add_device_to(CLI::App& command);
  /// These and --precision.
  void add_precision_to(CLI::App& command);
  /// These and --rollout.
  void add_to(CLI::App& command);
  /// Sets the number of threads and finds the device. Throws UsageError for what only a GPU has.
  Execution apply(Index expected_batch = Execution().expected_batch,
                  Index expected_length = Execution().expected_length) const;
};

/// Checks for options: numbers in a domain, whole numbers from `low` to `high`, and seeds. CLI11's own let
/// NaN through, wrap negative seeds around, name bounds of 300 digits, and say that 1.5 is not in range 1
/// to 9. Whole numbers are for `transform`, which writes them without a 0 before: CLI11 would take it as
/// octal.
CLI::Validator number_in(const Domain& domain);
CLI::Validator whole_number_in(Index low, Index high);
CLI::Validator seed_number();
/// N, a share as N/2, or a number (ReflectionCount).
CLI::Validator reflection_count();

}  // namespace orthornn::program
