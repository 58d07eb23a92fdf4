#include <fmt/format.h>
#include <zip.h>

#include <bit>
#include <type_traits>

#include "io/fixed_texts.hpp"
#include "io/npz_file.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// The start of an .npy file, version 1.0: magic bytes, the length of the header, and the header, which ends
/// at a multiple of 64 bytes.
std::string npy_start(const std::string& type, const Shape& shape) {
  std::string sizes;
  for (const Index size : shape) sizes += fmt::format("{}, ", size);
  if (shape.rank() > 1) sizes.resize(sizes.size() - 2);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  constexpr std::size_t before = 10, alignment = 64;
  header.append(alignment - 1 - (before + header.size()) % alignment, ' ');
  header += '\n';
  std::string start = "\x93NUMPY";
  start += {'\x01', '\0', static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  return start + header;
}

template <class T>
std::string npy_type() {
  constexpr bool is_little = std::endian::native == std::endian::little;
  return fmt::format("{}{}{}", is_little ? '<' : '>', std::is_integral_v<T> ? 'i' : 'f', sizeof(T));
}

std::string reason_of(zip_error_t* error) {
  const std::string reason = zip_error_strerror(error);
  zip_error_fini(error);
  return reason;
}

/// Memory that libzip writes an archive to.
class ArchiveMemory {
 public:
  ArchiveMemory() : source_(zip_source_buffer_create(nullptr, 0, 0, nullptr)) {
    if (source_ == nullptr) throw FileError("cannot make an archive in memory; there is not enough of it");
  }
  ArchiveMemory(const ArchiveMemory&) = delete;
  ArchiveMemory& operator=(const ArchiveMemory&) = delete;
  ~ArchiveMemory() { zip_source_free(source_); }

  zip_source_t* source() const { return source_; }
  /// Everything that was written.
  std::string bytes() const {
    zip_stat_t properties;
    zip_stat_init(&properties);
    std::string result;
    bool read = zip_source_stat(source_, &properties) == 0 && zip_source_open(source_) == 0;
    if (read) {
      result.resize(properties.size);
      read = zip_source_read(source_, result.data(), properties.size) ==
             static_cast<zip_int64_t>(properties.size);
      zip_source_close(source_);
    }
    if (!read)
      throw FileError(fmt::format("cannot make an archive in memory ({})",
                                  zip_error_strerror(zip_source_error(source_))));
    return result;
  }

 private:
  zip_source_t* source_;
};

/// Adds a member of these bytes, which must stay until the archive is closed.
void add_member(zip_t* archive, const std::string& name, const std::string& bytes) {
  // The first day that a zip archive knows, at midnight.
  constexpr zip_uint16_t time = 0, date = (1 << 5) | 1;
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  const zip_int64_t place =
      source == nullptr ? -1 : zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (place < 0 && source != nullptr) zip_source_free(source);
  const auto number = static_cast<zip_uint64_t>(place);
  if (place < 0 || zip_set_file_compression(archive, number, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, number, time, date, 0) != 0)
    throw FileError(fmt::format("cannot add the array '{}' to an archive ({})", name, zip_strerror(archive)));
}

}  // namespace

template <class T>
void NpzWriter::add(const std::string& name, TensorView<const T> values) {
  std::string bytes = npy_start(npy_type<T>(), values.shape());
  const std::size_t begin = bytes.size();
  bytes.resize(begin + static_cast<std::size_t>(values.size()) * sizeof(T));
  // The bytes of a string are not aligned for T, so copy() of a GPU's numbers goes through a tensor.
  Tensor<T> host;
  const bool is_here = values.device() == Device::cpu();
  if (!is_here) {
    host.reserve(values.shape());
    copy<T>(values, host.view());
  }
  std::copy_n(reinterpret_cast<const char*>(is_here ? values.data() : host.data()), bytes.size() - begin,
              bytes.data() + begin);
  members_.emplace_back(name + ".npy", std::move(bytes));
}

template void NpzWriter::add(const std::string&, TensorView<const float>);
template void NpzWriter::add(const std::string&, TensorView<const double>);
template void NpzWriter::add(const std::string&, TensorView<const std::int32_t>);
template void NpzWriter::add(const std::string&, TensorView<const std::int64_t>);

void NpzWriter::dataset(const std::string& name, const std::vector<std::string>& texts) {
  const FixedTexts fixed(texts);
  members_.emplace_back(name + ".npy",
                        npy_start(fmt::format("|S{}", fixed.width), {std::ssize(texts)}) + fixed.bytes);
}

void NpzWriter::commit(const std::filesystem::path& file, SymbolicLinks links) const {
  const ArchiveMemory memory;
  zip_error_t error;
  zip_error_init(&error);
  zip_source_keep(memory.source());  // the archive gives back one of two uses
  zip_t* archive = zip_open_from_source(memory.source(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive == nullptr) {
    zip_source_free(memory.source());
    throw FileError(fmt::format("cannot make an archive in memory ({})", reason_of(&error)));
  }
  try {
    for (const auto& [name, bytes] : members_) add_member(archive, name, bytes);
    if (zip_set_archive_comment(archive, format_.data(), static_cast<zip_uint16_t>(format_.size())) != 0 ||
        zip_close(archive) != 0)
      throw FileError(fmt::format("cannot make an archive in memory ({})", zip_strerror(archive)));
  } catch (...) {
    zip_discard(archive);
    throw;
  }
  write_file_atomically(file, memory.bytes(), links);
}

}  // namespace orthornn
