// Datasets in chunks that are read chunk by chunk: HDF5 copies numbers one by one into place, where a chunk
// has few of each row. HDF5's own inflation takes as much memory as a chunk asks for, and HDF5 1.10 reads
// beyond the end of a chunk that is too short. So chunks are taken as they are stored, and inflated and put
// into place here, by all threads.

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "io/descriptor.hpp"
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

/// Copies rows of numbers of `width` bytes each. Strides are numbers.
template <std::size_t width>
void copy_rows(const std::uint8_t* from, Index from_stride, std::uint8_t* to, Index to_stride, Index rows,
               Index numbers) {
  constexpr Index few = 8;  // fewer are copied faster one by one
  for (Index row = 0; row < rows; ++row) {
    const std::uint8_t* x = from + static_cast<std::size_t>(row * from_stride) * width;
    std::uint8_t* y = to + static_cast<std::size_t>(row * to_stride) * width;
    if (numbers >= few) {
      std::memcpy(y, x, static_cast<std::size_t>(numbers) * width);
      continue;
    }
    for (Index i = 0; i < numbers; ++i, x += width, y += width) std::memcpy(y, x, width);
  }
}

void copy_rows(const std::uint8_t* from, Index from_stride, std::uint8_t* to, Index to_stride, Index rows,
               Index numbers, std::size_t width) {
  switch (width) {
    case 1:
      return copy_rows<1>(from, from_stride, to, to_stride, rows, numbers);
    case 2:
      return copy_rows<2>(from, from_stride, to, to_stride, rows, numbers);
    case 4:
      return copy_rows<4>(from, from_stride, to, to_stride, rows, numbers);
    default:
      return copy_rows<8>(from, from_stride, to, to_stride, rows, numbers);
  }
}

/// Copies what of the chunk `at` lies within the extent, numbers of `width` bytes each. `to` is the memory of
/// the extent from its row `first` on, of which the chunk has no earlier ones.
void copy_within(const std::uint8_t* chunk, const Hdf5Chunks& chunks, const Hdf5Chunks::Place& at,
                 const Shape& extent, std::size_t width, Index first, std::uint8_t* to) {
  const int last = extent.rank() - 1;
  const auto size = [&](int i) { return static_cast<Index>(chunks.sizes[static_cast<std::size_t>(i)]); };
  const auto begin = [&](int i) { return static_cast<Index>(at[static_cast<std::size_t>(i)]); };
  const auto inside = [&](int i) { return std::min(size(i), extent[i] - begin(i)); };
  // Planes of the last two dimensions.
  const Index rows = last > 0 ? inside(last - 1) : 1, rows_of_plane = last > 0 ? size(last - 1) : 1;
  Index planes = 1;
  for (int i = 0; i < last - 1; ++i) planes *= size(i);
  const Index skipped = first * (extent.count() / extent[0]);
  for (Index plane = 0; plane < planes; ++plane) {
    Index offset = begin(last), stride = extent[last], rest = plane;
    bool is_inside = true;
    for (int i = last - 1; i >= 0; --i) {
      Index index = begin(i);
      if (i < last - 1) {
        index += rest % size(i);
        rest /= size(i);
      }
      is_inside = is_inside && index < extent[i];
      offset += index * stride;
      stride *= extent[i];
    }
    if (!is_inside) continue;
    copy_rows(chunk + static_cast<std::size_t>(plane * rows_of_plane * size(last)) * width, size(last),
              to + static_cast<std::size_t>(offset - skipped) * width, extent[last], rows, inside(last),
              width);
  }
}

/// Reads bytes of a file. Throws FileError where there are fewer.
void read_bytes(int descriptor, haddr_t first, Bytes& to, const std::string& task) {
  const ssize_t found = read_at(descriptor, first, to.size(), to.data());
  if (found < 0) fail(task, "{}; check the disk", std::generic_category().message(errno));
  if (std::cmp_less(found, to.size()))
    fail(task, "a chunk of it lies beyond the end of the file; use another copy of the file");
}

