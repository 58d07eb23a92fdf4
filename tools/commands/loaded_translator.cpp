#include "commands/loaded_translator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/orthornn.hpp"

namespace orthornn::program {

LoadedTranslator::LoadedTranslator(const std::string& file, const Execution& execution) {
  ModelFileInfo info;
  model_ = load_encoder_decoder(file, execution, &info);
  if (info.task_config.empty())
    throw FileError(fmt::format("{} was saved without its task, which has the vocabularies", file));
  task_ = make_task(info.task_config,
                    {.batch = std::max<Index>(info.batch, 1), .seed = info.seed, .parts = info.parts});
  const auto* pairs = dynamic_cast<const TranslationTask*>(task_.get());
  if (pairs == nullptr) {
    throw FileError(fmt::format("{} was trained on the task {}; expected {}", file, info.task_name,
                                TranslationOptions::name));
  }
  translator_ = std::make_unique<Translator>(*model_, *pairs);
}

}  // namespace orthornn::program
