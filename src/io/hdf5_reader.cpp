#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "io/hdf5_handle.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

#ifdef __SANITIZE_ADDRESS__
// HDF5 1.10 loses memory when an object header has a wrong checksum; that is not our leak.
extern "C" __attribute__((weak)) const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" __attribute__((weak)) const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace orthornn {

using detail::check;
using detail::Hdf5Handle;
using detail::own;
using detail::QuietHdf5;

namespace {

// The length of a superblock, without which HDF5 cannot know that a file is truncated.
constexpr std::uintmax_t smallest_file = 48;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw FileError(fmt::format("cannot read '{}': {}", file.string(), why));
}

// Everything that can be wrong with a file before HDF5 has a look at it.
void check_readable(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  if (descriptor < 0 && errno == ENOENT) refuse(file, "there is no such file; check the path");
  if (descriptor < 0 && errno == EACCES)
    refuse(file, "permission denied; ask its owner for the right to read it");
  if (descriptor < 0) refuse(file, fmt::format("{}; check the path", std::generic_category().message(errno)));
  struct stat status;
  const bool known = fstat(descriptor, &status) == 0;
  const int error = errno;
  close(descriptor);
  if (!known) refuse(file, std::generic_category().message(error));
  if (S_ISDIR(status.st_mode)) refuse(file, "it is a folder; give the name of a file in it");
  if (!S_ISREG(status.st_mode)) refuse(file, "it is not a regular file; give the name of an HDF5 file");
  if (status.st_size == 0) refuse(file, "it is empty; use another copy of it");
}

Hdf5Handle open_file(const std::filesystem::path& file) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id >= 0) return Hdf5Handle(id);
  const std::string reason = detail::hdf5_reason();
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  if (H5Fis_hdf5(file.c_str()) == 0) refuse(file, "it is not an HDF5 file; give the name of one");
  if (says("truncated") || std::filesystem::file_size(file) < smallest_file) {
    refuse(file, fmt::format("it is truncated ({}); use another copy of it", reason));
  }
  if (says("unable to lock") || says("already open")) {
    refuse(file, fmt::format("it is open for writing elsewhere ({}); close it there first", reason));
  }
  refuse(file, fmt::format("it is damaged ({}); use another copy of it", reason));
}

const char* class_name(H5T_class_t kind) {
  switch (kind) {
    case H5T_INTEGER:
      return "integers";
    case H5T_FLOAT:
      return "floating-point numbers";
    case H5T_STRING:
      return "text";
    case H5T_BITFIELD:
      return "bit fields";
    case H5T_OPAQUE:
      return "opaque bytes";
    case H5T_COMPOUND:
      return "compounds";
    case H5T_REFERENCE:
      return "references";
    case H5T_ENUM:
      return "enumerated values (h5py's bool is one)";
    case H5T_VLEN:
      return "sequences";
    case H5T_ARRAY:
      return "arrays";
    default:
      return "values of an unknown type";
  }
}

// HDF5 would put the largest int32 for an int64 that is larger still.
H5T_conv_ret_t stop_when_out_of_range(H5T_conv_except_t exception, hid_t, hid_t, void*, void*,
                                      void* out_of_range) {
  if (exception != H5T_CONV_EXCEPT_RANGE_HI && exception != H5T_CONV_EXCEPT_RANGE_LOW)
    return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(out_of_range) = true;
  return H5T_CONV_ABORT;
}

// The text of a fixed-length string without what fills it up.
std::string without_padding(std::string text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  const char filler = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
  return text.substr(0, text.find_last_not_of(filler) + 1);
}

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

struct Hdf5Reader::Impl {
  // "read dataset 'cell/bias' of 'model.h5'": the rest of an error's first words.
  std::string task(const char* kind, const std::string& object) const {
    return fmt::format("read {} '{}' of '{}'", kind, object, path_.string());
  }
  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    throw FileError(fmt::format("cannot {}: {}", what, why));
  }
  // Invalid when there is no such object.
  Hdf5Handle find(const std::string& object) const;
  Hdf5Handle open_object(const std::string& object, H5I_type_t kind, const std::string& what) const;
  Hdf5Handle open_dataset(const std::string& path, const std::string& what) const {
    return open_object(path, H5I_DATASET, what);
  }
  Hdf5Handle open_attribute(const std::string& object, const std::string& name, H5T_class_t kind,
                            const std::string& what) const;
  std::string attribute_task(const std::string& object, const std::string& name) const {
    return fmt::format("read attribute '{}' of '{}' in '{}'", name, object, path_.string());
  }
  Shape shape(hid_t dataset, const std::string& what) const;
  void read(hid_t dataset, hid_t memory_type, void* to, const std::string& what) const;
  void check_checksum(hid_t dataset, hid_t type, hid_t memory_type, const void* numbers,
                      const std::string& what) const;
  template <class T>
  void read_into(hid_t dataset, TensorView<T> to, const std::string& what) const;

  std::filesystem::path path_;
  Hdf5Handle file_;
};

