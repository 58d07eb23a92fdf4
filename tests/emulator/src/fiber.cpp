#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "emulator/fail.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "The switch between fibers is written for x86-64 only"
#endif

// void orthornn_emulator_switch(void** save, void* load): saves what a function must preserve on the stack
// and the stack's pointer in *save, then does the same backwards for another stack. A jump predicts better
// here than a return, as no call matches it.
asm(R"(
.text
.type orthornn_emulator_switch, @function
orthornn_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size orthornn_emulator_switch, .-orthornn_emulator_switch
)");
extern "C" void orthornn_emulator_switch(void** save, void* load);

namespace orthornn::emulator {
namespace {

#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr std::size_t stack_size = 256 << 10;  // frames are larger
#else
constexpr std::size_t stack_size = 64 << 10;
#endif
constexpr std::size_t page = 4096;

Fiber* running = nullptr;  // to start(), which takes no arguments
Fiber* left = nullptr;

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry) {
  void* memory = mmap(nullptr, page + stack_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) fail("no memory for another stack");
  guard_ = static_cast<unsigned char*>(memory);
  bottom_ = guard_ + page;
  size_ = stack_size;
  // Stacks that all began at the same place of a page would compete for the same few lines of the cache.
  static std::size_t count = 0;
  const std::size_t colour = 64 * (count++ % 61);
  auto* frame = reinterpret_cast<std::uintptr_t*>(guard_ + page + stack_size - colour);
  *--frame = 0;  // the return address of start(): where backtraces end
  *--frame = reinterpret_cast<std::uintptr_t>(&Fiber::start);
  for (int i = 0; i < 6; ++i) *--frame = 0;
  stack_pointer_ = frame;
}

void Fiber::switch_to(Fiber& next) {
  left = this;
  running = &next;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.size_);
#endif
  orthornn_emulator_switch(&stack_pointer_, next.stack_pointer_);
  finish_switch(fake_stack_);
}

void Fiber::start() {
  finish_switch(nullptr);
  running->entry_();
  fail("a fiber came to its end");
}

void Fiber::finish_switch([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, &left->bottom_, &left->size_);
#endif
}

bool Fiber::guard_holds(const void* address) const {
  return guard_ != nullptr && address >= guard_ && address < guard_ + page;
}

}  // namespace orthornn::emulator
