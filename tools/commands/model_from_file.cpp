#include "commands/model_from_file.hpp"

#include <fmt/format.h>

namespace orthornn::program {

std::unique_ptr<Task> task_of(const std::string& file, const ModelFileInfo& info,
                              const std::filesystem::path& data) {
  if (info.task_config.empty()) throw FileError(fmt::format("{} was saved without a task", file));
  return make_task(info.task_config,
                   {.batch = info.batch, .seed = info.seed, .data = data, .input_order = info.permutation});
}

double orthogonality_error_of(SequenceModel<float>& model) {
  model.prepare();
  return model.orthogonality_error();
}

}  // namespace orthornn::program
