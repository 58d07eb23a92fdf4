#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Named arrays of numbers in a file, which are read in pieces. Every function throws FileError.
class ArrayFile {
 public:
  template <class T>
  using Take = std::function<void(std::span<const T>)>;
  struct Array {
    Shape shape;
    bool is_integer;
  };

  /// Opens an HDF5 or .npz file by the end of its name. Arrays of other names may be of any type.
  static std::unique_ptr<ArrayFile> open(const std::filesystem::path& file,
                                         const std::vector<std::string>& names);
  virtual ~ArrayFile() = default;

  /// The array of that name; no value if there is none.
  virtual std::optional<Array> find(const std::string& name) const = 0;
  /// Gives `take` all numbers of an array in their order, each piece until `take` returns: of integers, or of
  /// an array that has none.
  virtual void read(const std::string& name, const Take<std::int64_t>& take) const = 0;
  virtual void read(const std::string& name, const Take<float>& take) const = 0;
  /// Byte at which the numbers begin, where they lie one after another as in memory.
  virtual std::optional<std::uint64_t> place_of_floats(const std::string& name) const = 0;
  virtual std::optional<std::uint64_t> place_of_int32(const std::string& name) const = 0;
};

}  // namespace orthornn
