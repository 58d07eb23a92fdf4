#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace orthornn {

/// Repeats a system call while signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// Reads up to `count` bytes of a file from byte `first` on, fewer only at its end. Returns how many, or -1
/// for an error, which errno names.
inline ssize_t read_at(int descriptor, std::uint64_t first, std::size_t count, void* to) {
  std::size_t done = 0;
  while (done < count && std::in_range<off_t>(first + done)) {
    const ssize_t found = uninterrupted([&] {
      return pread(descriptor, static_cast<char*>(to) + done, count - done, static_cast<off_t>(first + done));
    });
    if (found < 0) return found;
    if (found == 0) break;
    done += static_cast<std::size_t>(found);
  }
  return static_cast<ssize_t>(done);
}

/// Owns the descriptor of a file; a negative one is none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  operator int() const { return number_; }

 private:
  int number_;
};

}  // namespace orthornn
