#include <cstring>

#include "emulated_ptx.hpp"
#include "emulator/fail.hpp"
#include "mbarrier.hpp"
#include "processor.hpp"

namespace orthornn::emulator {

void Processor::complete_bulk_copy(std::size_t index) {
  const BulkCopy copy = bulk_copies_[index];
  bulk_copies_.erase(bulk_copies_.begin() + static_cast<std::ptrdiff_t>(index));
  std::memcpy(copy.to, copy.from, copy.bytes);
  mbarrier_count(copy.barrier, 0, static_cast<int>(copy.bytes), copy.where);
}

}  // namespace orthornn::emulator

namespace orthornn::ptx {

void copy_bulk_to_rank(void* destination, const void* source, unsigned bytes, std::uint64_t* barrier,
                       unsigned rank, std::source_location where) {
  emulator::Processor& p = emulator::processor();
  const auto misaligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % 16 != 0;
  };
  if (bytes == 0 || bytes % 16 != 0 || misaligned(destination) || misaligned(source)) {
    emulator::fail("bulk copy whose addresses or size (" + std::to_string(bytes) + ") are no multiples of 16",
                   where);
  }
  const auto inside = [&p](const void* address, unsigned size) {
    const auto offset = static_cast<const unsigned char*>(address) - emulator::dynamic_shared_memory();
    return offset >= 0 && static_cast<std::size_t>(offset) + size <= p.shared_memory().size();
  };
  if (!inside(destination, bytes) || !inside(source, bytes) || !inside(barrier, sizeof(*barrier))) {
    emulator::fail("bulk copy that leaves the dynamic shared memory", where);
  }
  emulator::Block& receiver = p.accessible_block(rank, "copy_bulk_to_rank");
  // What lies at `address` in our block, in the receiver's.
  const auto mapped = [&](void* address) {
    const auto offset = static_cast<unsigned char*>(address) - emulator::dynamic_shared_memory();
    return p.shared_memory().of_rank(receiver.rank) + offset;
  };
  p.begin_bulk_copy({.to = mapped(destination),
                     .from = static_cast<const unsigned char*>(source),
                     .bytes = bytes,
                     .barrier = reinterpret_cast<std::uint64_t*>(mapped(barrier)),
                     .sender = p.current()->block,
                     .receiver = &receiver,
                     .where = where});
}

}  // namespace orthornn::ptx
