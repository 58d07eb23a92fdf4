#pragma once
// Named tensors and attributes in HDF5 files.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn {

/// Collects datasets and attributes in memory; `commit` writes the file in one step, so that a full disk or a
/// kill leaves the old file whole. Equal calls give equal bytes. Everything in the file is under a checksum
/// (data: Fletcher32, and a CRC-32 in the attribute crc32), and any HDF5 since 1.10 reads it.
///
/// Paths inside a file are "group/name"; "/" is the file itself. One thread at a time may use writers and
/// readers, unless the HDF5 library was built thread-safe.
///
/// Besides the errors that are stated, every call throws FileError when HDF5 fails (a name used twice, no
/// memory), and ValueError after `commit`.
class Hdf5Writer {
 public:
  /// Makes an empty file in memory. Datasets of more than `chunk_bytes` bytes are stored in pieces (HDF5
  /// allows at most 4 GiB a piece).
  explicit Hdf5Writer(Index chunk_bytes = Index{1} << 30);
  ~Hdf5Writer();

  /// Creates a group, and the groups above it, unless it is there already.
  void group(const std::string& path);

  /// Creates a dataset of 32-bit floats (little endian) and the groups above it. `values` may lie on any
  /// device.
  void dataset(const std::string& path, TensorView<const float> values) { write(path, values); }
  /// Creates a dataset of 64-bit floats (little endian) and the groups above it. `values` may lie on any
  /// device.
  void dataset(const std::string& path, TensorView<const double> values) { write(path, values); }
  /// Creates a dataset of 32-bit integers (little endian) and the groups above it. `values` may lie on any
  /// device.
  void dataset(const std::string& path, TensorView<const std::int32_t> values) { write(path, values); }
  /// Creates a dataset of 64-bit integers (little endian) and the groups above it. `values` may lie on any
  /// device.
  void dataset(const std::string& path, TensorView<const std::int64_t> values) { write(path, values); }
  /// Creates a dataset of bytes and the groups above it. `values` may lie on any device.
  void dataset(const std::string& path, TensorView<const std::uint8_t> values) { write(path, values); }
  /// Creates a dataset [N] of UTF-8 texts, all of the length of the longest with zero bytes at their ends,
  /// and the groups above it. h5py shows them as bytes; Hdf5Reader does not read them.
  void dataset(const std::string& path, const std::vector<std::string>& texts);

  /// Gives an existing group or dataset an attribute of UTF-8 text. Throws ValueError for text of more than
  /// 60,000 bytes or with a NUL in it (make it a dataset of uint8). Text has a fixed length, which h5py shows
  /// as bytes: text of variable length is under no checksum, and HDF5 1.10 can loop for ever on damaged one.
  void attribute(const std::string& object, const std::string& name, std::string_view text);
  /// Gives an existing group or dataset an attribute that is a 64-bit float.
  void attribute(const std::string& object, const std::string& name, double value);
  /// Gives an existing group or dataset an attribute that is a 64-bit integer. Throws ValueError for an
  /// integer that does not fit.
  template <std::integral T>
  void attribute(const std::string& object, const std::string& name, T value) {
    if (!std::in_range<std::int64_t>(+value)) {
      throw ValueError("attribute '" + name + "' does not fit in an int64");
    }
    integer_attribute(object, name, static_cast<std::int64_t>(value));
  }

  /// Writes everything to `file` as write_file_atomically does, and throws as it does. Nothing can be added
  /// afterwards, but the content can be committed again, to another file.
  void commit(const std::filesystem::path& file, SymbolicLinks links = SymbolicLinks::followed);

 private:
  struct Impl;

  template <class T>
  void write(const std::string& path, TensorView<const T> values);
  void integer_attribute(const std::string& object, const std::string& name, std::int64_t value);

  std::unique_ptr<Impl> impl_;
};

/// Whether a reader takes compressed datasets.
enum class Compression {
  refused,  ///< The length of the file bounds the memory of a read.
  allowed   ///< Deflate (gzip), shuffle, or shuffle and then deflate; see Hdf5Reader for the bound.
};

