#pragma once
// Named arrays in .npz files of NumPy.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/tensor.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn {

/// What the header of an array says.
struct NumpyArray {
  Shape shape = {};
  bool is_integer = false;
  /// Type without its byte order, such as "f4".
  std::string kind = {};
};

/// Shapes and kinds of the arrays of these names, without ".npy", that an .npz file has; their numbers are
/// not read. It accepts integers of 8 to 64 bits, booleans, and floating-point numbers of 32 and 64 bits, in
/// either byte order and in C order, stored or deflated. Throws FileError for another archive or array;
/// Python objects (pickles) are never read.
std::map<std::string, NumpyArray> list_npz(const std::filesystem::path& file,
                                           const std::vector<std::string>& names);

/// Names of all arrays of an .npz file, without ".npy", sorted. Throws FileError for another archive.
std::vector<std::string> names_in_npz(const std::filesystem::path& file);

/// Reads the array of that name in pieces, as T = float, double, int64 or uint8: gives `take` the numbers in
/// their order, each piece until `take` returns. The array has numbers of T's kind. Throws as `list_npz`, and
/// what `take` throws.
template <class T>
void read_npz_in_pieces(const std::filesystem::path& file, const std::string& name,
                        const std::function<void(std::span<const T>)>& take);

/// What the header of an .npy file says, as `list_npz`. Throws FileError also for a file that has not as many
/// bytes as the header asks for.
NumpyArray npy_header(const std::filesystem::path& file);

/// Reads an .npy file in pieces, as T = float or uint8, as `read_npz_in_pieces` does.
template <class T>
void read_npy_in_pieces(const std::filesystem::path& file,
                        const std::function<void(std::span<const T>)>& take);

/// Byte of the file at which the numbers of an array begin, where they lie as in memory: not compressed, as
/// T = float or int32, in the byte order of this machine. No value for other arrays. Throws FileError, also
/// for an array that is not whole in the file.
template <class T>
std::optional<std::uint64_t> place_in_npz(const std::filesystem::path& file, const std::string& name);

/// The format that an NpzWriter was given, from the comment of the archive; "" without one. Throws FileError
/// for what is no archive.
std::string npz_format(const std::filesystem::path& file);

/// Collects named arrays in memory; `commit` writes the .npz file in one step. Arrays are in C order and not
/// compressed. Equal calls give equal bytes: every member has the time 1980-01-01, as numpy.savez gives it.
class NpzWriter {
 public:
  /// Begins a file. `format` says what wrote it, as the comment of the archive, which NumPy does not read.
  explicit NpzWriter(std::string format) : format_(std::move(format)) {}

  /// Adds an array of float32. `values` may lie on any device.
  void dataset(const std::string& name, TensorView<const float> values) { add(name, values); }
  /// Adds an array of float64. `values` may lie on any device.
  void dataset(const std::string& name, TensorView<const double> values) { add(name, values); }
  /// Adds an array of int32. `values` may lie on any device.
  void dataset(const std::string& name, TensorView<const std::int32_t> values) { add(name, values); }
  /// Adds an array of int64. `values` may lie on any device.
  void dataset(const std::string& name, TensorView<const std::int64_t> values) { add(name, values); }
  /// Adds an array [N] of bytes of a fixed length, NumPy's type "S", which has the texts in UTF-8.
  void dataset(const std::string& name, const std::vector<std::string>& texts);

  /// Writes everything to `file` as write_file_atomically does. Throws as it does.
  void commit(const std::filesystem::path& file, SymbolicLinks links = SymbolicLinks::followed) const;

 private:
  template <class T>
  void add(const std::string& name, TensorView<const T> values);

  std::string format_;
  /// Names of the members, and their bytes.
  std::vector<std::pair<std::string, std::string>> members_;
};

}  // namespace orthornn
