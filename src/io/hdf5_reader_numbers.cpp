#include <algorithm>
#include <array>
#include <initializer_list>
#include <new>
#include <utility>

#include "io/hdf5_reader_parts.hpp"

namespace orthornn {

using detail::check;
using detail::class_name;
using detail::Hdf5Handle;
using detail::own;
using detail::QuietHdf5;
using detail::type_name;

namespace detail {

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

bool is_plain_number(hid_t type) {
  for (const hid_t plain : {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_STD_I8LE,
                            H5T_STD_I8BE,   H5T_STD_U8LE,   H5T_STD_U8BE,   H5T_STD_I16LE,  H5T_STD_I16BE,
                            H5T_STD_U16LE,  H5T_STD_U16BE,  H5T_STD_I32LE,  H5T_STD_I32BE,  H5T_STD_U32LE,
                            H5T_STD_U32BE,  H5T_STD_I64LE,  H5T_STD_I64BE,  H5T_STD_U64LE,  H5T_STD_U64BE}) {
    if (H5Tequal(type, plain) > 0) return true;
  }
  return false;
}

std::string type_name(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return class_name(kind);
  return fmt::format("{}{}-bit {}", is_plain_number(type) ? "" : "unusual ", 8 * H5Tget_size(type),
                     class_name(kind));
}

}  // namespace detail

namespace {

// HDF5 would replace a larger int64 by the largest int32.
H5T_conv_ret_t stop_when_out_of_range(H5T_conv_except_t exception, hid_t, hid_t, void*, void*,
                                      void* out_of_range) {
  if (exception != H5T_CONV_EXCEPT_RANGE_HI && exception != H5T_CONV_EXCEPT_RANGE_LOW)
    return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(out_of_range) = true;
  return H5T_CONV_ABORT;
}

}  // namespace

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

}  // namespace orthornn
