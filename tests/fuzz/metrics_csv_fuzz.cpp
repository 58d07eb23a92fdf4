// A metrics.csv that report draws.

#include "fuzz/fuzz_target.hpp"
#include "fuzz/page_check.hpp"
#include "pages/training_page.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static InputFile file;
  file.write(Bytes(data, size));
  program::TrainingRun run;
  run.folder = "run";
  run.task = "copying, delay 3";
  run.steps = 6;
  run.baseline = 1;
  run.metrics = {Metric::accuracy(), Metric::sequence_accuracy()};
  if (!accepted(file.path(), [&] { program::read_metrics(run, file.path()); })) return 0;
  check_page(program::training_page({run}, {}));
  return 0;
}
