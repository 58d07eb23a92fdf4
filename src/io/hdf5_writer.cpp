#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "io/fixed_texts.hpp"
#include "io/hdf5_handle.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn {

namespace {

// The most attributes or links that HDF5 can keep in an object header.
constexpr unsigned most_in_header = 65535;
// The step by which HDF5's core driver grows the image.
constexpr std::size_t image_growth = 1 << 16;
// Offset of the file length in a superblock of version 2 or 3.
constexpr std::size_t end_of_file_field = 28;

// The file in memory. HDF5's core driver allocates its memory by these functions. When it closes the file it
// frees the memory; these functions keep it instead. (H5Fget_file_image would be simpler. But at least up to
// HDF5 1.10 it returns a superblock of version 3 with a wrong checksum.)
struct Image {
  char* data = nullptr;
  std::size_t capacity = 0;

  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() { std::free(data); }

  static void* resize(void*, std::size_t size, H5FD_file_image_op_t, void* image) {
    Image& self = *static_cast<Image*>(image);
    char* memory = static_cast<char*>(std::realloc(self.data, size));
    if (memory == nullptr) return nullptr;
    if (size > self.capacity) std::memset(memory + self.capacity, 0, size - self.capacity);
    self.data = memory;
    self.capacity = size;
    return memory;
  }
  static herr_t keep(void*, H5FD_file_image_op_t, void*) { return 0; }
  static void* share(void* image) { return image; }
  static herr_t forget(void*) { return 0; }

  // After the file is closed.
  std::string_view bytes() const {
    std::uint64_t size = 0;
    for (std::size_t i = 8; i-- > 0;) {
      size = (size << 8) | static_cast<unsigned char>(data[end_of_file_field + i]);
    }
    return {data, std::min<std::size_t>(size, capacity)};
  }
};

// The path of the group above, "" for the file itself.
std::string group_above(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Timestamps would make equal content give unequal bytes. Attributes and links of every number stay in the
// object header. In HDF5's other storage, long attributes have no checksums, and damaged links crash some
// readers (HDF5 1.10).
Hdf5Handle creation_properties(hid_t kind, const std::string& what) {
  Hdf5Handle properties = own(H5Pcreate(kind), what);
  check(H5Pset_obj_track_times(properties, false), what);
  check(H5Pset_attr_phase_change(properties, most_in_header, 0), what);
  if (kind != H5P_DATASET_CREATE) check(H5Pset_link_phase_change(properties, most_in_header, 0), what);
  return properties;
}

Hdf5Handle dataspace(const Shape& shape, const std::string& what) {
  std::array<hsize_t, Shape::max_rank> sizes{};
  std::ranges::copy(shape, sizes.begin());
  return own(
      shape.rank() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape.rank(), sizes.data(), nullptr),
      what);
}

// UTF-8 text of so many bytes.
Hdf5Handle text_type(std::size_t bytes, const std::string& what) {
  Hdf5Handle type = own(H5Tcopy(H5T_C_S1), what);
  check(H5Tset_size(type, bytes), what);
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), what);
  check(H5Tset_cset(type, H5T_CSET_UTF8), what);
  return type;
}

// The whole array if it has at most `limit` elements, else as many rows as fit. If a single row does not fit,
// a part of a row.
std::array<hsize_t, Shape::max_rank> chunk_sizes(const Shape& shape, Index limit) {
  std::array<hsize_t, Shape::max_rank> sizes{};
  Index rest = shape.count();
  for (int i = 0; i < shape.rank(); ++i) {
    rest /= shape[i];
    const Index size = std::clamp<Index>(limit / rest, 1, shape[i]);
    sizes[static_cast<std::size_t>(i)] = static_cast<hsize_t>(size);
    limit = std::max<Index>(limit / size, 1);
  }
  return sizes;
}

}  // namespace

struct Hdf5Writer::Impl {
  explicit Impl(Index chunk_bytes);

