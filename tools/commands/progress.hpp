#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// Says on standard error how far a task is that takes longer than two seconds, such as "evaluating: 3 of 20
/// batches, 0:07". On a terminal this is one line, which is removed at the end. Elsewhere it is a line after
/// 2 s and one after every 30 s more.
class Progress {
 public:
  Progress(std::string doing, Index all, std::string unit);
  /// For what cannot be counted, such as "reading the data, 0:07".
  explicit Progress(std::string doing) : Progress(std::move(doing), 0, "") {}
  /// Removes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// One more is done.
  void advance(Index count = 1);

 private:
  using Clock = std::chrono::steady_clock;
  void report();

  const std::string doing_, unit_;
  const Index all_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  Index done_ = 0;
  bool over_ = false, open_ = false;
  std::thread reporter_;
};

}  // namespace orthornn::program
