#pragma once
// Changes an HDF5 file as a stranger might: through HDF5's own API, so that every checksum is right.

#include <hdf5.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace orthornn::testing {

/// An HDF5 file that is open for changes until the object goes. Throws when HDF5 refuses a change: the test
/// would check nothing then.
class Hdf5Edit {
 public:
  using Sizes = std::vector<hsize_t>;

  explicit Hdf5Edit(const std::filesystem::path& file)
      : file_(ok(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT))) {}
  Hdf5Edit(const Hdf5Edit&) = delete;
  Hdf5Edit& operator=(const Hdf5Edit&) = delete;
  ~Hdf5Edit() { H5Fclose(file_); }

  hid_t file() const { return file_; }

  /// Replaces an attribute by one of this type and extent ({}: a scalar).
  void attribute(const char* object, const char* name, hid_t type, const Sizes& sizes,
                 const void* data) const {
    if (ok(H5Aexists_by_name(file_, object, name, H5P_DEFAULT)) > 0)
      ok(H5Adelete_by_name(file_, object, name, H5P_DEFAULT));
    const hid_t owner = ok(H5Oopen(file_, object, H5P_DEFAULT)), space = dataspace(sizes);
    const hid_t made = ok(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    ok(H5Awrite(made, type, data));
    ok(H5Aclose(made));
    ok(H5Sclose(space));
    ok(H5Oclose(owner));
  }
  /// The same with text of its own length.
  void text(const char* object, const char* name, const std::string& value) const {
    const hid_t type = ok(H5Tcopy(H5T_C_S1));
    ok(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)));
    attribute(object, name, type, {}, value.c_str());
    ok(H5Tclose(type));
  }
  std::string text_of(const char* object, const char* name) const {
    const hid_t found = ok(H5Aopen_by_name(file_, object, name, H5P_DEFAULT, H5P_DEFAULT));
    const hid_t type = ok(H5Aget_type(found));
    std::string value(H5Tget_size(type), '\0');
    ok(H5Aread(found, type, value.data()));
    ok(H5Tclose(type));
    ok(H5Aclose(found));
    return value;
  }
  /// Replaces the first `from` in a text attribute.
  void replace_in_text(const char* object, const char* name, const std::string& from,
                       const std::string& to) const {
    std::string value = text_of(object, name);
    const std::size_t place = value.find(from);
    if (place == std::string::npos) throw std::runtime_error("'" + from + "' is not in '" + value + "'");
    text(object, name, value.replace(place, from.size(), to));
  }

  void remove(const char* path) const { ok(H5Ldelete(file_, path, H5P_DEFAULT)); }
  /// Replaces what the path names by a dataset, which is written when there are data.
  void dataset(const char* path, hid_t type, const Sizes& sizes, hid_t properties, const void* data,
               bool extendible = false) const {
    if (ok(H5Lexists(file_, path, H5P_DEFAULT)) > 0) remove(path);
    const hid_t space = dataspace(sizes);
    if (extendible) {
      const Sizes unlimited(sizes.size(), H5S_UNLIMITED);
      ok(H5Sset_extent_simple(space, static_cast<int>(sizes.size()), sizes.data(), unlimited.data()));
    }
    const hid_t made = ok(H5Dcreate2(file_, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    if (data != nullptr) ok(H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    ok(H5Dclose(made));
    ok(H5Sclose(space));
  }

  static hid_t dataspace(const Sizes& sizes) {
    return ok(sizes.empty() ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
  }
  template <class Status>
  static Status ok(Status status) {
    if (status < 0) throw std::runtime_error("HDF5 refuses a change of this test");
    return status;
  }

 private:
  hid_t file_;
};

}  // namespace orthornn::testing