/// Reads an HDF5 file, which may come from a stranger; paths are as in Hdf5Writer. It accepts
///
/// - hard links alone;
/// - datasets of at most six dimensions, whose numbers all lie in this file, through no filter but
///   Fletcher32: compact, contiguous, or in chunks (more than 16384 chunks only if they have 4 KiB or more,
///   and Fletcher32);
/// - where compression is allowed, datasets that are compressed, of at most 1 GiB or 200 times their bytes in
///   the file, if there is memory for them;
/// - integers of 8 to 64 bits, and IEEE numbers of 32 and 64 bits;
/// - attributes that are one such number, or text of a fixed length of at most 60,000 bytes
///
/// and refuses everything else before memory is taken for it: a read of what is not compressed allocates at
/// most a small multiple of the file's length. HDF5 1.10 crashes on metadata that are forged well enough, so
/// a child process (fork) goes through the whole file first, and a file that it does not survive is refused.
///
/// Every error is a FileError of one sentence that names the file, the object, what was expected and found
/// and, for HDF5's own failures, HDF5's reason. Damage is found when the damaged part is read.
class Hdf5Reader {
 public:
  /// Opens a file. Throws FileError where there is no such file or no permission, and for a folder, an empty
  /// file, a file that is not HDF5, and one that is truncated or damaged.
  explicit Hdf5Reader(const std::filesystem::path& file, Compression compression = Compression::refused);
  ~Hdf5Reader();

  /// Path of the file.
  const std::filesystem::path& file() const;
  /// Length of the file in bytes.
  std::uintmax_t file_size() const;

  /// Whether there is a group or dataset of this path.
  bool has(const std::string& path) const;
  /// Names, not paths, of the members of a group, sorted. Throws FileError.
  std::vector<std::string> names(const std::string& group) const;
  /// Shape of a dataset. Throws FileError, also for more than six dimensions.
  Shape shape(const std::string& path) const;
  /// Whether a dataset holds integers, and not floating-point numbers. Throws FileError for other contents.
  bool is_integer(const std::string& path) const;
  /// Throws FileError unless there is a dataset of this shape and of T's own type (float), in either byte
  /// order. Reads no number of it.
  template <class T>
  void expect(const std::string& path, const Shape& shape) const;

  /// Reads a whole dataset to host memory, as T = float, double, int32, int64 or uint8. Widths are converted:
  /// double to float rounds. Throws FileError, also for an integer that does not fit in T, for integers read
  /// as floating-point numbers, and for the reverse.
  template <class T>
  Tensor<T> read(const std::string& path) const;
  /// Reads a whole dataset to memory that exists, on any device. Throws as `read`, and ShapeError, with both
  /// shapes, where they differ.
  template <class T>
  void read_into(const std::string& path, TensorView<T> to) const;
  /// Reads a whole dataset, as T = float or int64, in pieces of about `most` numbers: gives `take` the
  /// numbers in their order, each piece until `take` returns. Pieces have whole chunks unless a row of chunks
  /// has more than `most` numbers. The attribute crc32 is not compared. Throws as `read`, and what `take`
  /// throws.
  template <class T>
  void read_in_pieces(const std::string& path, Index most,
                      const std::function<void(TensorView<const T>)>& take) const;
  /// Byte of the file at which the numbers of a dataset begin, where they lie one after another as in memory:
  /// contiguous, as T = float or int32, in the byte order of this machine. No value for other datasets.
  /// Throws FileError.
  template <class T>
  std::optional<std::uint64_t> place(const std::string& path) const;

  /// Whether a group or dataset has an attribute of this name.
  bool has_attribute(const std::string& object, const std::string& name) const;
  /// Text of an attribute, without padding. Throws FileError.
  std::string string_attribute(const std::string& object, const std::string& name) const;
  /// Value of an attribute that is an integer. Throws FileError.
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  /// Value of an attribute that is a floating-point number. Throws FileError.
  double double_attribute(const std::string& object, const std::string& name) const;

 private:
  struct Impl;

  void read_everything() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace orthornn
