#include "commands/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>

#include "commands/field_options.hpp"
#include "commands/interruption.hpp"
#include "commands/standard_streams.hpp"
#include "commands/suggestion.hpp"
#include "core/parsed_number.hpp"
#include "support/reflection_count.hpp"
#include "support/stop_on_signal.hpp"
#include "text/characters.hpp"

namespace orthornn::program {
namespace {

/// What was printed may still wait in memory for a disk that is full.
int finish(int code) {
  const int error = flush_output();
  // A reader that has what it wants, or an output that was closed on purpose.
  const bool unwanted = goes_on_without_output() && (error == EPIPE || error == EBADF);
  if (error == 0 || unwanted) return code;
  return fail(failure, fmt::format("cannot write the output: {}", std::strerror(error)));
}

/// `request`: of --help or --version.
int answer(const CLI::App& program, const CLI::Success& request) {
  std::ostringstream text;
  const int code = program.exit(request, text, text);
  std::fputs(text.str().c_str(), stdout);
  return finish(code);
}

/// The subcommand that the command line has chosen, as far as it has.
const CLI::App& innermost(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

/// "; did you mean --hidden?" for the first of the words that is close to a name of the command.
std::string advice_for(const std::vector<std::string>& words, const CLI::App& command) {
  std::vector<std::string> options, commands;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const CLI::App* inner : command.get_subcommands({})) commands.push_back(inner->get_name());
  for (const std::string& word : words) {
    const std::string advice =
        did_you_mean(word.substr(0, word.find('=')), word.starts_with("-") ? options : commands);
    if (!advice.empty()) return advice;
  }
  return {};
}

/// "; did you mean cwy?" for a value that its option does not have. CLI11 says of such a value: "--cell: cwz
/// not in {cwy,gru}".
std::string advice_for_value(const std::string& message) {
  const std::size_t value = message.find(": "), among = message.find(" not in {"), end = message.rfind('}');
  if (value == std::string::npos || among == std::string::npos || end == std::string::npos || among < value)
    return {};
  std::vector<std::string> names;
  const std::size_t first = among + std::strlen(" not in {");
  if (end < first) return {};
  std::istringstream list(message.substr(first, end - first));
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return did_you_mean(message.substr(value + 2, among - value - 2), names);
}

std::string message_of(const CLI::ParseError& error, const CLI::App& program) {
  // CLI11 misses a subcommand before it says that it does not know the one given.
  const std::vector<std::string> unknown = program.remaining(true);
  const std::string message = error.what();
  if (std::ranges::any_of(unknown, [](const std::string& word) { return word.starts_with("--beta-bias"); }))
    return "there is no option --beta-bias any more; --beta-offset adds a constant to what becomes step "
           "sizes";
  if (!unknown.empty() && message.find("subcommand is required") != std::string::npos) {
    return fmt::format("there is no command '{}'{}", unknown.front(),
                       advice_for({unknown.front()}, innermost(program)));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)  // CLI11 has them from the last to the first
    return fmt::format("{} not expected{}",
                       unknown.size() == 1 ? fmt::format("'{}' was", unknown.front())
                                           : fmt::format("'{}' were", fmt::join(unknown, "', '")),
                       advice_for(unknown, innermost(program)));
  // "--hidden: At Most 1 required but received 2".
  const std::size_t mismatch = message.find(": At Most 1 required");
  if (mismatch != std::string::npos) return message.substr(0, mismatch) + " was given more than once";
  // "--hidden: 1 required INT missing".
  const std::size_t missing = message.find(": 1 required ");
  if (missing != std::string::npos) return message.substr(0, missing) + " was given without a value";
  return message + advice_for_value(message);
}

std::string expected(const std::string& value, const std::string& description) {
  return fmt::format("'{}' was given; expected {}", value, description);
}

/// A flag may have a value, as in --resume=true. CLI11 takes 7 for true, and words for what the flag makes of
/// them.
void check_flags(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_expected_max() != 0 || option == command.get_help_ptr()) continue;
    option->check([](const std::string& text) {
      return text == "true" || text == "false" ? std::string() : expected(text, "true or false");
    });
  }
  for (CLI::App* inner : command.get_subcommands({})) check_flags(*inner);
}

/// What is wrong with the word, whether there is such a device or not; empty for nothing.
std::string known_device(const std::string& name) {
  try {
    Device::parse(name);
  } catch (const ValueError& error) {
    return error.what();
  } catch (const DeviceError&) {
    // apply() says so, as for the other options of the machine.
  }
  return {};
}

/// Text from the first to the last digit of a number from `low` to `high`.
template <class Whole>
CLI::Validator whole_number_in(Whole low, Whole high, const std::string& range, const std::string& help) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<Whole> value = parsed_number<Whole>(text);
        if (!value || *value < low || *value > high) return expected(text, "a whole number from " + range);
        text = std::to_string(*value);
        return std::string();
      },
      help);
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string printable(std::string_view text) {
  const auto is_obeyed = [](CodePoint c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  };
  std::string result;
  while (!text.empty()) {
    const CodePoint character = take_character(text);
    if (is_obeyed(character)) {
      result += ' ';
    } else {
      append_character(result, character);
    }
    if (character < 0) text.remove_prefix(1);
  }
  return result;
}

