#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace orthornn::program {

/// What is being measured, on standard error: one line that is written over on a terminal, else a line every
/// few seconds.
class MeasuringProgress {
 public:
  explicit MeasuringProgress(std::size_t count);
  ~MeasuringProgress();
  MeasuringProgress(const MeasuringProgress&) = delete;
  MeasuringProgress& operator=(const MeasuringProgress&) = delete;

  /// Of the next of the `count` measurements.
  void begin(const std::string& what);

 private:
  bool terminal_;
  std::size_t count_;
  std::size_t number_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = start_;
};

}  // namespace orthornn::program
