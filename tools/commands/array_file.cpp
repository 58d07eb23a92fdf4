#include "commands/array_file.hpp"

#include <utility>

namespace orthornn::program {
namespace {

bool is_npz(const std::filesystem::path& file) { return file.extension() == ".npz"; }

}  // namespace

bool is_array_file(const std::filesystem::path& file) {
  return is_npz(file) || file.extension() == ".h5" || file.extension() == ".hdf5";
}

ArrayFile::ArrayFile(std::filesystem::path file, const char* format) : file_(std::move(file)) {
  if (is_npz(file_)) {
    writer_.emplace<NpzWriter>(format);
  } else {
    std::get<Hdf5Writer>(writer_).attribute("/", "format", format);
  }
}

void ArrayFile::add(const std::string& name, const std::vector<std::string>& texts) {
  note_array(name, {std::ssize(texts)});
  std::visit([&](auto& writer) { writer.dataset(name, texts); }, writer_);
}

void ArrayFile::commit() {
  std::visit([&](auto& writer) { writer.commit(file_, SymbolicLinks::replaced); }, writer_);
}

void ArrayFile::note_array(const std::string& name, const Shape& shape) {
  text_ +=
      fmt::format("{}{}{} {}", text_.empty() ? "" : ", ", is_npz(file_) ? "" : "/", name, to_string(shape));
}

}  // namespace orthornn::program
