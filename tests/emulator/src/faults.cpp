#include <csignal>
#include <cstdlib>

#include "emulator/fail.hpp"
#include "processor.hpp"
#include "runtime.hpp"

namespace orthornn::emulator {

#ifdef __SANITIZE_ADDRESS__

void explain_faults() {}  // which does so itself

#else

namespace {

struct sigaction previous;

void explain(int signal, siginfo_t* info, void* context) {
  Processor& p = processor();
  if (p.current() != nullptr) {
    if (p.stack_overflowed_at(info->si_addr)) fail("the thread's stack overflows");
    const int rank = p.shared_memory().guarded_rank(info->si_addr);
    if (rank >= 0) {
      fail("access beyond the end of the " + std::to_string(p.shared_memory().size()) +
           " bytes of dynamic shared memory of block " + std::to_string(rank) + " of the cluster");
    }
    fail("illegal memory access");
  }
  // None of ours.
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    sigaction(signal, &previous, nullptr);  // and the access happens again
  }
}

}  // namespace

void explain_faults() {
  struct sigaction present = {};
  sigaction(SIGSEGV, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == explain) return;
  previous = present;
  // On a stack of its own, as the thread's may be the one that has no room left.
  constexpr std::size_t size = 256 << 10;
  static void* const memory = std::malloc(size);
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = size;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, nullptr);
}

#endif

}  // namespace orthornn::emulator