void note(std::string message) {
  // A name out of a stranger's file may be long.
  constexpr std::size_t longest = 2000;
  if (message.size() > longest) message = message.substr(0, longest) + "...";
  // Not fmt::print, which throws where standard error is full.
  std::fputs(fmt::format("orthornn: {}\n", printable(message)).c_str(), stderr);
}

int fail(ExitCode code, std::string message) {
  note(std::move(message));
  return code;
}

int run(int argc, char** argv, const std::vector<AddCommand>& commands) {
  open_standard_streams();
  // A file that grows beyond `ulimit -f` is to be an error like a full disk (EFBIG), not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  say_when_interrupted("interrupted");
  CLI::App program{"Recurrent networks whose transition is orthogonal by construction", "orthornn"};
  program.set_version_flag("--version", version());
  program.require_subcommand(1);
  program.option_defaults()->always_capture_default();
  Command chosen;
  for (const AddCommand add : commands) add(program, chosen);
  check_flags(program);
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string_view text = argv[i];
      // An option that keeps hours of work would count as left out.
      if (text.empty()) {
        throw UsageError(fmt::format(
            "an empty word was given after '{}'; expected a word (is a variable of the shell not set?)",
            argv[i - 1]));
      }
      // CLI11 takes a flag with an empty value for true.
      if (text.starts_with("--") && text.ends_with("="))
        throw UsageError(fmt::format("'{}' has no value; expected one behind it", text));
    }
    program.parse(argc, argv);
    return finish(chosen());
  } catch (const CLI::Success& request) {
    return answer(program, request);
  } catch (const CLI::ParseError& error) {
    return fail(usage, message_of(error, program) + " (--help lists the options)");
  } catch (const UsageError& error) {
    return fail(usage, error.what());
  } catch (const Interrupted& error) {
    return fail(interrupted, error.what());
  } catch (const Error& error) {
    return fail(failure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(failure, "out of memory; try smaller batches, layers or lengths of sequences");
  } catch (const std::exception& error) {
    return flush_output() != 0 ? finish(failure) : fail(failure, error.what());
  }
}

void check_regular(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    throw FileError(fmt::format("cannot read '{}': it is not a regular file", file.string()));
}

void MachineOptions::add_device_to(CLI::App& command) {
  command
      .add_option("--device", device,
                  "Where to compute: cpu, cuda, cuda:1 for the second GPU, or auto for a GPU if there is one")
      ->check(known_device);
  command.add_option("--threads", threads, "Processor threads; 0 for all. Results do not depend on it")
      ->transform(whole_number_in(0, 1024));
}

void MachineOptions::add_precision_to(CLI::App& command) {
  add_device_to(command);
  add_value(
      command, "--precision", precision,
      "Products on a GPU: fp32, tf32, or bf16. A recurrence over a cluster has 16 bits of Q and state in "
      "tf32, and all bits above N = 512; in bf16 it has 8 bits of the state above N = 256 and of Q above "
      "N = 512. Over the grid both have 24, 16 or 8 bits. Few sequences have all bits over both. Other "
      "products have 11 or 16 bits in tf32 and bf16, but those of a softmax over words have 8 bits in bf16. "
      "The CPU has fp32 alone");
}

void MachineOptions::add_to(CLI::App& command) {
  add_precision_to(command);
  add_value(command, "--rollout", rollout,
            "Recurrence on a GPU: resident, cluster, grid, stepwise, or automatic for the fastest that fits");
}

Execution MachineOptions::apply(Index expected_batch, Index expected_length) const {
  if (threads > 0) set_thread_count(threads);
  Execution execution(Device::parse(device), precision, rollout);
  execution.expected_batch = expected_batch;
  execution.expected_length = expected_length;
  if (execution.device.is_cuda()) return execution;
  const auto refuse = [&](const char* option, const std::string& value, const char* only) {
    throw UsageError(
        fmt::format("{} {} is for a GPU, and this would run on the CPU, which has {} alone; use "
                    "{} {}, or --device cuda",
                    option, value, only, option, only));
  };
  if (execution.precision != Precision::fp32) refuse("--precision", name_of(precision), "fp32");
  if (execution.rollout != RolloutWay::automatic) refuse("--rollout", name_of(rollout), "automatic");
  return execution;
}

CLI::Validator number_in(const Domain& domain) {
  return CLI::Validator(
      [domain](std::string& text) {
        double value = 0;
        // A model's numbers are floats.
        const bool is_number = CLI::detail::lexical_cast(text, value);
        const bool fits = is_number && domain.contains<float>(value);
        if (!is_number) value = std::numeric_limits<double>::quiet_NaN();
        return fits ? std::string() : expected(text, domain.text(value, /*whole=*/false));
      },
      "");
}

CLI::Validator whole_number_in(Index low, Index high) {
  return whole_number_in<Index>(low, high, fmt::format("{} to {}", low, high),
                                fmt::format("{}..{}", low, high));
}

CLI::Validator seed_number() { return whole_number_in<std::uint64_t>(0, UINT64_MAX, "0 to 2^64 - 1", ""); }

CLI::Validator reflection_count() {
  return CLI::Validator(
      [](const std::string& text) {
        if (ReflectionCount::parse(text)) return std::string();
        return fmt::format("'{}' was given; expected N, a share as N/2, or a whole number", text);
      },
      "");
}

}  // namespace orthornn::program