  hid_t file() const {
    if (file_ < 0) throw ValueError("an Hdf5Writer was given more content after commit()");
    return file_;
  }
  void write_attribute(const std::string& object, const std::string& name, ValueType type,
                       const void* value) const;
  /// Values of `size` bytes each in memory.
  void write_dataset(const std::string& path, const Shape& shape, ValueType type, std::size_t size,
                     const void* values) const;

  Index chunk_bytes_;
  Image image_;             // outlives the file
  Hdf5Handle file_;         // invalid once committed
  std::string_view bytes_;  // of the image, once that is complete
};

Hdf5Writer::Impl::Impl(Index chunk_bytes) : chunk_bytes_(chunk_bytes) {
  const std::string what = "create an HDF5 image in memory";
  const Hdf5Handle access = own(H5Pcreate(H5P_FILE_ACCESS), what);
  check(H5Pset_fapl_core(access, image_growth, false), what);
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), what);
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), what);
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_realloc = &Image::resize;
  callbacks.image_free = &Image::keep;
  callbacks.udata_copy = &Image::share;
  callbacks.udata_free = &Image::forget;
  callbacks.udata = &image_;
  check(H5Pset_file_image_callbacks(access, &callbacks), what);
  const Hdf5Handle creation = creation_properties(H5P_FILE_CREATE, what);
  // HDF5 treats images of the same name as one file.
  static std::atomic<std::uint64_t> number{0};
  const std::string name = fmt::format("orthornn image {}", number++);
  file_ = own(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation, access), what);
}

void Hdf5Writer::Impl::write_attribute(const std::string& object, const std::string& name, ValueType type,
                                       const void* value) const {
  const std::string what = fmt::format("write attribute '{}' of '{}'", name, object);
  const Hdf5Handle owner = own(H5Oopen(file(), object.c_str(), H5P_DEFAULT), what);
  const Hdf5Handle scalar = dataspace(Shape{}, what);
  const Hdf5Handle properties = own(H5Pcreate(H5P_ATTRIBUTE_CREATE), what);
  check(H5Pset_char_encoding(properties, H5T_CSET_UTF8), what);
  const Hdf5Handle attribute =
      own(H5Acreate2(owner, name.c_str(), type.file, scalar, properties, H5P_DEFAULT), what);
  check(H5Awrite(attribute, type.memory, value), what);
}

void Hdf5Writer::Impl::write_dataset(const std::string& path, const Shape& shape, ValueType type,
                                     std::size_t size, const void* values) const {
  const std::string what = fmt::format("write dataset '{}'", path);
  const Hdf5Handle properties = creation_properties(H5P_DATASET_CREATE, what);
  if (shape.rank() == 0 || shape.count() == 0) {
    // A dataset without dimensions or elements has no chunks. A scalar lies in the object header, under its
    // checksum.
    check(H5Pset_layout(properties, H5D_COMPACT), what);
  } else {
    const Index limit = std::max<Index>(chunk_bytes_ / static_cast<Index>(size), 1);
    const auto sizes = chunk_sizes(shape, limit);
    check(H5Pset_chunk(properties, shape.rank(), sizes.data()), what);
    check(H5Pset_fletcher32(properties), what);
  }
  const Hdf5Handle space = dataspace(shape, what);
  const Hdf5Handle dataset =
      own(H5Dcreate2(file(), path.c_str(), type.file, space, H5P_DEFAULT, properties, H5P_DEFAULT), what);
  if (shape.count() == 0) return;
  check(H5Dwrite(dataset, type.memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), what);
  const std::int64_t crc = checksum(values, static_cast<std::size_t>(shape.count()) * size);
  write_attribute(path, checksum_attribute, number_type<std::int64_t>(), &crc);
}

