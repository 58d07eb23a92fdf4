// Compressed datasets. HDF5's own inflation takes as much memory as a chunk asks for, and HDF5 1.10 reads
// beyond the end of a chunk that is too short. So chunks are read as they are stored, and inflated here, each
// to the size that the dataset declares.

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/free_memory.hpp"
#include "io/expansion.hpp"
#include "io/hdf5_reader_parts.hpp"

namespace orthornn {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Puts the bytes of each number beside one another. Shuffled, the first bytes of all numbers come first,
/// then the second ones.
void unshuffle(const Bytes& shuffled, std::size_t width, std::uint8_t* to) {
  const std::size_t count = shuffled.size() / width;
  for (std::size_t byte = 0; byte < width; ++byte) {
    for (std::size_t i = 0; i < count; ++i) to[i * width + byte] = shuffled[byte * count + i];
  }
}

/// Copies what of a chunk lies within the extent, numbers of `width` bytes each.
void copy_within(const std::uint8_t* chunk, const Hdf5Chunks& chunks, const Shape& extent, std::size_t width,
                 std::uint8_t* to) {
  const int last = extent.rank() - 1;
  const auto size = [&](int i) { return static_cast<Index>(chunks.sizes[static_cast<std::size_t>(i)]); };
  const auto begin = [&](int i) { return static_cast<Index>(chunks.at[static_cast<std::size_t>(i)]); };
  Index rows = 1;
  for (int i = 0; i < last; ++i) rows *= size(i);
  const Index numbers = std::min(size(last), extent[last] - begin(last));
  for (Index row = 0; row < rows; ++row) {
    Index offset = begin(last), stride = extent[last], rest = row;
    bool inside = true;
    for (int i = last - 1; i >= 0; --i) {
      const Index index = begin(i) + rest % size(i);
      rest /= size(i);
      inside = inside && index < extent[i];
      offset += index * stride;
      stride *= extent[i];
    }
    if (!inside) continue;
    std::memcpy(to + static_cast<std::size_t>(offset) * width,
                chunk + static_cast<std::size_t>(row * size(last)) * width,
                static_cast<std::size_t>(numbers) * width);
  }
}

}  // namespace

bool Hdf5Chunks::next(const Shape& extent) {
  for (int i = extent.rank() - 1; i >= 0; --i) {
    const auto k = static_cast<std::size_t>(i);
    at[k] += sizes[k];
    if (at[k] < static_cast<hsize_t>(extent[i])) return true;
    at[k] = 0;
  }
  return false;
}

std::vector<int> Hdf5Dataset::filters() const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  const int count = check(H5Pget_nfilters(properties), task_);
  std::vector<int> found;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    found.push_back(
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr));
  }
  return found;
}

bool Hdf5Dataset::is_compressed() const {
  const std::vector<int> found = filters();
  for (const auto& accepted :
       {std::vector{H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE}}) {
    if (found == accepted) return true;
  }
  return false;
}

void Hdf5Dataset::check_expansion(std::uintmax_t file_size) const {
  const Shape extent = shape();
  if (extent.count() == 0) return;
  const std::uintmax_t stored = H5Dget_storage_size(id_);
  if (stored == 0) fail(task_, "no number of it was ever written");
  const Hdf5Chunks chunks = this->chunks();
  std::uintmax_t bytes = 0;
  if (__builtin_mul_overflow(chunks.count, chunks.bytes, &bytes) || stored > file_size ||
      expands_too_far(bytes, stored)) {
    fail(task_,
         "its {} chunks of {} bytes take {} bytes in the file; expected at most {} bytes in all, or {} times "
         "as "
         "many as in the file: write it without compression",
         chunks.count, chunks.bytes, stored, unsuspicious_bytes, largest_expansion);
  }
  if (chunks.count > most_small_chunks && chunks.bytes < least_chunk_bytes) {
    fail(task_, "it lies in {} chunks of {} bytes; expected at most {} chunks, or at least {} bytes in each",
         chunks.count, chunks.bytes, most_small_chunks, least_chunk_bytes);
  }
  // Its numbers, widened, and one chunk while it is read.
  const double of_chunk = static_cast<double>(chunks.bytes);
  const double numbers_of_chunk = of_chunk / static_cast<double>(H5Tget_size(type()));
  const double needed = 8 * static_cast<double>(extent.count()) + 8 * numbers_of_chunk + 2 * of_chunk;
  const std::optional<double> free = free_bytes();
  if (free && needed > *free) {
    fail(task_, "it takes about {:.3g} GB, and {:.3g} GB of memory are free; expected a smaller one",
         needed * 1e-9, *free * 1e-9);
  }
}

herr_t Hdf5Dataset::read_compressed(hid_t memory_type, hid_t transfer, void* to) const {
  const Shape extent = shape();
  const Hdf5Handle file_type = type();
  const std::size_t width = H5Tget_size(file_type), memory_width = H5Tget_size(memory_type);
  const std::uintmax_t most_stored = H5Dget_storage_size(id_);
  const std::vector<int> pipeline = filters();
  const auto shuffle = static_cast<unsigned>(std::ranges::count(pipeline, H5Z_FILTER_SHUFFLE));
  Hdf5Chunks chunks = this->chunks();
  const std::size_t count = chunks.bytes / width;
  Bytes stored, inflated(chunks.bytes), numbers(count * std::max(width, memory_width));
  do {
    hsize_t size = 0;
    // Versions of HDF5 differ in what they say of a chunk that was never written.
    if (H5Dget_chunk_storage_size(id_, chunks.at.data(), &size) < 0 || size == 0 || size > most_stored)
      fail(task_, "a chunk of it was never written, or is damaged; expected all of its numbers in the file");
    stored.resize(size);
    std::uint32_t left_out = 0;  // filters that were not applied to this chunk, a bit for each
    check(H5Dread_chunk(id_, H5P_DEFAULT, chunks.at.data(), &left_out, stored.data()), task_);
    const bool is_shuffled = shuffle == 1 && (left_out & 1U) == 0;
    const bool is_deflated = pipeline.back() == H5Z_FILTER_DEFLATE && (left_out & (1U << shuffle)) == 0;
    uLongf length = inflated.size();
    if (is_deflated && uncompress(inflated.data(), &length, stored.data(), stored.size()) != Z_OK)
      fail(task_, "a chunk of it is damaged, or longer than {} bytes; use another copy of the file",
           chunks.bytes);
    if (!is_deflated) {
      length = stored.size();
      std::copy_n(stored.begin(), std::min(stored.size(), inflated.size()), inflated.begin());
    }
    if (length != chunks.bytes) fail(task_, "a chunk of it has {} bytes; expected {}", length, chunks.bytes);
    if (is_shuffled) {
      unshuffle(inflated, width, numbers.data());
    } else {
      std::ranges::copy(inflated, numbers.begin());
    }
    if (H5Tconvert(file_type, memory_type, count, numbers.data(), nullptr, transfer) < 0) return -1;
    copy_within(numbers.data(), chunks, extent, memory_width, static_cast<std::uint8_t*>(to));
  } while (chunks.next(extent));
  return 0;
}

}  // namespace orthornn