Hdf5Handle Hdf5Reader::Impl::find(const std::string& object) const {
  const std::string what = task("object", object);
  Hdf5Handle found = own(H5Gopen2(file_, "/", H5P_DEFAULT), what);
  for (const std::string& name : components(object)) {
    if (H5Iget_type(found) != H5I_GROUP) return {};
    if (check(H5Lexists(found, name.c_str(), H5P_DEFAULT), what) == 0) return {};
    found = own(H5Oopen(found, name.c_str(), H5P_DEFAULT), what);
  }
  return found;
}

Hdf5Handle Hdf5Reader::Impl::open_object(const std::string& object, H5I_type_t kind,
                                         const std::string& what) const {
  Hdf5Handle found = find(object);
  if (found < 0) fail(what, "there is no such object in the file");
  if (kind != H5I_BADID && H5Iget_type(found) != kind) {
    fail(what, kind == H5I_GROUP ? "it is not a group" : "it is not a dataset");
  }
  return found;
}

Hdf5Handle Hdf5Reader::Impl::open_attribute(const std::string& object, const std::string& name,
                                            H5T_class_t kind, const std::string& what) const {
  const Hdf5Handle owner = open_object(object, H5I_BADID, what);
  if (check(H5Aexists(owner, name.c_str()), what) == 0) fail(what, "there is no such attribute");
  Hdf5Handle attribute = own(H5Aopen(owner, name.c_str(), H5P_DEFAULT), what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  const H5T_class_t found = H5Tget_class(type);
  if (found != kind) fail(what, fmt::format("expected {}, found {}", class_name(kind), class_name(found)));
  const Hdf5Handle space = own(H5Aget_space(attribute), what);
  const hssize_t count = check(H5Sget_simple_extent_npoints(space), what);
  if (count != 1) fail(what, fmt::format("expected one value, found {}", count));
  return attribute;
}

Shape Hdf5Reader::Impl::shape(hid_t dataset, const std::string& what) const {
  const Hdf5Handle space = own(H5Dget_space(dataset), what);
  if (H5Sget_simple_extent_type(space) == H5S_NULL) fail(what, "it has no shape (an empty dataspace)");
  const int rank = check(H5Sget_simple_extent_ndims(space), what);
  if (rank > Shape::max_rank) {
    fail(what, fmt::format("it has {} dimensions; tensors have at most {}", rank, Shape::max_rank));
  }
  std::array<hsize_t, Shape::max_rank> sizes{};
  check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), what);
  // HDF5 sees to it that a size and the number of elements fit in 64 bits; with their bytes they need to fit
  // too.
  Index bytes = 8;
  for (int i = 0; i < rank; ++i) {
    const auto size = static_cast<Index>(std::max<hsize_t>(sizes[static_cast<std::size_t>(i)], 1));
    if (__builtin_mul_overflow(bytes, size, &bytes)) fail(what, "it claims to be larger than any memory");
  }
  return Shape(sizes.begin(), sizes.begin() + rank);
}

// The whole dataset, converted.
void Hdf5Reader::Impl::read(hid_t dataset, hid_t memory_type, void* to, const std::string& what) const {
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  const H5T_class_t found = H5Tget_class(type);
  const H5T_class_t expected = H5Tget_class(memory_type);
  if (found != expected)
    fail(what, fmt::format("expected {}, found {}", class_name(expected), class_name(found)));
  if (to == nullptr) return;
  const Hdf5Handle transfer = own(H5Pcreate(H5P_DATASET_XFER), what);
  bool out_of_range = false;
  if (expected == H5T_INTEGER) {
    check(H5Pset_type_conv_cb(transfer, &stop_when_out_of_range, &out_of_range), what);
  }
  const herr_t status = H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, transfer, to);
  if (status < 0 && out_of_range) {
    fail(what, fmt::format("it holds integers that do not fit in {} bits; read it as a wider type",
                           8 * H5Tget_size(memory_type)));
  }
  check(status, what);
  check_checksum(dataset, type, memory_type, to, what);
}

// Ours beside Fletcher32 (hdf5_handle.hpp): of numbers that come as they lie in the file.
void Hdf5Reader::Impl::check_checksum(hid_t dataset, hid_t type, hid_t memory_type, const void* numbers,
                                      const std::string& what) const {
  if (check(H5Tequal(type, memory_type), what) == 0) return;
  if (check(H5Aexists(dataset, detail::checksum_attribute), what) == 0) return;
  const Hdf5Handle attribute = own(H5Aopen(dataset, detail::checksum_attribute, H5P_DEFAULT), what);
  std::int64_t expected = 0;
  check(H5Aread(attribute, H5T_NATIVE_INT64, &expected), what);
  const Hdf5Handle space = own(H5Dget_space(dataset), what);
  const auto count = static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space), what));
  if (detail::checksum(numbers, count * H5Tget_size(type)) != expected) {
    fail(what, "it is damaged (its numbers do not match their checksum); use another copy of the file");
  }
}

