#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>
#include <new>
#include <set>
#include <system_error>

#include "io/child_process.hpp"
#include "io/hdf5_handle.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

#ifdef __SANITIZE_ADDRESS__
// HDF5 1.10 leaks memory when an object header has a wrong checksum. The leak is not orthornn's.
extern "C" __attribute__((weak)) const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
extern "C" __attribute__((weak)) const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace orthornn {

using detail::check;
using detail::Hdf5Handle;
using detail::own;
using detail::QuietHdf5;

namespace {

// The length of a superblock. HDF5 needs a whole superblock to detect a truncated file.
constexpr std::uintmax_t smallest_file = 48;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw FileError(fmt::format("cannot read '{}': {}", file.string(), why));
}

// The checks before HDF5 opens the file. Returns its length in bytes.
std::uintmax_t check_readable(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  if (descriptor < 0 && errno == ENOENT) refuse(file, "there is no such file; check the path");
  if (descriptor < 0 && errno == EACCES)
    refuse(file, "permission denied; make it readable (chmod u+r), or ask its owner to do so");
  if (descriptor < 0) refuse(file, fmt::format("{}; check the path", std::generic_category().message(errno)));
  struct stat status;
  const bool known = fstat(descriptor, &status) == 0;
  const int error = errno;
  close(descriptor);
  if (!known) refuse(file, std::generic_category().message(error));
  if (S_ISDIR(status.st_mode)) refuse(file, "it is a folder; give the name of a file in it");
  if (!S_ISREG(status.st_mode)) refuse(file, "it is not a regular file; give the name of an HDF5 file");
  if (status.st_size == 0) refuse(file, "it is empty; use another copy of it");
  return static_cast<std::uintmax_t>(status.st_size);
}

Hdf5Handle open_file(const std::filesystem::path& file) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id >= 0) return Hdf5Handle(id);
  const std::string reason = detail::hdf5_reason();
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  if (H5Fis_hdf5(file.c_str()) == 0) refuse(file, "it is not an HDF5 file; give the name of one");
  std::error_code ignored;  // then no size is small
  if (says("truncated") || std::filesystem::file_size(file, ignored) < smallest_file) {
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

// The number types that are accepted in a file. HDF5 has many others, down to single bits. Their conversions
// are rarely used and little tested.
bool is_plain_number(hid_t type) {
  for (const hid_t plain : {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_STD_I8LE,
                            H5T_STD_I8BE,   H5T_STD_U8LE,   H5T_STD_U8BE,   H5T_STD_I16LE,  H5T_STD_I16BE,
                            H5T_STD_U16LE,  H5T_STD_U16BE,  H5T_STD_I32LE,  H5T_STD_I32BE,  H5T_STD_U32LE,
                            H5T_STD_U32BE,  H5T_STD_I64LE,  H5T_STD_I64BE,  H5T_STD_U64LE,  H5T_STD_U64BE}) {
    if (H5Tequal(type, plain) > 0) return true;
  }
  return false;
}

// "32-bit floating-point numbers"
std::string type_name(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return class_name(kind);
  return fmt::format("{}{}-bit {}", is_plain_number(type) ? "" : "unusual ", 8 * H5Tget_size(type),
                     class_name(kind));
}

// HDF5 would replace a larger int64 by the largest int32.
H5T_conv_ret_t stop_when_out_of_range(H5T_conv_except_t exception, hid_t, hid_t, void*, void*,
                                      void* out_of_range) {
  if (exception != H5T_CONV_EXCEPT_RANGE_HI && exception != H5T_CONV_EXCEPT_RANGE_LOW)
    return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(out_of_range) = true;
  return H5T_CONV_ABORT;
}

// The text of a fixed-length string without its padding.
std::string without_padding(std::string text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  const char filler = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
  return text.substr(0, text.find_last_not_of(filler) + 1);
}

// Bytes that identify an object of the file: its address.
std::string identity(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info{};
  check(H5Oget_info3(object, &info, H5O_INFO_BASIC), "tell the objects of a file apart");
  return std::string(reinterpret_cast<const char*>(&info.token), sizeof info.token);
#else
  H5O_info_t info{};
  check(H5Oget_info2(object, &info, H5O_INFO_BASIC), "tell the objects of a file apart");
  return std::string(reinterpret_cast<const char*>(&info.addr), sizeof info.addr);
#endif
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
  // The task for an error message: "read dataset 'cell/bias' of 'model.h5'".
  std::string task(const char* kind, const std::string& object) const {
    return fmt::format("read {} '{}' of '{}'", kind, object, path_.string());
  }
  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    throw FileError(fmt::format("cannot {}: {}", what, why));
  }
  // Invalid when there is no such object.
  Hdf5Handle find(const std::string& object) const;
  Hdf5Handle open_object(const std::string& object, H5I_type_t kind, const std::string& what) const;
  // A dataset that can be read: numbers of a plain type, all of them in this file.
  Hdf5Handle open_dataset(const std::string& path, const std::string& what) const;
  Hdf5Handle open_attribute(hid_t owner, const std::string& name, H5T_class_t kind,
                            const std::string& what) const;
  Hdf5Handle open_attribute(const std::string& object, const std::string& name, H5T_class_t kind,
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
  Hdf5Handle file_;
};

Hdf5Handle Hdf5Reader::Impl::find(const std::string& object) const {
  const std::string what = task("object", object);
  Hdf5Handle found = own(H5Gopen2(file_, "/", H5P_DEFAULT), what);
  for (const std::string& name : components(object)) {
    if (H5Iget_type(found) != H5I_GROUP) return {};
    // The links of a group can be compressed too.
    const Hdf5Handle properties = own(H5Gget_create_plist(found), what);
    if (check(H5Pget_nfilters(properties), what) > 0)
      fail(what, fmt::format("the group that holds '{}' is stored through a filter; expected none", name));
    if (check(H5Lexists(found, name.c_str(), H5P_DEFAULT), what) == 0) return {};
    H5L_info_t link;
    check(H5Lget_info(found, name.c_str(), &link, H5P_DEFAULT), what);
    if (link.type != H5L_TYPE_HARD) {
      fail(what, fmt::format("'{}' is a link to somewhere else; expected an object of this file: copy what "
                             "the link names into the file",
                             name));
    }
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

Hdf5Handle Hdf5Reader::Impl::open_dataset(const std::string& path, const std::string& what) const {
  Hdf5Handle dataset = open_object(path, H5I_DATASET, what);
  if (checked_.contains(path)) return dataset;
  // The order matters: for the extent of a virtual dataset, HDF5 opens other files.
  check_layout(dataset, what);
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  if (!is_plain_number(type)) {
    fail(what, fmt::format("expected integers of 8 to 64 bits or IEEE numbers of 32 or 64, found {}; convert "
                           "it before it is written",
                           type_name(type)));
  }
  check_size(dataset, what);
  checked_.insert(path);
  return dataset;
}

Hdf5Handle Hdf5Reader::Impl::open_attribute(hid_t owner, const std::string& name, H5T_class_t kind,
                                            const std::string& what) const {
  if (check(H5Aexists(owner, name.c_str()), what) == 0) fail(what, "there is no such attribute");
  Hdf5Handle attribute = own(H5Aopen(owner, name.c_str(), H5P_DEFAULT), what);
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  if (H5Tget_class(type) != kind || (kind != H5T_STRING && !is_plain_number(type)))
    fail(what, fmt::format("expected {}, found {}", class_name(kind), type_name(type)));
  if (kind == H5T_STRING && check(H5Tis_variable_str(type), what) > 0)
    fail(what,
         "expected text of a fixed length, found text of variable length (numpy.bytes_ has a fixed one)");
  if (kind == H5T_STRING && H5Tget_size(type) > detail::longest_text) {
    fail(what,
         fmt::format("expected text of at most {} bytes, found {}", detail::longest_text, H5Tget_size(type)));
  }
  const Hdf5Handle space = own(H5Aget_space(attribute), what);
  const hssize_t count = check(H5Sget_simple_extent_npoints(space), what);
  if (count != 1) fail(what, fmt::format("expected one value, found {}", count));
  return attribute;
}

std::vector<std::string> Hdf5Reader::Impl::attribute_names(const std::string& object) const {
  const std::string what = task("attributes of", object);
  const Hdf5Handle owner = open_object(object, H5I_BADID, what);
  std::vector<std::string> result;
  const auto add_name = [](hid_t, const char* name, const H5A_info_t*, void* names) -> herr_t {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(owner, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_name, &result), what);
  return result;
}

std::int64_t Hdf5Reader::Impl::read_integer(hid_t attribute, const std::string& what) const {
  const Hdf5Handle type = own(H5Aget_type(attribute), what);
  if (H5Tget_sign(type) != H5T_SGN_NONE) {
    std::int64_t value = 0;
    check(H5Aread(attribute, H5T_NATIVE_INT64, &value), what);
    return value;
  }
  std::uint64_t wide = 0;
  check(H5Aread(attribute, H5T_NATIVE_UINT64, &wide), what);
  if (!std::in_range<std::int64_t>(wide)) fail(what, fmt::format("{} does not fit in an int64", wide));
  return static_cast<std::int64_t>(wide);
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
  // The number of bytes must fit in 63 bits, also after each number is widened to eight bytes.
  Index bytes = 8;
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = std::max<hsize_t>(sizes[static_cast<std::size_t>(i)], 1);
    if (!std::in_range<Index>(size) || __builtin_mul_overflow(bytes, static_cast<Index>(size), &bytes))
      fail(what, "it claims to be larger than any memory");
  }
  return Shape(sizes.begin(), sizes.begin() + rank);
}

// The numbers lie in this file without compression: no other file is read, and a small file cannot expand.
void Hdf5Reader::Impl::check_layout(hid_t dataset, const std::string& what) const {
  const Hdf5Handle properties = own(H5Dget_create_plist(dataset), what);
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout == H5D_VIRTUAL || check(H5Pget_external_count(properties), what) > 0) {
    fail(what,
         "its numbers lie in other files; expected them in this one: copy the dataset, as h5repack does");
  }
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
    fail(what, "its layout is unknown; expected a compact, contiguous or chunked one");
  const int filters = check(H5Pget_nfilters(properties), what);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (filter == H5Z_FILTER_FLETCHER32) continue;
    fail(what,
         fmt::format("it is stored through HDF5's filter {}; expected none but Fletcher32 ({}): write it "
                     "without compression",
                     static_cast<int>(filter), static_cast<int>(H5Z_FILTER_FLETCHER32)));
  }
}

