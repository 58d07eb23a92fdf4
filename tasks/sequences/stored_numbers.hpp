#pragma once
// Numbers of own sequences, in memory or in a file that is larger than memory.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/signals_blocked.hpp"
#include "io/descriptor.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// The most bytes of an array that is read into memory; a larger one stays in a file. A training has a few
/// arrays, and shall take less than 1 GB beside its model. Tests set it.
inline Index most_bytes_in_memory = Index{1} << 28;

/// A file whose numbers are read while a training runs, by several threads at a time. It is read by pread: if
/// somebody cuts the file short meanwhile, this is an error, where mapped memory would end the process.
class NumberFile {
 public:
  /// Opens a file to read. Throws FileError.
  explicit NumberFile(const std::filesystem::path& file);
  /// Makes an empty file that ends with this object, in the folder TMPDIR, or else /var/tmp: /tmp may be
  /// memory. `source` is for messages: the file whose numbers it takes. Throws FileError.
  static std::unique_ptr<NumberFile> temporary(const std::filesystem::path& source);

  /// Adds bytes at the end. Throws FileError, for example where the disk is full.
  void append(const void* bytes, std::size_t count);
  /// Reads bytes. Throws FileError, also where a file that is not temporary has changed since it was opened.
  void read(std::uint64_t first, std::size_t count, void* to) const;
  /// Throws FileError unless the path still names this file, and the file is as it was when it was opened.
  void check_is(const std::filesystem::path& file) const;
  /// Tells the system that these bytes are read soon.
  void expect(std::uint64_t first, std::size_t count) const;

 private:
  /// Which file it is, and what changes with its content: its length, and when it was written.
  struct State {
    std::uint64_t device = 0, number = 0;
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const State&) const = default;
  };

  NumberFile(int descriptor, std::string name);
  static State state_of(const struct stat& found);
  State state() const;
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail_changed() const;

  Descriptor descriptor_;
  std::string name_;
  /// State of the file when it was opened; none for a temporary file, as no other program can change it.
  std::optional<State> opened_;
};

/// Numbers of an array of any shape: a view of memory, memory of its own, or a part of a file. Copies share
/// what they own. Several threads may read.
template <class T>
class StoredNumbers {
 public:
  /// An empty array.
  StoredNumbers() = default;
  /// Memory of others, which must stay.
  StoredNumbers(ConstTensorView<T> memory) : memory_(memory), shape_(memory.shape()) {}
  /// Takes over memory.
  StoredNumbers(Tensor<T>&& memory)
      : own_(std::make_shared<const Tensor<T>>(std::move(memory))), memory_(*own_), shape_(own_->shape()) {}
  /// Numbers of a file from byte `begin` on, as they are in memory.
  StoredNumbers(std::shared_ptr<const NumberFile> file, std::uint64_t begin, const Shape& shape)
      : file_(std::move(file)), begin_(begin), shape_(shape) {}

  const Shape& shape() const { return shape_; }
  Index size() const { return in_file() ? shape_.count() : memory_.size(); }
  bool empty() const { return size() == 0; }
  bool in_file() const { return file_ != nullptr; }
  /// The numbers first to first + count - 1, valid as long as this array and `room` are as they are: those of
  /// a file are read into `room`. The range is not checked. Throws FileError.
  std::span<const T> read(Index first, Index count, Tensor<T>& room) const {
    const auto numbers = static_cast<std::size_t>(count);
    if (!in_file()) return {memory_.data() + first, numbers};
    room.reserve(Shape{count});
    file_->read(byte_of(first), numbers * sizeof(T), room.data());
    return {room.data(), numbers};
  }
  /// Gives visit(numbers) all numbers in their order, a piece at a time. Throws FileError, and what `visit`
  /// throws.
  template <class Visit>
  void each_piece(const Visit& visit) const {
    constexpr Index most = Index{1} << 20;
    Tensor<T> room;
    for (Index first = 0; first < size(); first += most)
      visit(read(first, std::min(most, size() - first), room));
  }
  /// Tells that these numbers are read soon.
  void expect(Index first, Index count) const {
    if (in_file()) file_->expect(byte_of(first), static_cast<std::size_t>(count) * sizeof(T));
  }

 private:
  std::uint64_t byte_of(Index first) const { return begin_ + static_cast<std::uint64_t>(first) * sizeof(T); }

  std::shared_ptr<const Tensor<T>> own_;
  ConstTensorView<T> memory_;
  std::shared_ptr<const NumberFile> file_;
  std::uint64_t begin_ = 0;
  Shape shape_{0};
};

/// Collects the numbers of an array piece by piece: in memory, or in a temporary file where they are more
/// than `most_bytes_in_memory`. A thread writes a piece to the file while the next one is made.
template <class T>
class NumberCollector {
 public:
  /// `source` is the file whose numbers they are, for messages. Throws FileError.
  NumberCollector(const Shape& shape, const std::filesystem::path& source)
      : source_(source.string()), shape_(shape) {
    if (static_cast<Index>(shape.bytes(sizeof(T))) > most_bytes_in_memory) {
      file_ = NumberFile::temporary(source);
    } else {
      memory_.reserve(shape);
    }
  }
  NumberCollector(const NumberCollector&) = delete;
  NumberCollector& operator=(const NumberCollector&) = delete;
  /// Adds numbers at the end. Throws FileError for more than the shape has, and where those before could not
  /// be written.
  void add(std::span<const T> numbers) {
    if (std::ssize(numbers) > shape_.count() - count_) fail();
    if (file_) {
      if (written_.valid()) written_.get();
      piece_.assign(numbers.begin(), numbers.end());
      const SignalsBlocked blocked;
      written_ =
          std::async(std::launch::async, [this] { file_->append(piece_.data(), piece_.size() * sizeof(T)); });
    } else {
      std::ranges::copy(numbers, memory_.begin() + count_);
    }
    count_ += std::ssize(numbers);
  }
  /// Throws FileError where numbers are missing.
  StoredNumbers<T> finish() && {
    if (count_ != shape_.count()) fail();
    if (written_.valid()) written_.get();
    return file_ ? StoredNumbers<T>(std::move(file_), 0, shape_) : StoredNumbers<T>(std::move(memory_));
  }

 private:
  [[noreturn]] void fail() const {
    throw FileError(source_ + ": an array has changed while it was read; begin again");
  }

  std::string source_;
  Shape shape_;
  Tensor<T> memory_;
  std::unique_ptr<NumberFile> file_;
  Index count_ = 0;
  /// What is being written, and the end of that. Its thread ends before the rest does.
  std::vector<T> piece_;
  std::future<void> written_;
};

}  // namespace orthornn
