#pragma once

#include <functional>

#include "commands/measured.hpp"
#include "orthornn/core/repeated_operations.hpp"

namespace orthornn::program {

/// A computation and its way back, to be timed again and again.
struct PassParts {
  /// Puts back what the other two write over; not timed. None where they write over nothing that they read.
  std::function<void()> restore = nullptr;
  std::function<void()> forward;
  std::function<void()> backward;
};

/// The CPU does one part after the other and is timed at both. On a GPU a wait between the two would be part
/// of neither: there forward is timed alone, then both as one piece, as a training step has them, and
/// backward is the difference. What is short and needs no restoring is done over and over between two waits.
class TimedPass {
 public:
  /// What `recordable` parts enqueue is recorded on a GPU, and is one launch by the third run.
  TimedPass(Device device, bool recordable, PassParts parts);

  Sample run();

 private:
  double time(RepeatedOperations& recorded, const std::function<void()>& work) const;
  void restore() const {
    if (parts_.restore) parts_.restore();
  }

  Device device_;
  bool recordable_;
  PassParts parts_;
  int repeats_ = 1;
  RepeatedOperations forward_;
  RepeatedOperations both_;
};

}  // namespace orthornn::program