// The file must hold all numbers that the extent claims. So the length of the file bounds the memory of a
// read.
void Hdf5Reader::Impl::check_size(hid_t dataset, const std::string& what) const {
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  const Shape extent = shape(dataset, what);
  const std::uintmax_t claimed = static_cast<std::uintmax_t>(extent.count()) * H5Tget_size(type);
  const std::uintmax_t stored = H5Dget_storage_size(dataset);
  if (claimed > 0 && stored == 0) fail(what, "no number of it was ever written");
  if (claimed > stored || stored > file_size_) {
    fail(what,
         fmt::format("its shape {} of {} takes {} bytes, its storage {}, the file {}; expected all of it "
                     "in the file",
                     to_string(extent), type_name(type), claimed, stored, file_size_));
  }
  const Hdf5Handle properties = own(H5Dget_create_plist(dataset), what);
  if (H5Pget_layout(properties) == H5D_CHUNKED && claimed > 0)
    check_chunks(dataset, properties, extent, what);
}

// Each chunk must be stored whole: HDF5 1.10 reads beyond the end of a shorter one. check_size has found that
// all chunks together fit in the file, so no chunk is larger.
void Hdf5Reader::Impl::check_chunks(hid_t dataset, hid_t properties, const Shape& extent,
                                    const std::string& what) const {
  std::array<hsize_t, Shape::max_rank> sizes{};
  const int rank = check(H5Pget_chunk(properties, Shape::max_rank, sizes.data()), what);
  if (rank != extent.rank())
    fail(what, fmt::format("its chunks have {} dimensions, its shape {}", rank, to_string(extent)));
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  std::uintmax_t bytes = H5Tget_size(type);
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(bytes, sizes[static_cast<std::size_t>(i)], &bytes) || bytes == 0)
      fail(what, "its chunks have no size that fits in 64 bits");
  }
  std::uintmax_t count = 1;  // at most the number of elements, which fits in 63 bits
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = sizes[static_cast<std::size_t>(i)];
    count *= (static_cast<hsize_t>(extent[i]) + size - 1) / size;
  }
  // HDF5 allocates about four kilobytes for each chunk that it reads, even for a small chunk. The time to
  // check chunks without filters grows with the square of their number.
  constexpr std::uintmax_t most = 16384;
  const int filters = check(H5Pget_nfilters(properties), what);
  if (count > most && (filters == 0 || bytes < 4096)) {
    fail(what, fmt::format(
                   "it lies in {} chunks of {} bytes; expected at most {} chunks, or Fletcher32 and at least "
                   "4096 bytes in each: write it contiguous",
                   count, bytes, most));
  }
  bytes += 4 * static_cast<std::uintmax_t>(filters);  // Fletcher32's checksum of a chunk
  const auto check_stored = [&](hsize_t stored) {
    if (stored < bytes)
      fail(what, fmt::format("a chunk of it has {} bytes in the file; expected {}", stored, bytes));
  };
  if (filters == 0) return check_unfiltered_chunks(dataset, check_stored, what);
  std::array<hsize_t, Shape::max_rank> at{};
  for (bool more = true; more;) {
    hsize_t stored = 0;
    check(H5Dget_chunk_storage_size(dataset, at.data(), &stored), what);
    check_stored(stored);
    more = false;
    for (int i = rank - 1; i >= 0 && !more; --i) {
      const auto k = static_cast<std::size_t>(i);
      at[k] += sizes[k];
      more = at[k] < static_cast<hsize_t>(extent[i]);
      if (!more) at[k] = 0;
    }
  }
}

