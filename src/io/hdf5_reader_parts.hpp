#pragma once
// What the sources of Hdf5Reader share: its members, and the names of types in messages.

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "io/hdf5_handle.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn {
namespace detail {

/// "floating-point numbers"
const char* class_name(H5T_class_t kind);
/// The number types that are accepted in a file. HDF5 has many others, down to single bits. Their conversions
/// are rarely used and little tested.
bool is_plain_number(hid_t type);
/// "32-bit floating-point numbers"
std::string type_name(hid_t type);

}  // namespace detail

// hdf5_reader_numbers.cpp has what concerns the numbers of datasets, hdf5_reader.cpp the rest.
struct Hdf5Reader::Impl {
  // The task for an error message: "read dataset 'cell/bias' of 'model.h5'".
  std::string task(const char* kind, const std::string& object) const {
    return fmt::format("read {} '{}' of '{}'", kind, object, path_.string());
  }
  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    throw FileError(fmt::format("cannot {}: {}", what, why));
  }
  // Invalid when there is no such object.
  detail::Hdf5Handle find(const std::string& object) const;
  detail::Hdf5Handle open_object(const std::string& object, H5I_type_t kind, const std::string& what) const;
  // A dataset that can be read: numbers of a plain type, all of them in this file.
  detail::Hdf5Handle open_dataset(const std::string& path, const std::string& what) const;
  detail::Hdf5Handle open_attribute(hid_t owner, const std::string& name, H5T_class_t kind,
                                    const std::string& what) const;
  detail::Hdf5Handle open_attribute(const std::string& object, const std::string& name, H5T_class_t kind,
                                    const std::string& what) const {
    return open_attribute(open_object(object, H5I_BADID, what), name, kind, what);
  }
  std::string attribute_task(const std::string& object, const std::string& name) const {
    return fmt::format("read attribute '{}' of '{}' in '{}'", name, object, path_.string());
  }
  std::vector<std::string> attribute_names(const std::string& object) const;
  std::int64_t read_integer(hid_t attribute, const std::string& what) const;
  Shape shape(hid_t dataset, const std::string& what) const;
  void check_layout(hid_t dataset, const std::string& what) const;
  void check_size(hid_t dataset, const std::string& what) const;
  void check_chunks(hid_t dataset, hid_t properties, const Shape& extent, const std::string& what) const;
  template <class CheckStored>
  void check_unfiltered_chunks(hid_t dataset, const CheckStored& check_stored, const std::string& what) const;
  void read(hid_t dataset, hid_t memory_type, void* to, const std::string& what) const;
  void check_checksum(hid_t dataset, hid_t type, hid_t memory_type, const void* numbers,
                      const std::string& what) const;
  template <class T>
  void read_into(hid_t dataset, TensorView<T> to, const std::string& what) const;

  std::filesystem::path path_;
  std::uintmax_t file_size_ = 0;
  mutable std::set<std::string> checked_;  // datasets that open_dataset has found readable
  detail::Hdf5Handle file_;
};

}  // namespace orthornn
