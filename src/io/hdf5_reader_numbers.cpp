#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <new>
#include <utility>

#include "io/hdf5_reader_parts.hpp"

namespace orthornn {

const char* class_name(H5T_class_t kind) {
  constexpr std::pair<H5T_class_t, const char*> names[] = {
      {H5T_INTEGER, "integers"},     {H5T_FLOAT, "floating-point numbers"},
      {H5T_STRING, "text"},          {H5T_BITFIELD, "bit fields"},
      {H5T_OPAQUE, "opaque bytes"},  {H5T_COMPOUND, "compounds"},
      {H5T_REFERENCE, "references"}, {H5T_ENUM, "enumerated values (h5py's bool is one)"},
      {H5T_VLEN, "sequences"},       {H5T_ARRAY, "arrays"}};
  const auto* found = std::ranges::find(names, kind, &std::pair<H5T_class_t, const char*>::first);
  return found == std::end(names) ? "values of an unknown type" : found->second;
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

Shape Hdf5Dataset::shape() const {
  const Hdf5Handle space = own(H5Dget_space(id_), task_);
  if (H5Sget_simple_extent_type(space) == H5S_NULL) fail(task_, "it has no shape (an empty dataspace)");
  const int rank = check(H5Sget_simple_extent_ndims(space), task_);
  if (rank > Shape::max_rank) {
    fail(task_, "it has {} dimensions; tensors have at most {}", rank, Shape::max_rank);
  }
  std::array<hsize_t, Shape::max_rank> sizes{};
  check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), task_);
  // The number of bytes must fit in 63 bits, also after each number is widened to eight bytes.
  Index bytes = 8;
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = std::max<hsize_t>(sizes[static_cast<std::size_t>(i)], 1);
    if (!std::in_range<Index>(size) || __builtin_mul_overflow(bytes, static_cast<Index>(size), &bytes))
      fail(task_, "it claims to be larger than any memory");
  }
  return Shape(sizes.begin(), sizes.begin() + rank);
}

Hdf5Dataset::Addresses Hdf5Dataset::check_readable(std::uintmax_t file_size, Compression compression) const {
  // The order matters: for the extent of a virtual dataset, HDF5 opens other files.
  check_layout(compression);
  if (!is_plain_number(type())) {
    fail(task_,
         "expected integers of 8 to 64 bits or IEEE numbers of 32 or 64, found {}; convert it before it "
         "is written",
         type_name(type()));
  }
  if (!is_compressed()) return check_size(file_size);
  check_expansion(file_size);
  return nullptr;
}

// The numbers lie in this file: no other file is read. Without compression a small file cannot expand.
void Hdf5Dataset::check_layout(Compression compression) const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout == H5D_VIRTUAL || check(H5Pget_external_count(properties), task_) > 0) {
    fail(task_,
         "its numbers lie in other files; expected them in this one: copy the dataset, as h5repack does");
  }
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED)
    fail(task_, "its layout is unknown; expected a compact, contiguous or chunked one");
  const bool may_be_compressed = compression == Compression::allowed;
  if (may_be_compressed && is_compressed()) return;
  for (const int filter : filters()) {
    if (filter == H5Z_FILTER_FLETCHER32) continue;
    if (may_be_compressed) {
      fail(task_,
           "it is stored through HDF5's filters {}; expected none, or Fletcher32 ({}) alone, or deflate ({}) "
           "alone or after shuffle ({}): write it with gzip alone, or without compression",
           fmt::join(filters(), ", "), static_cast<int>(H5Z_FILTER_FLETCHER32),
           static_cast<int>(H5Z_FILTER_DEFLATE), static_cast<int>(H5Z_FILTER_SHUFFLE));
    }
    fail(task_,
         "it is stored through HDF5's filter {}; expected none but Fletcher32 ({}): write it "
         "without compression",
         filter, static_cast<int>(H5Z_FILTER_FLETCHER32));
  }
}

// The file must hold all numbers that the extent claims. So the length of the file bounds the memory of a
// read.
Hdf5Dataset::Addresses Hdf5Dataset::check_size(std::uintmax_t file_size) const {
  const Shape extent = shape();
  const std::uintmax_t claimed = static_cast<std::uintmax_t>(extent.count()) * H5Tget_size(type());
  const std::uintmax_t stored = H5Dget_storage_size(id_);
  if (claimed > 0 && stored == 0) fail(task_, "no number of it was ever written");
  if (claimed > stored || stored > file_size) {
    fail(task_,
         "its shape {} of {} takes {} bytes, its storage {}, the file {}; expected all of it "
         "in the file",
         to_string(extent), type_name(type()), claimed, stored, file_size);
  }
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  return H5Pget_layout(properties) == H5D_CHUNKED && claimed > 0 ? check_chunks() : nullptr;
}

