#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>

#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::emulator {
namespace {

std::string hexadecimal(unsigned mask) {
  std::ostringstream text;
  text << "0x" << std::hex << mask;
  return text.str();
}

}  // namespace

void Processor::warp_collective(unsigned mask, const char* operation, void* argument, Operate* operate,
                                std::source_location where) {
  Warp& warp = current_->block->warps[current_->rank / 32];
  const unsigned lane = current_->rank % 32, bit = 1U << lane;
  if ((mask & bit) == 0) {
    fail(std::string(operation) + ": the mask " + hexadecimal(mask) + " does not name the calling lane",
         where);
  }
  if ((mask & ~warp.present) != 0) {
    fail(std::string(operation) + ": the mask " + hexadecimal(mask) +
             " names lanes that have exited or do not exist (" + hexadecimal(mask & ~warp.present) + ")",
         where);
  }
  auto gathering = std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                                [mask](const Gathering& g) { return g.mask == mask; });
  if (gathering == warp.gatherings.end()) {
    gathering = warp.gatherings.insert(gathering, Gathering{mask, 0, operation, {}});
  } else if (gathering->operation != operation && std::strcmp(gathering->operation, operation) != 0) {
    fail(std::string(operation) + " while other lanes of the warp are in " + gathering->operation + " at " +
             to_string(warp.first[std::countr_zero(gathering->arrived)].where),
         where);
  }
  gathering->arrived |= bit;
  gathering->arguments[lane] = argument;
  if (gathering->arrived != mask) {
    block(operation, where);
    return;
  }
  operate(gathering->arguments);
  for (unsigned others = mask & ~bit; others != 0; others &= others - 1) {
    make_ready(warp.first[std::countr_zero(others)]);
  }
  warp.gatherings.erase(gathering);
  if (random_state_ != 0) yield();
}

}  // namespace orthornn::emulator
