// Datasets that are compressed: which filters are taken, and how far numbers may grow.

#include <vector>

#include "core/free_memory.hpp"
#include "io/expansion.hpp"
#include "io/hdf5_reader_parts.hpp"

namespace orthornn {

std::vector<int> Hdf5Dataset::filters() const {
  const Hdf5Handle properties = own(H5Dget_create_plist(id_), task_);
  const int count = check(H5Pget_nfilters(properties), task_);
  std::vector<int> found;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    found.push_back(
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr));
  }
  return found;
}

bool Hdf5Dataset::is_compressed() const {
  const std::vector<int> found = filters();
  for (const auto& accepted :
       {std::vector{H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}, {H5Z_FILTER_SHUFFLE}}) {
    if (found == accepted) return true;
  }
  return false;
}

void Hdf5Dataset::check_expansion(std::uintmax_t file_size) const {
  const Shape extent = shape();
  if (extent.count() == 0) return;
  const std::uintmax_t stored = H5Dget_storage_size(id_);
  if (stored == 0) fail(task_, "no number of it was ever written");
  const Hdf5Chunks chunks = this->chunks();
  std::uintmax_t bytes = 0;
  if (__builtin_mul_overflow(chunks.count, chunks.bytes, &bytes) || stored > file_size ||
      expands_too_far(bytes, stored)) {
    fail(task_,
         "its {} chunks of {} bytes take {} bytes in the file; expected at most {} bytes in all, or {} times "
         "as "
         "many as in the file: write it without compression",
         chunks.count, chunks.bytes, stored, unsuspicious_bytes, largest_expansion);
  }
  if (chunks.count > most_small_chunks && chunks.bytes < least_chunk_bytes) {
    fail(task_, "it lies in {} chunks of {} bytes; expected at most {} chunks, or at least {} bytes in each",
         chunks.count, chunks.bytes, most_small_chunks, least_chunk_bytes);
  }
  // Its numbers, widened, and one chunk while it is read; several only if they are small.
  const double of_chunk = static_cast<double>(chunks.bytes);
  const double numbers_of_chunk = of_chunk / static_cast<double>(H5Tget_size(type()));
  const double needed = 8 * static_cast<double>(extent.count()) + 8 * numbers_of_chunk + 2 * of_chunk;
  const std::optional<double> free = free_bytes();
  if (free && needed > *free) {
    fail(task_, "it takes about {:.3g} GB, and {:.3g} GB of memory are free; expected a smaller one",
         needed * 1e-9, *free * 1e-9);
  }
}

}  // namespace orthornn