Hdf5Chunks Hdf5Dataset::chunks() const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  const Shape extent = shape();
  Hdf5Chunks chunks{.bytes = H5Tget_size(type()), .count = 1};
  const int rank = check(H5Pget_chunk(properties, Shape::max_rank, chunks.sizes.data()), task_);
  if (rank != extent.rank())
    fail(task_, "its chunks have {} dimensions, its shape {}", rank, to_string(extent));
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = chunks.sizes[static_cast<std::size_t>(i)];
    if (__builtin_mul_overflow(chunks.bytes, size, &chunks.bytes) || chunks.bytes == 0)
      fail(task_, "its chunks have no size that fits in 64 bits");
    // At most the number of elements, which fits in 63 bits.
    chunks.count *= chunks.count_of(i, extent);
  }
  return chunks;
}

// Each chunk must be stored, whole: HDF5 would fill in what was never written, and HDF5 1.10 reads beyond the
// end of a shorter one. check_size has found that all chunks together fit in the file, so no chunk is larger.
Hdf5Dataset::Addresses Hdf5Dataset::check_chunks() const {
  const Shape extent = shape();
  Hdf5Chunks chunks = this->chunks();
  // The time to check chunks without filters grows with the square of their number.
  const std::size_t filter_count = filters().size();
  if (chunks.count > most_small_chunks && (filter_count == 0 || chunks.bytes < least_chunk_bytes)) {
    fail(task_,
         "it lies in {} chunks of {} bytes; expected at most {} chunks, or Fletcher32 and at least "
         "{} bytes in each: write it contiguous",
         chunks.count, chunks.bytes, most_small_chunks, least_chunk_bytes);
  }
  const std::uintmax_t bytes = chunks.bytes + 4 * filter_count;  // Fletcher32's checksum of a chunk
  const auto refuse_unwritten = [&] {
    fail(task_, "a chunk of it was never written; expected all of its numbers in the file");
  };
  const auto check_stored = [&](hsize_t stored) {
    if (stored < bytes) fail(task_, "a chunk of it has {} bytes in the file; expected {}", stored, bytes);
  };
  if (filter_count == 0) {
    auto addresses = std::make_shared<std::vector<haddr_t>>(chunks.count, HADDR_UNDEF);
    each_unfiltered_chunk([&](const Hdf5Chunks::Place& at, haddr_t address, hsize_t stored) {
      check_stored(stored);
      if (const auto number = chunks.number_of(at, extent)) (*addresses)[*number] = address;
    });
    if (std::ranges::count(*addresses, HADDR_UNDEF) > 0) refuse_unwritten();
    return addresses;
  }
  do {
    // Versions of HDF5 differ in what they say of a chunk that was never written.
    hsize_t stored = 0;
    if (H5Dget_chunk_storage_size(id_, chunks.at.data(), &stored) < 0 || stored == 0) refuse_unwritten();
    check_stored(stored);
  } while (chunks.next(extent));
  return nullptr;
}

// H5Dget_chunk_storage_size does not read the stored size of chunks without filters. H5Dget_chunk_info does,
// but each call iterates over all chunks.
void Hdf5Dataset::each_unfiltered_chunk(
    const std::function<void(const Hdf5Chunks::Place&, haddr_t, hsize_t)>& visit) const {
  const Hdf5Handle space = own(H5Dget_space(id_), task_);
  hsize_t count = 0;
  check(H5Dget_num_chunks(id_, space, &count), task_);
  for (hsize_t i = 0; i < count; ++i) {
    Hdf5Chunks::Place at{};
    unsigned filter_mask = 0;
    haddr_t address = 0;
    hsize_t stored = 0;
    check(H5Dget_chunk_info(id_, space, i, at.data(), &filter_mask, &address, &stored), task_);
    visit(at, address, stored);
  }
}

void Hdf5Dataset::check_class(hid_t memory_type) const {
  const H5T_class_t found = H5Tget_class(type()), expected = H5Tget_class(memory_type);
  if (found != expected) fail(task_, "expected {}, found {}", class_name(expected), class_name(found));
}