// H5Dget_chunk_storage_size does not read the stored size of chunks without filters. H5Dget_chunk_info does,
// but each call iterates over all chunks.
template <class CheckStored>
void Hdf5Reader::Impl::check_unfiltered_chunks(hid_t dataset, const CheckStored& check_stored,
                                               const std::string& what) const {
  const Hdf5Handle space = own(H5Dget_space(dataset), what);
  hsize_t count = 0;
  check(H5Dget_num_chunks(dataset, space, &count), what);
  for (hsize_t i = 0; i < count; ++i) {
    std::array<hsize_t, Shape::max_rank> at{};
    unsigned filter_mask = 0;
    haddr_t address = 0;
    hsize_t stored = 0;
    check(H5Dget_chunk_info(dataset, space, i, at.data(), &filter_mask, &address, &stored), what);
    check_stored(stored);
  }
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
    fail(what, fmt::format("it holds integers that do not fit in {} bits; expected smaller ones",
                           8 * H5Tget_size(memory_type)));
  }
  check(status, what);
  check_checksum(dataset, type, memory_type, to, what);
}

// orthornn's own checksum (hdf5_handle.hpp), of numbers that need no conversion.
void Hdf5Reader::Impl::check_checksum(hid_t dataset, hid_t type, hid_t memory_type, const void* numbers,
                                      const std::string& what) const {
  if (check(H5Tequal(type, memory_type), what) == 0) return;
  if (check(H5Aexists(dataset, detail::checksum_attribute), what) == 0) return;
  const std::string attribute_of_it = fmt::format("{}, attribute '{}'", what, detail::checksum_attribute);
  const std::int64_t expected = read_integer(
      open_attribute(dataset, detail::checksum_attribute, H5T_INTEGER, attribute_of_it), attribute_of_it);
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
  impl_->file_size_ = check_readable(file);
  impl_->path_ = file;
  // About eight times the time of a read with all checksums.
  const int seconds = 2 + static_cast<int>(impl_->file_size_ >> 26);
  const std::string end = detail::end_of_child(seconds, [&] {
    impl_->file_ = open_file(file);
    read_everything();
  });
  if (!end.empty()) refuse(file, fmt::format("HDF5 does not survive it ({}); use another copy of it", end));
  impl_->file_ = open_file(file);
}

