#pragma once

#include <cstddef>

namespace orthornn::emulator {

/// A stack on which a function runs, and where it stopped when it last switched to another.
class Fiber {
 public:
  /// What runs now: its stack is the OS thread's.
  Fiber() = default;
  /// Calls `entry`, which never returns, when first switched to.
  explicit Fiber(void (*entry)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on with `next` from where it stopped; returns when somebody switches to this one again.
  void switch_to(Fiber& next);

  /// Whether `address` lies in the page below the stack, which nothing may touch.
  bool guard_holds(const void* address) const;

 private:
  static void start();
  static void finish_switch(void* fake_stack);

  void* stack_pointer_ = nullptr;
  void (*entry_)() = nullptr;
  unsigned char* guard_ = nullptr;
  // For AddressSanitizer, which has to be told of every switch.
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace orthornn::emulator
