#include "tasks/sequences/prefetched_batches.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Batches that hold the number of their step, and which steps were assembled.
struct Numbered {
  std::mutex mutex;
  std::vector<std::uint64_t> steps;
  std::atomic<bool> fails = false;

  PrefetchedBatches::Assemble assemble() {
    return [this](std::size_t, std::uint64_t step, Batch& batch) {
      const std::lock_guard lock(mutex);
      steps.push_back(step);
      if (fails && step == 2) throw FileError("step 2 is not there");
      Tensor<std::int32_t>& numbers = batch.integers(batch_names::symbols);
      numbers.reserve({1, 1});
      numbers(0, 0) = static_cast<std::int32_t>(step);
    };
  }
  std::vector<std::uint64_t> seen() {
    const std::lock_guard lock(mutex);
    std::vector<std::uint64_t> sorted = steps;  // two threads come in any order
    std::ranges::sort(sorted);
    return sorted;
  }
  /// Waits until so many were assembled, at most ten seconds.
  void wait_for(std::size_t count) {
    for (int i = 0; i < 10000 && seen().size() < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

std::int32_t number_of(const Batch& batch) { return batch.integers(batch_names::symbols)(0, 0); }

}  // namespace

TEST_CASE("Batches are assembled two steps ahead, each once, and no further", "[data]") {
  Numbered numbered;
  PrefetchedBatches batches(numbered.assemble());
  CHECK(numbered.seen().empty());
  const Batch& first = batches.batch(0);
  numbered.wait_for(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(numbered.seen() == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(number_of(first) == 0);  // what goes ahead leaves the batch in use
  for (std::uint64_t step = 1; step < 50; ++step)
    REQUIRE(number_of(batches.batch(step)) == static_cast<std::int32_t>(step));
  numbered.wait_for(52);
  const std::vector<std::uint64_t> all = numbered.seen();
  REQUIRE(all.size() == 52);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("A step out of order is assembled when it is asked for", "[data]") {
  Numbered numbered;
  PrefetchedBatches batches(numbered.assemble());
  for (const std::uint64_t step : {5U, 5U, 6U, 0U, 3U, 1000U, 2U, 1U})
    CHECK(number_of(batches.batch(step)) == static_cast<std::int32_t>(step));
}

TEST_CASE("An error of assembling is thrown by the call that wants the batch, and it is tried again",
          "[data]") {
  Numbered numbered;
  numbered.fails = true;
  PrefetchedBatches batches(numbered.assemble());
  CHECK(number_of(batches.batch(0)) == 0);
  numbered.wait_for(3);  // it has failed ahead
  CHECK(number_of(batches.batch(1)) == 1);
  CHECK_THAT(error_message<FileError>([&] { batches.batch(2); }), contains("step 2"));
  CHECK_THAT(error_message<FileError>([&] { batches.batch(2); }), contains("step 2"));
  numbered.fails = false;
  CHECK(number_of(batches.batch(2)) == 2);
  CHECK(number_of(batches.batch(3)) == 3);
}

TEST_CASE("Threads that no batch was asked of end too", "[data]") {
  Numbered numbered;
  { const PrefetchedBatches batches(numbered.assemble()); }
  CHECK(numbered.seen().empty());
}