template <class T>
void Hdf5Reader::Impl::read_into(hid_t dataset, TensorView<T> to, const std::string& what) const {
  const hid_t memory_type = detail::number_type<T>().memory;
  if (to.device() == Device::cpu()) return read(dataset, memory_type, to.empty() ? nullptr : to.data(), what);
  Tensor<T> host;
  host.reserve(to.shape());
  read(dataset, memory_type, host.data(), what);
  copy<T>(host, to);
}

Hdf5Reader::Hdf5Reader(const std::filesystem::path& file) : impl_(std::make_unique<Impl>()) {
  const QuietHdf5 quiet;
  check_readable(file);
  impl_->path_ = file;
  impl_->file_ = open_file(file);
}

Hdf5Reader::~Hdf5Reader() = default;

const std::filesystem::path& Hdf5Reader::file() const { return impl_->path_; }

bool Hdf5Reader::has(const std::string& path) const {
  const QuietHdf5 quiet;
  return impl_->find(path) >= 0;
}

std::vector<std::string> Hdf5Reader::names(const std::string& group) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("group", group);
  const Hdf5Handle found = impl_->open_object(group, H5I_GROUP, what);
  std::vector<std::string> result;
  const auto add_name = [](hid_t, const char* name, const H5L_info_t*, void* names) -> herr_t {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  };
  // In whatever order: when HDF5 1.10 is to sort the names of a damaged group, it frees memory that is not
  // its own.
  check(H5Literate(found, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_name, &result), what);
  std::sort(result.begin(), result.end());
  return result;
}

Shape Hdf5Reader::shape(const std::string& path) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("dataset", path);
  return impl_->shape(impl_->open_dataset(path, what), what);
}

bool Hdf5Reader::is_integer(const std::string& path) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("dataset", path);
  const Hdf5Handle dataset = impl_->open_dataset(path, what);
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  const H5T_class_t found = H5Tget_class(type);
  if (found != H5T_INTEGER && found != H5T_FLOAT) {
    impl_->fail(what, fmt::format("expected numbers, found {}", class_name(found)));
  }
  return found == H5T_INTEGER;
}

template <class T>
Tensor<T> Hdf5Reader::read(const std::string& path) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("dataset", path);
  const Hdf5Handle dataset = impl_->open_dataset(path, what);
  const Shape shape = impl_->shape(dataset, what);
  Tensor<T> result;
  try {
    result.reserve(shape);
  } catch (const std::bad_alloc&) {
    impl_->fail(what, fmt::format("there is no memory for its shape {}", to_string(shape)));
  }
  impl_->read_into(dataset, result.view(), what);
  return result;
}

template <class T>
void Hdf5Reader::read_into(const std::string& path, TensorView<T> to) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("dataset", path);
  const Hdf5Handle dataset = impl_->open_dataset(path, what);
  const std::string name = fmt::format("dataset '{}' of '{}'", path, impl_->path_.string());
  check_shape(name.c_str(), impl_->shape(dataset, what), to.shape());
  impl_->read_into(dataset, to, what);
}

template Tensor<float> Hdf5Reader::read(const std::string&) const;
template Tensor<double> Hdf5Reader::read(const std::string&) const;
template Tensor<std::int32_t> Hdf5Reader::read(const std::string&) const;
template Tensor<std::int64_t> Hdf5Reader::read(const std::string&) const;
template Tensor<std::uint8_t> Hdf5Reader::read(const std::string&) const;
template void Hdf5Reader::read_into(const std::string&, TensorView<float>) const;
template void Hdf5Reader::read_into(const std::string&, TensorView<double>) const;
template void Hdf5Reader::read_into(const std::string&, TensorView<std::int32_t>) const;
template void Hdf5Reader::read_into(const std::string&, TensorView<std::int64_t>) const;
template void Hdf5Reader::read_into(const std::string&, TensorView<std::uint8_t>) const;

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle owner = impl_->open_object(object, H5I_BADID, what);
  return check(H5Aexists(owner, name.c_str()), what) > 0;
}

std::string Hdf5Reader::string_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_STRING, what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  if (check(H5Tis_variable_str(type), what) > 0) {
    char* text = nullptr;
    check(H5Aread(attribute, type, &text), what);
    const std::string result = text == nullptr ? "" : text;
    H5free_memory(text);
    return result;
  }
  std::string text(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, text.data()), what);
  return without_padding(text, H5Tget_strpad(type));
}

std::int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_INTEGER, what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  std::int64_t value = 0;
  if (H5Tget_sign(type) == H5T_SGN_NONE) {
    std::uint64_t wide = 0;
    check(H5Aread(attribute, H5T_NATIVE_UINT64, &wide), what);
    if (!std::in_range<std::int64_t>(wide))
      impl_->fail(what, fmt::format("{} does not fit in an int64", wide));
    value = static_cast<std::int64_t>(wide);
  } else {
    check(H5Aread(attribute, H5T_NATIVE_INT64, &value), what);
  }
  return value;
}

double Hdf5Reader::double_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_FLOAT, what);
  double value = 0;
  check(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), what);
  return value;
}

}  // namespace orthornn
