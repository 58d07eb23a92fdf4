#include <fmt/format.h>
#include <unistd.h>

#include "commands/field_options.hpp"
#include "commands/line_reader.hpp"
#include "commands/program.hpp"
#include "commands/translation.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {
namespace {

struct TranslateSettings {
  std::string model;
  BeamSearchOptions search;
  Index n_best = 1;
  Index batch = 64;
  bool json = false;
  MachineOptions machine;
};

/// A line of standard input. What could not be translated has a reason instead of translations.
struct Line {
  std::string text;
  std::string reason = {};
};

/// Up to `most` lines, and fewer where more would have to be waited for: a program that writes a line may
/// wait for its translation.
std::vector<Line> read_lines(LineReader& reader, Index most) {
  std::vector<Line> lines;
  std::string text;
  while (std::ssize(lines) < most && (lines.empty() || !reader.would_wait()) && reader.next(text))
    lines.push_back({std::move(text)});
  return lines;
}

/// Empties a line that cannot be translated, and says why.
void check(Line& line, const Translator& translator) {
  if (line.text.size() > LineReader::longest_line) {
    line.reason = fmt::format("more than {} bytes", LineReader::longest_line);
  } else if (line.text.find('\0') != std::string::npos) {
    // As in the text of a training: it is not text but another file.
    line.reason = "a NUL byte; expected text in UTF-8";
  } else {
    try {
      translator.check(line.text);
    } catch (const ValueError& error) {
      line.reason = error.what();
    }
  }
  if (!line.reason.empty()) line.text.clear();
}

Json json_of(Index number, const Line& line, const std::vector<Translation>& translations) {
  Json json = {{"line", number}, {"translations", Json::array()}};
  for (const Translation& translation : translations) {
    json["translations"].push_back({{"text", translation.text},
                                    {"score", translation.score},
                                    {"log_probability", translation.log_probability},
                                    {"complete", translation.complete}});
  }
  if (!line.reason.empty()) json["error"] = line.reason;
  return json;
}

void print(const TranslateSettings& settings, Index number, const Line& line,
           std::vector<Translation> translations) {
  translations.resize(std::min(translations.size(), static_cast<std::size_t>(settings.n_best)));
  if (settings.json) return fmt::print("{}\n", json_text(json_of(number, line, translations), -1));
  if (settings.n_best == 1)
    return fmt::print("{}\n", translations.empty() ? "" : printable(translations[0].text));
  for (const Translation& translation : translations)
    fmt::print("{}\t{:.4f}\t{}\n", number, translation.score, printable(translation.text));
}

int translate(const TranslateSettings& settings) {
  const Execution execution = settings.machine.apply(settings.batch);
  if (settings.n_best > settings.search.beam) {
    throw UsageError(fmt::format("--n-best {} is more than --beam {}, the hypotheses that are followed",
                                 settings.n_best, settings.search.beam));
  }
  const LoadedTranslator loaded(settings.model, execution);
  Translator& translator = *loaded;
  LineReader reader(STDIN_FILENO);
  Index number = 0, refused = 0;
  while (true) {
    // Several batches, so that lines of one length meet.
    std::vector<Line> lines = read_lines(reader, 4 * settings.batch);
    if (lines.empty()) break;
    std::vector<std::string> sentences;
    for (Line& line : lines) {
      check(line, translator);
      if (!line.reason.empty()) {
        ++refused;
        note(fmt::format("line {}: {}; its translation is left empty", number + std::ssize(sentences) + 1,
                         line.reason));
      }
      sentences.push_back(line.text);
    }
    auto translations = translator.translate(sentences, settings.search, settings.batch);
    for (std::size_t i = 0; i < lines.size(); ++i)
      print(settings, ++number, lines[i], std::move(translations[i]));
    std::fflush(stdout);
  }
  if (refused > 0) return fail(failure, fmt::format("{} of {} lines were not translated", refused, number));
  return success;
}

}  // namespace

void add_translate(CLI::App& program, Command& chosen) {
  CLI::App* command =
      program.add_subcommand("translate", "Translate the lines of standard input, one sentence each");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<TranslateSettings>();
  command->add_option("model", settings->model, "Model file of the task translate")->required();
  add_fields(*command, "Search", settings->search);
  add_value(*command, "--n-best", settings->n_best,
            "Translations of a line; above 1 each has the line's number and its score before it",
            domain::count)
      ->group("Search");
  add_value(*command, "--batch", settings->batch, "Sentences that are translated together",
            Domain{.low = 1, .high = 65536});
  command->add_flag("--json", settings->json, "One JSON object a line");
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return translate(*settings); }; });
}

}  // namespace orthornn::program