// Reads, in the child process, everything that the parent may read from this file. The parent rejects again
// what is rejected here.
void Hdf5Reader::read_everything() const {
  std::set<std::string> seen;  // links may form cycles
  std::vector<std::string> paths = {"/"};
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const Error&) {
    }
  };
  const auto read_object = [&](const std::string& path) {
    const Hdf5Handle object = impl_->open_object(path, H5I_BADID, impl_->task("object", path));
    if (!seen.insert(identity(object)).second) return;
    for (const std::string& name : impl_->attribute_names(path)) {
      attempt([&] { string_attribute(path, name); });
      attempt([&] { int_attribute(path, name); });
      attempt([&] { double_attribute(path, name); });
    }
    if (H5Iget_type(object) == H5I_DATASET) {
      // Of larger datasets, which the parent may not read at all, only the chunk index is read.
      constexpr Index largest = Index{1} << 24;
      if (shape(path).count() > largest) return;
      is_integer(path) ? read<std::int64_t>(path).size() : read<double>(path).size();
    } else {
      for (const std::string& name : names(path)) paths.push_back(path + "/" + name);
    }
  };
  while (!paths.empty()) {
    const std::string path = std::move(paths.back());
    paths.pop_back();
    attempt([&] { read_object(path); });
  }
}

Hdf5Reader::~Hdf5Reader() = default;

