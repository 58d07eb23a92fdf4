#pragma once
// HDF5 files that the tests of reader and writer look at.

#include <hdf5.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn::testing {

/// Values with every byte in use, signs, extremes.
template <class T>
Tensor<T> example(const Shape& shape) {
  Tensor<T> values(shape);
  for (Index i = 0; i < values.size(); ++i) {
    const auto mixed = static_cast<std::int64_t>(static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15);
    if constexpr (std::is_floating_point_v<T>) {
      values.data()[i] = static_cast<T>(mixed) / T(3e18);
    } else {
      values.data()[i] = static_cast<T>(mixed);
    }
  }
  if (values.size() > 3) {
    values.data()[1] = std::numeric_limits<T>::lowest();
    values.data()[2] = std::numeric_limits<T>::max();
    if constexpr (std::is_floating_point_v<T>) values.data()[3] = -std::numeric_limits<T>::infinity();
  }
  return values;
}

/// The message of the FileError that `call` throws; anything else it throws goes on.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const FileError& error) {
    return error.what();
  }
  return "not refused";
}

/// A file with all that we write: groups (one with more members than HDF5 likes in an object header), types,
/// datasets in one piece and in several, attributes.
inline void write_small_file(const std::filesystem::path& file) {
  Hdf5Writer writer(64);
  writer.dataset("floats", example<float>(Shape{5}));
  writer.dataset("cell/doubles", example<double>(Shape{4, 5}));
  writer.dataset("cell/integers", example<std::int64_t>(Shape{}));
  writer.dataset("cell/none", example<double>(Shape{0, 3}));
  for (int i = 0; i < 10; ++i) {
    writer.dataset("many/bytes_" + std::to_string(i), example<std::uint8_t>(Shape{3}));
    writer.attribute("many", "attribute_" + std::to_string(i), i);
  }
  writer.attribute("/", "config", "{\"cell\": \"cwy\"}");
  writer.attribute("cell/doubles", "rate", 0.1);
  writer.commit(file);
}

/// All that is in that file, as text.
inline std::string everything_in_small_file(const std::filesystem::path& file) {
  std::ostringstream text;
  const auto add = [&](const auto& values) {
    text << to_string(values.shape());
    for (const auto& value : values) text << +value << ' ';
  };
  const Hdf5Reader reader(file);
  for (const char* group : {"/", "cell", "many"}) {
    for (const std::string& name : reader.names(group)) text << name << '\n';
  }
  add(reader.read<float>("floats"));
  add(reader.read<double>("cell/doubles"));
  add(reader.read<std::int64_t>("cell/integers"));
  add(reader.read<double>("cell/none"));
  for (int i = 0; i < 10; ++i) {
    add(reader.read<std::uint8_t>("many/bytes_" + std::to_string(i)));
    text << reader.int_attribute("many", "attribute_" + std::to_string(i));
  }
  text << reader.string_attribute("/", "config") << reader.double_attribute("cell/doubles", "rate");
  return text.str();
}

/// What other programs write.
class ForeignFile {
 public:
  explicit ForeignFile(const std::filesystem::path& file)
      : file_(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ~ForeignFile() { H5Fclose(file_); }
  void dataset(const char* name, hid_t file_type, hid_t memory_type, std::vector<hsize_t> sizes,
               const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (data == nullptr) {  // sparse, so that any size can be claimed
      const std::vector<hsize_t> chunk(sizes.size(), 1);
      H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
    }
    const hid_t dataset = H5Dcreate2(file_, name, file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    if (data != nullptr) H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(dataset);
    H5Sclose(space);
  }
  void null_dataset(const char* name) {
    const hid_t space = H5Screate(H5S_NULL);
    H5Dclose(H5Dcreate2(file_, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  }
  void attribute(const char* name, hid_t type, std::vector<hsize_t> sizes, const void* data) {
    const hid_t space = sizes.empty()
                            ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t attribute = H5Acreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, data);
    H5Aclose(attribute);
    H5Sclose(space);
  }

 private:
  hid_t file_;
};

inline hid_t text_type(std::size_t size, H5T_str_t padding) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size);
  H5Tset_strpad(type, padding);
  return type;
}

}  // namespace orthornn::testing
