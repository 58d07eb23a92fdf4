#include "tasks/count_correct.hpp"

#include "core/back_end.hpp"

namespace orthornn {
namespace {

bool is_largest(ConstTensorView<float> row, Index target) {
  for (Index c = 0; c < row.size(); ++c) {
    if (c != target && !(row(target) > row(c))) return false;
  }
  return true;
}

}  // namespace

Score count_correct(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes) {
  require_host_memory("counting right answers", outputs.device());
  require_host_memory("counting right answers", classes.device());
  Score score;
  for (Index i = 0; i < classes.size(); ++i) {
    if (classes(i) < 0) continue;
    ++score.count;
    score.correct += is_largest(outputs[i], classes(i));
  }
  return score;
}

}  // namespace orthornn
