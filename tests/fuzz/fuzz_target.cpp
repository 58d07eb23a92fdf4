#include "fuzz/fuzz_target.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "orthornn/core/device.hpp"

// HDF5 1.10 loses memory when an object header has a wrong checksum; that is not our leak.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

/// libFuzzer calls it once.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  orthornn::set_thread_count(1);
  // HDF5 hands its memory back at once, so that the address sanitizer sees it when it is used afterwards.
  H5set_free_list_limits(0, 0, 0, 0, 0, 0);
  // What commands print is no report; libFuzzer's own go to standard error.
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::abort();
  return 0;
}

namespace orthornn::fuzz {

MemoryFile::MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  path_ = fmt::format("/proc/self/fd/{}", descriptor_);
}

MemoryFile::~MemoryFile() { close(descriptor_); }

void MemoryFile::write(Bytes bytes) {
  if (ftruncate(descriptor_, 0) != 0) throw std::system_error(errno, std::generic_category(), "ftruncate");
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = pwrite(descriptor_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (written <= 0) throw std::system_error(errno, std::generic_category(), "pwrite");
    at += static_cast<std::size_t>(written);
  }
}

void require(bool holds, const std::string& message) {
  if (holds) return;
  std::fprintf(stderr, "FINDING: %s\n", message.c_str());
  std::abort();
}

void require_hdf5_closed() {
  for (const H5I_type_t type : {H5I_FILE, H5I_GROUP, H5I_DATASET, H5I_ATTR, H5I_DATASPACE}) {
    hsize_t count = 0;
    // An error says that there has been no identifier of that type yet.
    if (H5Inmembers(type, &count) < 0) continue;
    require(count == 0,
            fmt::format("{} HDF5 identifiers of type {} are left open", count, static_cast<int>(type)));
  }
}

}  // namespace orthornn::fuzz
