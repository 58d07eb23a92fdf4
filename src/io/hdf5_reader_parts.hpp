#pragma once
// What the sources of Hdf5Reader share: its members, the datasets and attributes that it reads, and messages.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5_handle.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn {

/// Throws FileError "cannot TASK: WHY". The task is such as "read dataset 'cell/bias' of 'model.h5'".
template <class... Values>
[[noreturn]] void fail(const std::string& task, fmt::format_string<Values...> why, Values&&... values) {
  throw FileError(fmt::format("cannot {}: {}", task, fmt::format(why, std::forward<Values>(values)...)));
}

/// "floating-point numbers"
const char* class_name(H5T_class_t kind);
/// The number types that are accepted in a file. HDF5 has many others, down to single bits. Their conversions
/// are rarely used and little tested.
bool is_plain_number(hid_t type);
/// "32-bit floating-point numbers"
std::string type_name(hid_t type);

/// An attribute that is open: one number of a plain type, or one text of a fixed length.
struct Hdf5Attribute {
  /// Throws FileError for an attribute of another type, or of another kind than expected.
  Hdf5Attribute(hid_t owner, const std::string& name, H5T_class_t expected, std::string task_of_caller);
  /// The value of an attribute of integers.
  std::int64_t integer() const;

  std::string task;
  Hdf5Handle id;
  Hdf5Handle type;
};

/// HDF5 allocates about four kilobytes for each chunk that it reads, even for a small chunk. Of more chunks
/// than these, each must have `least_chunk_bytes`.
constexpr std::uintmax_t most_small_chunks = 16384, least_chunk_bytes = 4096;

/// The chunks of a dataset, and the place of one of them.
struct Hdf5Chunks {
  /// Goes to the next chunk; false behind the last one, and then it is at the first one again.
  bool next(const Shape& extent);

  /// Number of chunks along a dimension.
  hsize_t count_of(int dimension, const Shape& extent) const {
    const hsize_t size = sizes[static_cast<std::size_t>(dimension)];
    return (static_cast<hsize_t>(extent[dimension]) + size - 1) / size;
  }

  /// Number of the chunk at a place in the order of `next`; none beyond the extent.
  std::optional<std::size_t> number_of(const std::array<hsize_t, Shape::max_rank>& place,
                                       const Shape& extent) const;

  /// First entry of a chunk in each dimension.
  using Place = std::array<hsize_t, Shape::max_rank>;

  Place sizes{};
  /// Bytes of the numbers of a chunk.
  std::uintmax_t bytes = 0;
  std::uintmax_t count = 0;
  Place at{};
};

/// A dataset that is open. Every function throws FileError.
class Hdf5Dataset {
 public:
  Hdf5Dataset(Hdf5Handle id, std::string task) : id_(std::move(id)), task_(std::move(task)) {}

  const std::string& task() const { return task_; }
  Hdf5Handle type() const { return own(H5Dget_type(id_), task_); }
  Shape shape() const;
  /// Where chunks without filters begin in the file, in the order of Hdf5Chunks::next. Null for other
  /// datasets.
  using Addresses = std::shared_ptr<const std::vector<haddr_t>>;
  /// Refuses what cannot be read: all of it must be numbers of a plain type in a file of so many bytes.
  /// Returns where its chunks are, which takes long to find, for `set_addresses`.
  Addresses check_readable(std::uintmax_t file_size, Compression compression) const;
  void set_addresses(Addresses addresses) { addresses_ = std::move(addresses); }
  /// The whole dataset, converted.
  template <class T>
  void read_into(TensorView<T> to) const;
  /// As Hdf5Reader::read_in_pieces and Hdf5Reader::place.
  template <class T>
  void read_in_pieces(Index most, const std::function<void(TensorView<const T>)>& take) const;
  template <class T>
  std::optional<std::uint64_t> place() const;

 private:
  void check_layout(Compression compression) const;
  Addresses check_size(std::uintmax_t file_size) const;
  /// The chunks of a dataset in chunks that is not empty.
  Hdf5Chunks chunks() const;
  Addresses check_chunks() const;
  /// Rows of the first dimension that a chunk has; 1 where there are no chunks.
  Index rows_of_chunk() const;
  /// Calls visit(place, address, stored bytes) for each chunk of a dataset without filters.
  void each_unfiltered_chunk(
      const std::function<void(const Hdf5Chunks::Place& at, haddr_t address, hsize_t stored)>& visit) const;
  // hdf5_compressed.cpp
  std::vector<int> filters() const;
  bool is_compressed() const;
  void check_expansion(std::uintmax_t file_size) const;
  // hdf5_chunks.cpp
  struct Chunk;
  /// Whether chunks without filters can be read from the file's descriptor, by their addresses.
  bool has_readable_addresses() const;
  /// HDF5's own descriptor of the file.
  int descriptor() const;
  void read_stored(Chunk& chunk, std::size_t most) const;
  void inflate(Chunk& chunk, const std::vector<int>& pipeline, std::size_t width, std::size_t bytes) const;
  /// Reads the rows first to last - 1, which have whole chunks, by all threads. Returns the status of the
  /// conversion of the numbers.
  herr_t read_chunks(hid_t memory_type, hid_t transfer, Index first, Index last, std::uint8_t* to) const;
  template <class T>
  void read_rows_of_chunks(Index most, const std::function<void(TensorView<const T>)>& take) const;
  void read(hid_t memory_type, void* to) const;
  /// The part of the file that a selection names, as numbers of a type that was checked.
  void read_selected(hid_t memory_type, hid_t memory_space, hid_t file_space, void* to) const;
  /// Calls read(transfer properties), and throws where its numbers do not fit in the memory type.
  template <class Read>
  void convert(hid_t memory_type, const Read& read) const;
  void check_class(hid_t memory_type) const;
  void check_checksum(hid_t type, const void* numbers) const;

  Hdf5Handle id_;
  std::string task_;
  Addresses addresses_;
};

// hdf5_reader_numbers.cpp has what concerns the numbers of datasets, hdf5_compressed.cpp what concerns those
// that are compressed, hdf5_reader.cpp the rest.
struct Hdf5Reader::Impl {
  std::string task(const char* kind, const std::string& object) const {
    return fmt::format("read {} '{}' of '{}'", kind, object, path_.string());
  }
  std::string attribute_task(const std::string& object, const std::string& name) const {
    return fmt::format("read attribute '{}' of '{}' in '{}'", name, object, path_.string());
  }
  // Invalid when there is no such object.
  Hdf5Handle find(const std::string& object) const;
  Hdf5Handle open_object(const std::string& object, H5I_type_t kind, const std::string& task) const;
  // A dataset that can be read.
  Hdf5Dataset open_dataset(const std::string& path) const;
  Hdf5Attribute open_attribute(const std::string& object, const std::string& name, H5T_class_t kind) const;

  std::filesystem::path path_;
  std::uintmax_t file_size_ = 0;
  Compression compression_ = Compression::refused;
  mutable std::map<std::string, Hdf5Dataset::Addresses> checked_;  // datasets that can be read
  Hdf5Handle file_;
};

}  // namespace orthornn