/// Sets numbers of the chunk `at` that lie beyond the extent to 0. HDF5 stores what it will there, also what
/// cannot be converted.
void clear_padding(Bytes& chunk, const Hdf5Chunks& chunks, const Hdf5Chunks::Place& at, const Shape& extent,
                   std::size_t width) {
  const int last = extent.rank() - 1;
  const auto size = [&](int i) { return chunks.sizes[static_cast<std::size_t>(i)]; };
  const auto inside = [&](int i) {
    return std::min<hsize_t>(size(i), static_cast<hsize_t>(extent[i]) - at[static_cast<std::size_t>(i)]);
  };
  bool is_whole = true;
  for (int i = 0; i <= last; ++i) is_whole = is_whole && inside(i) == size(i);
  if (is_whole) return;
  const std::size_t bytes_of_row = size(last) * width;
  for (std::size_t row = 0; row < chunks.bytes / bytes_of_row; ++row) {
    bool is_inside = true;
    std::size_t rest = row;
    for (int i = last - 1; i >= 0; --i) {
      is_inside = is_inside && rest % size(i) < inside(i);
      rest /= size(i);
    }
    const std::size_t kept = is_inside ? inside(last) * width : 0;
    std::fill_n(chunk.data() + row * bytes_of_row + kept, bytes_of_row - kept, std::uint8_t{0});
  }
}

/// Calls visit(chunk) for the first `used` chunks, by all threads, and throws what one of them threw.
template <class Chunk, class Visit>
void visit_all(std::vector<Chunk>& chunks, std::size_t used, const Visit& visit) {
  parallel_for(static_cast<Index>(used), 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      try {
        visit(chunk);
      } catch (...) {
        chunk.error = std::current_exception();
      }
    }
  });
  for (const Chunk& chunk : chunks) {
    if (chunk.error) std::rethrow_exception(chunk.error);
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

std::optional<std::size_t> Hdf5Chunks::number_of(const Place& place, const Shape& extent) const {
  std::size_t number = 0;
  for (int i = 0; i < extent.rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (place[k] >= static_cast<hsize_t>(extent[i])) return std::nullopt;
    number = number * count_of(i, extent) + place[k] / sizes[k];
  }
  return number;
}

bool Hdf5Dataset::has_readable_addresses() const {
  if (addresses_ == nullptr) return false;
  const Hdf5Handle file = own(H5Iget_file_id(id_), task_), creation = own(H5Fget_create_plist(file), task_),
                   access = own(H5Fget_access_plist(file), task_);
  // Other drivers, which an environment variable may choose, have no descriptor, or addresses of their own.
  if (H5Pget_driver(access) != H5FD_SEC2) return false;
  // The addresses of chunks do not count what a user has put before the file.
  hsize_t before = 0;
  check(H5Pget_userblock(creation, &before), task_);
  return before == 0;
}

int Hdf5Dataset::descriptor() const {
  const Hdf5Handle file = own(H5Iget_file_id(id_), task_);
  // Of the driver that `has_readable_addresses` asks for.
  void* descriptor = nullptr;
  check(H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor), task_);
  return *static_cast<const int*>(descriptor);
}

/// A chunk on its way from the file to memory.
struct Hdf5Dataset::Chunk {
  Hdf5Chunks::Place at = {};
  /// Its bytes in the file, where they are compressed, and the filters that were not applied to them, a bit
  /// for each.
  Bytes stored = {};
  std::uint32_t left_out = 0;
  /// Where it begins in the file, if it is not compressed.
  haddr_t address = HADDR_UNDEF;
  Bytes numbers = {};
  std::exception_ptr error = nullptr;
};

// At most `most` bytes.
void Hdf5Dataset::read_stored(Chunk& chunk, std::size_t most) const {
  hsize_t size = 0;
  // Versions of HDF5 differ in what they say of a chunk that was never written.
  if (H5Dget_chunk_storage_size(id_, chunk.at.data(), &size) < 0 || size == 0 ||
      size > H5Dget_storage_size(id_))
    fail(task_, "a chunk of it was never written, or is damaged; expected all of its numbers in the file");
  if (size > most) fail(task_, "a chunk of it has {} bytes in the file; expected at most {}", size, most);
  chunk.stored.resize(size);
  check(H5Dread_chunk(id_, H5P_DEFAULT, chunk.at.data(), &chunk.left_out, chunk.stored.data()), task_);
}