const std::filesystem::path& Hdf5Reader::file() const { return impl_->path_; }

std::uintmax_t Hdf5Reader::file_size() const { return impl_->file_size_; }

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
  // Unsorted: HDF5 1.10 frees memory that it does not own when it sorts the names of a damaged group.
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
  return H5Tget_class(type) == H5T_INTEGER;
}

template <class T>
void Hdf5Reader::expect(const std::string& path, const Shape& shape) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->task("dataset", path);
  const hid_t wanted = detail::number_type<T>().file;
  const Hdf5Handle found = impl_->find(path);
  if (found < 0) {
    impl_->fail(what, fmt::format("there is no such object in the file; expected {} of shape {}",
                                  type_name(wanted), to_string(shape)));
  }
  const Hdf5Handle dataset = impl_->open_dataset(path, what);
  const Hdf5Handle type = own(H5Dget_type(dataset), what);
  const Shape found_shape = impl_->shape(dataset, what);
  if (found_shape == shape && H5Tget_class(type) == H5Tget_class(wanted) &&
      H5Tget_size(type) == H5Tget_size(wanted) && H5Tget_sign(type) == H5Tget_sign(wanted))
    return;
  impl_->fail(what, fmt::format("expected {} of shape {}, found {} of shape {}", type_name(wanted),
                                to_string(shape), type_name(type), to_string(found_shape)));
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

template void Hdf5Reader::expect<float>(const std::string&, const Shape&) const;
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
  std::string text(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, text.data()), what);
  return without_padding(text, H5Tget_strpad(type));
}

std::int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  const QuietHdf5 quiet;
  const std::string what = impl_->attribute_task(object, name);
  const Hdf5Handle attribute = impl_->open_attribute(object, name, H5T_INTEGER, what);
  return impl_->read_integer(attribute, what);
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
