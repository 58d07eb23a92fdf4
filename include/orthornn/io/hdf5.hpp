#pragma once
// Named tensors and attributes in HDF5 files. Paths inside a file are "group/name"; "/" is the file itself.
// Calls of one thread at a time, unless the HDF5 library was built thread-safe.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn {

/// Collects datasets and attributes in memory; `commit` writes the file in one step, so that a full disk or a
/// kill leaves the old file whole. The same calls give the same bytes. Everything in the file is under a
/// checksum (data: Fletcher32, and a CRC-32 in the attribute crc32), and any HDF5 since 1.10 reads it.
///
/// Besides what is stated, everything throws FileError when HDF5 fails (a name used twice, no memory), and
/// ValueError after `commit`.
class Hdf5Writer {
 public:
  /// Datasets of more than `chunk_bytes` are stored in pieces (HDF5 allows at most 4 GiB a piece).
  explicit Hdf5Writer(Index chunk_bytes = Index{1} << 30);
  ~Hdf5Writer();

  /// Creates the group, and those above it, unless it is there already.
  void group(const std::string& path);

  /// Creates a dataset of the view's type (little endian) and shape, and the groups above it. The view may
  /// lie on any device.
  void dataset(const std::string& path, TensorView<const float> values) { write(path, values); }
  void dataset(const std::string& path, TensorView<const double> values) { write(path, values); }
  void dataset(const std::string& path, TensorView<const std::int32_t> values) { write(path, values); }
  void dataset(const std::string& path, TensorView<const std::int64_t> values) { write(path, values); }
  void dataset(const std::string& path, TensorView<const std::uint8_t> values) { write(path, values); }

  /// Gives a group or dataset that is there already an attribute: UTF-8 text, an int64 or a double. Throws
  /// ValueError for text of more than 60000 bytes or with a NUL in it (make it a dataset of uint8), and for
  /// an integer beyond int64. Text has a fixed length, which h5py shows as bytes: only that lies under a
  /// checksum, and on damaged text of variable length HDF5 1.10 can loop for ever.
  void attribute(const std::string& object, const std::string& name, std::string_view text);
  void attribute(const std::string& object, const std::string& name, double value);
  template <std::integral T>
  void attribute(const std::string& object, const std::string& name, T value) {
    if (!std::in_range<std::int64_t>(+value)) {
      throw ValueError("attribute '" + name + "' does not fit in an int64");
    }
    integer_attribute(object, name, static_cast<std::int64_t>(value));
  }

  /// Closes the image and writes it to `file` as write_file_atomically does; throws its FileErrors. Nothing
  /// can be added afterwards, but the same content can be committed again, elsewhere.
  void commit(const std::filesystem::path& file, SymbolicLinks links = SymbolicLinks::followed);

 private:
  struct Impl;

  template <class T>
  void write(const std::string& path, TensorView<const T> values);
  void integer_attribute(const std::string& object, const std::string& name, std::int64_t value);

  std::unique_ptr<Impl> impl_;
};

/// Reads an HDF5 file, which may come from a stranger. It accepts
///
///   links       hard ones alone
///   datasets    of at most six dimensions, whose numbers all lie in this file, through no filter but
///               Fletcher32: compact, contiguous, or in chunks (more than 16384: of 4 KiB, with Fletcher32)
///   numbers     integers of 8 to 64 bits, IEEE numbers of 32 and 64 bits
///   attributes  one such number, or text of a fixed length of at most 60,000 bytes
///
/// and refuses everything else before memory is taken for it: a read allocates a small multiple of the file's
/// length at most. HDF5 1.10 crashes on metadata that are forged well enough, so a child process (fork) goes
/// through the whole file first, and a file that it does not survive is refused.
///
/// Every error is a FileError of one sentence that names the file, the object, what was expected and found
/// and, for HDF5's own failures, HDF5's reason. Damage is found when what is damaged is read.
class Hdf5Reader {
 public:
  /// Throws FileError: no such file, no permission, a folder, an empty file, not HDF5, truncated, damaged.
  explicit Hdf5Reader(const std::filesystem::path& file);
  ~Hdf5Reader();

  const std::filesystem::path& file() const;
  /// Length of the file in bytes.
  std::uintmax_t file_size() const;

  /// Is there a group or dataset of this path?
  bool has(const std::string& path) const;
  /// Names (not paths) of what is in the group, sorted.
  std::vector<std::string> names(const std::string& group) const;
  /// Shape of a dataset; FileError for more than six dimensions.
  Shape shape(const std::string& path) const;
  /// True for integers, false for floating-point numbers; FileError for anything else.
  bool is_integer(const std::string& path) const;
  /// Throws unless there is a dataset of this shape and of T's own type (float), in either byte order. Reads
  /// no number of it.
  template <class T>
  void expect(const std::string& path, const Shape& shape) const;

  /// A whole dataset in host memory, T = float, double, int32, int64 or uint8. Widths are converted: double
  /// to float rounds; an integer that does not fit in T is a FileError, as are integers read as
  /// floating-point numbers and the reverse.
  template <class T>
  Tensor<T> read(const std::string& path) const;
  /// The same into memory that exists, on any device; ShapeError, with both shapes, unless they are equal.
  template <class T>
  void read_into(const std::string& path, TensorView<T> to) const;

  bool has_attribute(const std::string& object, const std::string& name) const;
  /// Without padding.
  std::string string_attribute(const std::string& object, const std::string& name) const;
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  double double_attribute(const std::string& object, const std::string& name) const;

 private:
  struct Impl;

  void read_everything() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace orthornn
