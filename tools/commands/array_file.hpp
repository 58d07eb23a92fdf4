#pragma once
// Files of named arrays that a command writes: HDF5 or npz.

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "io/npz_file.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn::program {

/// Whether the name of a file ends as those of HDF5 or npz files do.
bool is_array_file(const std::filesystem::path& file);

/// Arrays that are written at once, as HDF5 or npz by the end of the file's name.
class ArrayFile {
 public:
  /// `format` says what the file is, so that `check_output` knows it again.
  ArrayFile(std::filesystem::path file, const char* format);

  template <class T>
  void add(const std::string& name, TensorView<const T> values) {
    note_array(name, values.shape());
    std::visit([&](auto& writer) { writer.dataset(name, values); }, writer_);
  }
  template <class T>
  void add(const std::string& name, const Tensor<T>& values) {
    add(name, values.view());
  }
  /// A scalar.
  template <class T>
  void add_number(const std::string& name, T number) {
    add(name, TensorView<const T>(&number, Shape{}));
  }
  template <class T>
  void add(const std::string& name, const std::vector<T>& numbers) {
    add(name, TensorView<const T>(numbers.data(), {std::ssize(numbers)}));
  }
  void add(const std::string& name, const std::vector<std::string>& texts);

  /// Writes the file; a link is replaced by it. Throws as write_file_atomically.
  void commit();
  /// The arrays with their shapes, such as "/logits [7, 3, 9], /h_last [3, 8]".
  const std::string& text() const { return text_; }

 private:
  void note_array(const std::string& name, const Shape& shape);

  std::filesystem::path file_;
  std::variant<Hdf5Writer, NpzWriter> writer_;
  std::string text_;
};

}  // namespace orthornn::program