void Hdf5Dataset::read(hid_t memory_type, void* to) const {
  check_class(memory_type);
  if (to == nullptr) return;
  if (is_compressed()) {
    const Index rows = shape()[0];
    convert(memory_type, [&](hid_t transfer) {
      return read_chunks(memory_type, transfer, 0, rows, static_cast<std::uint8_t*>(to));
    });
  } else {
    read_selected(memory_type, H5S_ALL, H5S_ALL, to);
  }
  const Hdf5Handle found_type = type();
  if (check(H5Tequal(found_type, memory_type), task_) > 0) check_checksum(found_type, to);
}

template <class Read>
void Hdf5Dataset::convert(hid_t memory_type, const Read& read_by) const {
  const Hdf5Handle transfer = own(H5Pcreate(H5P_DATASET_XFER), task_);
  bool out_of_range = false;
  if (H5Tget_class(memory_type) == H5T_INTEGER) {
    check(H5Pset_type_conv_cb(transfer, &stop_when_out_of_range, &out_of_range), task_);
  }
  const herr_t status = read_by(transfer);
  if (status < 0 && out_of_range) {
    fail(task_, "it holds integers that do not fit in {} bits; expected smaller ones",
         8 * H5Tget_size(memory_type));
  }
  check(status, task_);
}

void Hdf5Dataset::read_selected(hid_t memory_type, hid_t memory_space, hid_t file_space, void* to) const {
  convert(memory_type,
          [&](hid_t transfer) { return H5Dread(id_, memory_type, memory_space, file_space, transfer, to); });
}

Index Hdf5Dataset::rows_of_chunk() const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  return H5Pget_layout(properties) == H5D_CHUNKED ? static_cast<Index>(chunks().sizes[0]) : 1;
}

template <class T>
void Hdf5Dataset::read_rows_of_chunks(Index most,
                                      const std::function<void(TensorView<const T>)>& take) const {
  const hid_t memory_type = number_type<T>().memory;
  const Shape all = shape();
  const Index row = all.count() / all[0], chunk = std::min(rows_of_chunk(), all[0]);
  const Index rows = std::max<Index>(most / row / chunk, 1) * chunk;
  Tensor<T> piece;
  for (Index first = 0; first < all[0]; first += rows) {
    const Index last = std::min(first + rows, all[0]);
    Shape of_piece = {last - first};
    for (int i = 1; i < all.rank(); ++i) of_piece.append(all[i]);
    piece.reserve(of_piece);
    convert(memory_type, [&](hid_t transfer) {
      return read_chunks(memory_type, transfer, first, last, reinterpret_cast<std::uint8_t*>(piece.data()));
    });
    take(piece.view());
  }
}

template <class T>
void Hdf5Dataset::read_in_pieces(Index most, const std::function<void(TensorView<const T>)>& take) const {
  const hid_t memory_type = number_type<T>().memory;
  check_class(memory_type);
  const Shape all = shape();
  if (all.count() == 0) return;
  if (all.rank() == 0) {
    Tensor<T> numbers;
    numbers.reserve(all);
    read(memory_type, numbers.data());
    return take(numbers.view());
  }
  const Index row = all.count() / all[0], chunk = std::min(rows_of_chunk(), all[0]);
  // Where a row of chunks is too much, HDF5 finds the parts of a piece in them.
  if (is_compressed() || (chunk <= most / row && has_readable_addresses()))
    return read_rows_of_chunks<T>(most, take);
  const Hdf5Handle file_space = own(H5Dget_space(id_), task_);
  std::array<hsize_t, Shape::max_rank> start{}, count{};
  std::ranges::copy(all, count.begin());
  const Index fitting = std::clamp<Index>(most / row, 1, all[0]);
  const Index rows = fitting >= chunk ? fitting / chunk * chunk : fitting;
  Tensor<T> piece;
  for (Index first = 0; first < all[0]; first += rows) {
    start[0] = static_cast<hsize_t>(first);
    count[0] = static_cast<hsize_t>(std::min(rows, all[0] - first));
    check(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          task_);
    const Hdf5Handle memory_space = own(H5Screate_simple(all.rank(), count.data(), nullptr), task_);
    piece.reserve(Shape(count.begin(), count.begin() + all.rank()));
    read_selected(memory_type, memory_space, file_space, piece.data());
    take(piece.view());
  }
}

template <class T>
std::optional<std::uint64_t> Hdf5Dataset::place() const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  const bool is_plain = H5Pget_layout(properties) == H5D_CONTIGUOUS &&
                        check(H5Tequal(type(), number_type<T>().memory), task_) > 0;
  const haddr_t address = is_plain ? H5Dget_offset(id_) : HADDR_UNDEF;
  if (address == HADDR_UNDEF) return std::nullopt;
  return address;
}

