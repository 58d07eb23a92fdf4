// A config.toml that train is given by --config. What it says is what config.toml of the run says again.

#include "commands/train_settings.hpp"
#include "fuzz/fuzz_target.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// The settings of a file, completed and written anew.
std::string completed(const InputFile& file) {
  program::TrainSettings settings;
  settings.config = file.path();
  CLI::App command;
  settings.add_to(command);
  const std::unique_ptr<Task> task = settings.complete(command);
  settings.model_options(*task);
  task->baseline_loss();
  return settings.to_toml(command);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static InputFile file;
  file.write(Bytes(data, size));
  std::string toml;
  if (!accepted([&] { toml = completed(file); })) return 0;
  file.write(toml);
  std::string again;
  require(accepted([&] { again = completed(file); }), "its own config.toml is refused:\n" + toml);
  require(again == toml, "config.toml changes when it is read again:\n" + toml + "\nand then:\n" + again);
  return 0;
}
