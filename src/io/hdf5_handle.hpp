#pragma once
// What the reader and the writer share: owning an HDF5 identifier, checking an HDF5 status.

#include <fmt/format.h>
#include <hdf5.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "io/crc32_of.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

/// Stops HDF5 from printing errors while it lives, then restores the application's setting. Every function of
/// orthornn that calls HDF5 begins with one.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eauto_is_v2(H5E_DEFAULT, &is_new_);
    if (is_new_ != 0) {
      H5Eget_auto2(H5E_DEFAULT, &new_printer_, &data_);
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    } else {
      H5Eget_auto1(&old_printer_, &data_);
      H5Eset_auto1(nullptr, nullptr);
    }
  }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;
  ~QuietHdf5() {
    if (is_new_ != 0) {
      H5Eset_auto2(H5E_DEFAULT, new_printer_, data_);
    } else {
      H5Eset_auto1(old_printer_, data_);
    }
  }

 private:
  unsigned is_new_ = 1;
  H5E_auto2_t new_printer_ = nullptr;
  H5E_auto1_t old_printer_ = nullptr;
  void* data_ = nullptr;
};

/// Owns an HDF5 identifier of any kind.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(other.release()) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ < 0) return;
    const QuietHdf5 quiet;
    H5Idec_ref(id_);
  }
  operator hid_t() const { return id_; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// HDF5 (at least 1.10) leaks a few bytes on some failures. It reports them on standard error when the
/// program exits ("infinite loop closing library"). The failure itself was already reported.
inline void stay_quiet_at_exit() {
  [[maybe_unused]] static const int once = std::atexit([] { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); });
}

/// Whether HDF5's message says that the file is damaged. The filter whose failure HDF5 1.14 tells without a
/// reason is Fletcher32: no other is read.
inline bool tells_of_damage(const std::string& reason) {
  for (const char* words :
       {"checksum", "bad ", "wrong ", "signature", "filter returned failure during read"}) {
    if (reason.find(words) != std::string::npos) return true;
  }
  return false;
}

/// The innermost message on HDF5's error stack, which names the cause.
inline std::string hdf5_reason() {
  std::string reason;
  const auto keep_first = [](unsigned level, const H5E_error2_t* error, void* text) -> herr_t {
    if (level == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  stay_quiet_at_exit();
  return reason.empty() ? "no reason given" : reason;
}

/// Returns `status` unless it says that an HDF5 call failed; then throws FileError "cannot WHAT: ..." with
/// HDF5's reason. Call it directly after the HDF5 call: the next call clears the reason.
template <class Status>
Status check(Status status, const std::string& what) {
  static_assert(std::is_signed_v<Status>);
  if (status >= 0) return status;
  const std::string reason = hdf5_reason();
  if (tells_of_damage(reason)) {
    throw FileError(fmt::format("cannot {}: it is damaged ({}); use another copy of the file", what, reason));
  }
  throw FileError(fmt::format("cannot {}: HDF5 says \"{}\"", what, reason));
}

/// The same for a call that returns an identifier.
inline Hdf5Handle own(hid_t id, const std::string& what) { return Hdf5Handle(check(id, what)); }

/// CRC-32 (zlib's) of the bytes of a dataset in the file, an attribute in addition to Fletcher32. After a
/// crash, file systems may zero a block together with its checksum. Fletcher32 accepts such a block.
constexpr const char* checksum_attribute = "crc32";
inline std::int64_t checksum(const void* bytes, std::size_t count) {
  return static_cast<std::int64_t>(crc32_of(bytes, count));
}

/// The most bytes of a text attribute. With its description it must fit in one message of an object header
/// (64 KiB).
constexpr std::size_t longest_text = 60000;

/// The type of values in memory, and in the files of every machine.
struct ValueType {
  hid_t memory;
  hid_t file;
};

template <class T>
ValueType number_type() {
  if constexpr (std::is_same_v<T, float>) {
    return {H5T_NATIVE_FLOAT, H5T_IEEE_F32LE};
  } else if constexpr (std::is_same_v<T, double>) {
    return {H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE};
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return {H5T_NATIVE_INT32, H5T_STD_I32LE};
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return {H5T_NATIVE_INT64, H5T_STD_I64LE};
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>);
    return {H5T_NATIVE_UINT8, H5T_STD_U8LE};
  }
}

}  // namespace orthornn