Hdf5Writer::Hdf5Writer(Index chunk_bytes) {
  if (chunk_bytes < 8 || chunk_bytes >= Index{1} << 32) {
    throw ValueError(
        fmt::format("chunks of {} bytes were asked for; HDF5 needs 8 bytes to 4 GiB", chunk_bytes));
  }
  const QuietHdf5 quiet;
  impl_ = std::make_unique<Impl>(chunk_bytes);
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::group(const std::string& path) {
  const QuietHdf5 quiet;
  const std::string what = fmt::format("create group '{}'", path);
  // Level by level: groups that HDF5 creates itself would get a timestamp.
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    const std::string prefix = path.substr(0, end);
    if (prefix == "/" || check(H5Lexists(impl_->file(), prefix.c_str(), H5P_DEFAULT), what) > 0) continue;
    const Hdf5Handle properties = creation_properties(H5P_GROUP_CREATE, what);
    own(H5Gcreate2(impl_->file(), prefix.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), what);
  }
}

template <class T>
void Hdf5Writer::write(const std::string& path, TensorView<const T> values) {
  const QuietHdf5 quiet;
  if (values.device() != Device::cpu()) {
    Tensor<T> host;
    host.reserve(values.shape());
    copy<T>(values, host.view());
    return write<T>(path, host.view());
  }
  group(group_above(path));
  impl_->write_dataset(path, values.shape(), number_type<T>(), sizeof(T), values.data());
}

template void Hdf5Writer::write(const std::string&, TensorView<const float>);
template void Hdf5Writer::write(const std::string&, TensorView<const double>);
template void Hdf5Writer::write(const std::string&, TensorView<const std::int32_t>);
template void Hdf5Writer::write(const std::string&, TensorView<const std::int64_t>);
template void Hdf5Writer::write(const std::string&, TensorView<const std::uint8_t>);

void Hdf5Writer::dataset(const std::string& path, const std::vector<std::string>& texts) {
  const QuietHdf5 quiet;
  group(group_above(path));
  const FixedTexts fixed(texts);
  const Hdf5Handle type = text_type(fixed.width, fmt::format("write dataset '{}'", path));
  impl_->write_dataset(path, {std::ssize(texts)}, {type, type}, fixed.width, fixed.bytes.data());
}

void Hdf5Writer::attribute(const std::string& object, const std::string& name, std::string_view text) {
  if (text.size() > longest_text || text.find('\0') != std::string_view::npos) {
    throw ValueError(
        fmt::format("attribute '{}' of '{}' has {} bytes; attributes are text of at most {} bytes without a "
                    "NUL: make it a "
                    "dataset of uint8",
                    name, object, text.size(), longest_text));
  }
  const QuietHdf5 quiet;
  const std::string what = fmt::format("write attribute '{}' of '{}'", name, object);
  const Hdf5Handle type = text_type(std::max<std::size_t>(text.size(), 1), what);  // no empty type: one NUL
  impl_->write_attribute(object, name, {type, type}, text.empty() ? "" : text.data());
}

void Hdf5Writer::attribute(const std::string& object, const std::string& name, double value) {
  const QuietHdf5 quiet;
  impl_->write_attribute(object, name, number_type<double>(), &value);
}

void Hdf5Writer::integer_attribute(const std::string& object, const std::string& name, std::int64_t value) {
  const QuietHdf5 quiet;
  impl_->write_attribute(object, name, number_type<std::int64_t>(), &value);
}

void Hdf5Writer::commit(const std::filesystem::path& file, SymbolicLinks links) {
  const QuietHdf5 quiet;
  const std::string what = fmt::format("write '{}'", file.string());
  if (impl_->file_ >= 0) {
    check(H5Fclose(impl_->file_.release()), what);
    impl_->bytes_ = impl_->image_.bytes();
  }
  if (impl_->bytes_.empty())
    throw FileError(fmt::format("cannot {}: its content could not be completed", what));
  write_file_atomically(file, impl_->bytes_, links);
}

}  // namespace orthornn
