#pragma once

#include <optional>

#include "orthornn/core/saved.hpp"

namespace orthornn {

/// Operations of a GPU beside those that come after them: on a second stream, with library handles and
/// scratch memory of its own. A recording (RepeatedOperations) keeps both branches. The CPU runs everything
/// in place, and so does a branch within a branch.
///
///     SideBranch side(saved, scratch);
///     side.run([&] { .. });   // begins when what was enqueued before is done
///     ..                      // may run at the same time
///     side.join();            // what comes after begins when both are done
///
/// From `run` to `join`, operations outside must not write what the branch reads or writes, and must not read
/// what it writes. Tensors on the two stacks are safe: their memory is not used again before the join, even
/// where they are popped earlier. All `run` of a device are done in their order.
///
/// Any operation may run in a branch, with two exceptions. A rollout may not, if one runs outside at the same
/// time: their blocks wait for each other, and neither kernel may have room. A StreamScope may not begin
/// there. An operation that waits for the GPU waits for the branch. Recorded loops are run directly there.
/// Outside, `synchronize` and copies to the host wait for a branch only after its join.
///
/// Results have the bits that they have without branches. Once sized, nothing is allocated.
class SideBranch {
 public:
  explicit SideBranch(Device device) : device_(device) {}
  /// Keeps what is popped from these stacks until the join. Both are on one device.
  SideBranch(Saved& saved, Saved& scratch);
  /// Joins.
  ~SideBranch();
  SideBranch(const SideBranch&) = delete;
  SideBranch& operator=(const SideBranch&) = delete;

  /// Throws what `operations` throw, and DeviceError.
  template <class Operations>
  void run(const Operations& operations) {
    const Inside inside(*this);
    operations();
  }
  /// Throws DeviceError. Without a `run` before, it only lets the stacks go.
  void join();

 private:
  /// While it lives, operations go to the branch.
  class Inside {
   public:
    explicit Inside(SideBranch& branch);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Device device_;
    bool entered_ = false;
  };

  Device device_;
  /// Whether there is something to wait for.
  bool is_open_ = false;
  std::optional<Saved::Hold> saved_, scratch_;
};

/// Runs the operations in the branch, or in place where there is none.
template <class Operations>
void run_in(SideBranch* branch, const Operations& operations) {
  branch != nullptr ? branch->run(operations) : operations();
}

}  // namespace orthornn
