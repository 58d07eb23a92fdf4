#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "emulator/fail.hpp"
#include "kernel_name.hpp"
#include "processor.hpp"

namespace orthornn::emulator {
namespace {

std::string triple(uint3 i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

}  // namespace

std::string to_string(std::source_location where) {
  return where.file_name() + (":" + std::to_string(where.line()));
}

bool same_place(std::source_location a, std::source_location b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

void fail(const std::string& message) {
  std::fprintf(stderr, "CUDA emulator: %s%s\n", processor().describe_current().c_str(), message.c_str());
  std::fflush(nullptr);
  std::abort();
}

void fail(const std::string& message, std::source_location where) {
  fail(message + " (" + to_string(where) + ")");
}

std::string Processor::describe_current() const {
  if (launch_ == nullptr) return {};
  std::string text = "kernel " + kernel_name(launch_->kernel) + ": ";
  if (current_ != nullptr) {
    text += "block " + triple(current_->block->index) + ", thread " + triple(current_->index) + ": ";
  }
  return text;
}

/// Threads that wait at the same place are told of together.
void Processor::report_deadlock() const {
  std::ostringstream text;
  text << "deadlock: no thread can run";
  for (unsigned rank = 0; rank < cluster_size_; ++rank) {
    const Block& block = blocks_[rank];
    for (unsigned begin = 0, end = 0; begin < block_size_; begin = end) {
      const Thread& first = block.threads[begin];
      const auto same = [&first](const Thread& other) {
        return first.exited ? other.exited
                            : !other.exited && first.operation == other.operation &&
                                  same_place(first.where, other.where);
      };
      for (end = begin + 1; end < block_size_ && same(block.threads[end]);) ++end;
      text << "\n  block " << triple(block.index) << ", threads " << begin << " to " << end - 1 << ": ";
      if (first.exited) {
        text << "exited";
      } else {
        text << "in " << (first.operation == nullptr ? "nothing" : first.operation) << " at "
             << to_string(first.where);
      }
    }
  }
  fail(text.str());
}

}  // namespace orthornn::emulator
