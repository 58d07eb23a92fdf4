#include "fuzz/fuzz_target.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>

#include "orthornn/core/device.hpp"
#include "support/temporary_folder.hpp"

// HDF5 1.10 loses memory when an object header has a wrong checksum; that is not our leak.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

// HDF5 asks for as much memory as a damaged file claims, and takes it well that it does not get it. How much
// it then uses is what libFuzzer's -rss_limit_mb looks at. The sanitizer's own operator delete frees what the
// operators new below allocate.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:alloc_dealloc_mismatch=0";
}

namespace {

// What we ask for ourselves has to fit what a file really holds.
constexpr std::size_t largest_allocation = std::size_t{1} << 30;

void* allocate(std::size_t size, std::size_t alignment) {
  if (size > largest_allocation) {
    std::fprintf(stderr, "FINDING: %zu bytes are asked for at once\n", size);
    std::abort();
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<std::size_t>(size, 1)) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}

/// libFuzzer calls it once.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  orthornn::set_thread_count(1);
  // HDF5 keeps its own structures for the next file, which is faster, but no buffers of a file's sizes: the
  // address sanitizer is to see their ends.
  H5set_free_list_limits(-1, -1, 0, 0, 0, 0);
  // What commands print is no report; libFuzzer's own go to standard error.
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::abort();
  return 0;
}

namespace orthornn::fuzz {

InputFile::InputFile() {
  static const testing::TemporaryFolder folder;
  static int count = 0;
  path_ = folder / fmt::format("file{}", count++);
}

void InputFile::write(Bytes bytes) {
  std::ofstream stream(path_, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  require(static_cast<bool>(stream.flush()), "cannot write " + path_.string());
}

void require(bool holds, const std::string& message) {
  if (holds) return;
  std::fprintf(stderr, "FINDING: %s\n", message.c_str());
  std::abort();
}

void require_hdf5_closed() {
  const ssize_t count = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  require(count == 0, fmt::format("{} identifiers of HDF5 are left open", count));
}

}  // namespace orthornn::fuzz