// orthornn's own checksum (hdf5_handle.hpp), of numbers that need no conversion.
void Hdf5Dataset::check_checksum(hid_t found_type, const void* numbers) const {
  if (check(H5Aexists(id_, checksum_attribute), task_) == 0) return;
  const Hdf5Attribute attribute(id_, checksum_attribute, H5T_INTEGER,
                                fmt::format("{}, attribute '{}'", task_, checksum_attribute));
  const std::int64_t expected = attribute.integer();
  const Hdf5Handle space = own(H5Dget_space(id_), task_);
  const auto count = static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space), task_));
  if (checksum(numbers, count * H5Tget_size(found_type)) != expected) {
    fail(task_, "it is damaged (its numbers do not match their checksum); use another copy of the file");
  }
}

template <class T>
void Hdf5Dataset::read_into(TensorView<T> to) const {
  const hid_t memory_type = number_type<T>().memory;
  if (to.device() == Device::cpu()) return read(memory_type, to.empty() ? nullptr : to.data());
  Tensor<T> host;
  host.reserve(to.shape());
  read(memory_type, host.data());
  copy<T>(host, to);
}

Shape Hdf5Reader::shape(const std::string& path) const {
  const QuietHdf5 quiet;
  return impl_->open_dataset(path).shape();
}

bool Hdf5Reader::is_integer(const std::string& path) const {
  const QuietHdf5 quiet;
  return H5Tget_class(impl_->open_dataset(path).type()) == H5T_INTEGER;
}

template <class T>
void Hdf5Reader::expect(const std::string& path, const Shape& shape) const {
  const QuietHdf5 quiet;
  const hid_t wanted = number_type<T>().file;
  if (impl_->find(path) < 0) {
    fail(impl_->task("dataset", path), "there is no such object in the file; expected {} of shape {}",
         type_name(wanted), to_string(shape));
  }
  const Hdf5Dataset dataset = impl_->open_dataset(path);
  const Hdf5Handle type = dataset.type();
  const Shape found = dataset.shape();
  if (found == shape && H5Tget_class(type) == H5Tget_class(wanted) &&
      H5Tget_size(type) == H5Tget_size(wanted) && H5Tget_sign(type) == H5Tget_sign(wanted))
    return;
  fail(dataset.task(), "expected {} of shape {}, found {} of shape {}", type_name(wanted), to_string(shape),
       type_name(type), to_string(found));
}

template <class T>
Tensor<T> Hdf5Reader::read(const std::string& path) const {
  const QuietHdf5 quiet;
  const Hdf5Dataset dataset = impl_->open_dataset(path);
  const Shape shape = dataset.shape();
  Tensor<T> result;
  try {
    result.reserve(shape);
  } catch (const std::bad_alloc&) {
    fail(dataset.task(), "there is no memory for its shape {}", to_string(shape));
  }
  dataset.read_into(result.view());
  return result;
}

template <class T>
void Hdf5Reader::read_into(const std::string& path, TensorView<T> to) const {
  const QuietHdf5 quiet;
  const Hdf5Dataset dataset = impl_->open_dataset(path);
  const std::string name = fmt::format("dataset '{}' of '{}'", path, impl_->path_.string());
  check_shape(name.c_str(), dataset.shape(), to.shape());
  dataset.read_into(to);
}

template <class T>
void Hdf5Reader::read_in_pieces(const std::string& path, Index most,
                                const std::function<void(TensorView<const T>)>& take) const {
  const QuietHdf5 quiet;
  impl_->open_dataset(path).read_in_pieces(most, take);
}

template <class T>
std::optional<std::uint64_t> Hdf5Reader::place(const std::string& path) const {
  const QuietHdf5 quiet;
  return impl_->open_dataset(path).place<T>();
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
template void Hdf5Reader::read_in_pieces(const std::string&, Index,
                                         const std::function<void(TensorView<const float>)>&) const;
template void Hdf5Reader::read_in_pieces(const std::string&, Index,
                                         const std::function<void(TensorView<const std::int64_t>)>&) const;
template std::optional<std::uint64_t> Hdf5Reader::place<float>(const std::string&) const;
template std::optional<std::uint64_t> Hdf5Reader::place<std::int32_t>(const std::string&) const;

}  // namespace orthornn