// `bytes` of numbers of `width` bytes each, from what is stored.
void Hdf5Dataset::inflate(Chunk& chunk, const std::vector<int>& pipeline, std::size_t width,
                          std::size_t bytes) const {
  const auto shuffle = static_cast<unsigned>(std::ranges::count(pipeline, H5Z_FILTER_SHUFFLE));
  const bool is_shuffled = shuffle == 1 && (chunk.left_out & 1U) == 0;
  const bool is_deflated = pipeline.back() == H5Z_FILTER_DEFLATE && (chunk.left_out & (1U << shuffle)) == 0;
  if (is_deflated) {
    Bytes inflated(bytes);
    uLongf length = bytes;
    if (uncompress(inflated.data(), &length, chunk.stored.data(), chunk.stored.size()) != Z_OK)
      fail(task_, "a chunk of it is damaged, or longer than {} bytes; use another copy of the file", bytes);
    inflated.resize(length);
    chunk.stored.swap(inflated);
  }
  if (chunk.stored.size() != bytes)
    fail(task_, "a chunk of it has {} bytes; expected {}", chunk.stored.size(), bytes);
  if (is_shuffled) {
    unshuffle(chunk.stored, width, chunk.numbers.data());
  } else {
    std::ranges::copy(chunk.stored, chunk.numbers.begin());
  }
}

herr_t Hdf5Dataset::read_chunks(hid_t memory_type, hid_t transfer, Index first, Index last,
                                std::uint8_t* to) const {
  // Chunks that are in memory at a time have so many bytes, or there is one.
  constexpr std::size_t most_bytes = std::size_t{1} << 26;
  const Shape extent = shape();
  const Hdf5Handle file_type = type();
  const std::size_t width = H5Tget_size(file_type), memory_width = H5Tget_size(memory_type);
  const bool is_native = check(H5Tequal(file_type, memory_type), task_) > 0;
  const bool compressed = is_compressed();
  const int file = compressed ? -1 : descriptor();
  const std::vector<int> pipeline = filters();
  Hdf5Chunks chunks = this->chunks();
  const bool deflates = compressed && pipeline.back() == H5Z_FILTER_DEFLATE;
  const std::size_t most_stored = deflates ? compressBound(chunks.bytes) : chunks.bytes;
  const std::size_t count = chunks.bytes / width, bytes_of_chunk = count * std::max(width, memory_width);
  const auto row_of_chunks = static_cast<std::size_t>(chunks.count / chunks.count_of(0, extent));
  std::size_t number = static_cast<std::size_t>(first) / chunks.sizes[0] * row_of_chunks;
  chunks.at[0] = static_cast<hsize_t>(first);
  std::vector<Chunk> group;
  for (bool more = true; more && chunks.at[0] < static_cast<hsize_t>(last);) {
    // 1. What one thread must ask HDF5 for.
    std::size_t used = 0, used_bytes = 0;
    do {
      if (used == group.size()) group.emplace_back();
      Chunk& chunk = group[used++];
      chunk.at = chunks.at;
      if (compressed)
        read_stored(chunk, most_stored);
      else
        chunk.address = (*addresses_)[number];
      used_bytes += bytes_of_chunk + chunk.stored.size();
      ++number;
      more = chunks.next(extent);
    } while (more && chunks.at[0] < static_cast<hsize_t>(last) && used_bytes < most_bytes);
    // 2. The numbers, and where they need no conversion, their places.
    const auto put = [&](const Chunk& chunk) {
      copy_within(chunk.numbers.data(), chunks, chunk.at, extent, memory_width, first, to);
    };
    visit_all(group, used, [&](Chunk& chunk) {
      chunk.numbers.resize(compressed ? bytes_of_chunk : chunks.bytes);
      if (compressed)
        inflate(chunk, pipeline, width, chunks.bytes);
      else
        read_bytes(file, chunk.address, chunk.numbers, task_);
      if (is_native)
        put(chunk);
      else
        clear_padding(chunk.numbers, chunks, chunk.at, extent, width);
    });
    if (is_native) continue;
    // 3. The conversion, by one thread.
    for (std::size_t i = 0; i < used; ++i) {
      Bytes& numbers = group[i].numbers;
      numbers.resize(bytes_of_chunk);
      if (H5Tconvert(file_type, memory_type, count, numbers.data(), nullptr, transfer) < 0) return -1;
    }
    visit_all(group, used, put);
  }
  return 0;
}

}  // namespace orthornn
