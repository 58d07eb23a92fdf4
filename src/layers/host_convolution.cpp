#include "layers/host_convolution.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "linalg/lanes.hpp"

namespace orthornn {
namespace {

template <class T>
constexpr Index lanes = vector_lanes<T>;

/// Places that have sums of their own at once: pixels in a convolution, numbers of the kernel in its
/// gradient. Their sums stay in registers. A register of 512 bits holds a vector of them. Of the 16 registers
/// of 256 bits it takes two. With 512 bits, 12 places took 3 to 9 % longer for rows of 64 pixels, and 16
/// three times as long.
constexpr int most_places = Eigen::internal::packet_traits<float>::size == lanes<float> ? 8 : 6;

/// Rows of a frame that are copied together.
constexpr Index band_rows = 8;

/// Calls body(constant) with a number from 1 to `most`.
template <int most = most_places>
void with_constant(Index number, const auto& body) {
  if constexpr (most > 1) {
    if (number < most) return with_constant<most - 1>(number, body);
  }
  body(std::integral_constant<int, most>());
}

/// Calls body(constant, first) for groups of up to `most_places` of 0 .. count - 1.
void for_each_group(Index count, const auto& body) {
  for (Index first = 0; first < count; first += most_places)
    with_constant(std::min<Index>(most_places, count - first), [&](auto places) { body(places, first); });
}

/// sums[i] += the sum over s < count of a[i place_stride + s step] times the vector s of b.
template <int places, class T>
void add_products(const T* a, Index place_stride, Index step, const T* b, Index count,
                  Vector<T> (&sums)[places]) {
  for (Index s = 0; s < count; ++s) {
    const Vector<T> vector = Vector<T>::load(b + s * lanes<T>);
    // Not a loop: sums are in registers only where each has a number that the compiler knows.
    [&]<int... i>(std::integer_sequence<int, i...>) {
      ((sums[i] = sums[i] + Vector<T>(a[i * place_stride + s * step]) * vector), ...);
    }
    (std::make_integer_sequence<int, places>());
  }
}

/// Rows of frames, and how they are cut into bands.
struct Bands {
  pointwise::Neighbourhood around;

  Index of_frame() const { return (around.height + band_rows - 1) / band_rows; }
  Index first_row(Index band) const { return band % of_frame() * band_rows; }
  /// The number of a band's first pixel among those of all frames.
  Index first_pixel(Index band) const {
    return (band / of_frame() * around.height + first_row(band)) * around.width;
  }
  Index rows(Index band) const { return std::min(band_rows, around.height - first_row(band)); }
  /// Pixels of a row with the zeros at its ends.
  Index padded_width() const { return around.width + 2 * around.reach; }
  Index padded_pixels() const { return (band_rows + 2 * around.reach) * padded_width(); }

  /// Copies the rows of a band and those around them, with zeros around the frame.
  template <class T>
  void copy(const T* frames, Index band, Index channels, T* padded) const {
    const T* const frame = frames + band / of_frame() * around.height * around.width * channels;
    const Index margin = around.reach * channels, row_size = around.width * channels;
    const Index begin = first_row(band) - around.reach, end = first_row(band) + rows(band) + around.reach;
    for (Index row = begin; row < end; ++row, padded += row_size + 2 * margin) {
      if (row < 0 || row >= around.height) {
        std::fill_n(padded, row_size + 2 * margin, T{0});
        continue;
      }
      std::fill_n(padded, margin, T{0});
      std::copy_n(frame + row * row_size, row_size, padded + margin);
      std::fill_n(padded + margin + row_size, margin, T{0});
    }
  }
};

struct PackedKernel;
struct PaddedFrames;
struct PackedGradient;
struct PartialSums;

/// Vectors that so many outputs take.
template <class T>
Index blocks_of(Index outputs) {
  return (outputs + lanes<T> - 1) / lanes<T>;
}

/// A kernel for `add_convolution`: [blocks of outputs, q, q C, lanes], with zeros behind the last output.
/// `number(offset, input, output)` has its numbers. It lies in scratch memory of this thread until the next
/// call.
template <class T>
const T* packed_kernel(Index offsets, Index inputs, Index outputs, const auto& number) {
  T* const begin = thread_scratch<T, PackedKernel>(offsets * inputs * blocks_of<T>(outputs) * lanes<T>);
  T* packed = begin;
  for (Index first = 0; first < outputs; first += lanes<T>) {
    for (Index offset = 0; offset < offsets; ++offset) {
      for (Index input = 0; input < inputs; ++input) {
        for (Index f = first; f < first + lanes<T>; ++f)
          *packed++ = f < outputs ? number(offset, input, f) : T{0};
      }
    }
  }
  return begin;
}

/// y += factor K * x for a packed kernel.
template <class T>
void add_convolution(const Bands& bands, Index inputs, Index outputs, T factor, const T* kernel, const T* x,
                     T* y, Index frames) {
  const Index side = bands.around.side(), width = bands.around.width,
              row_step = bands.padded_width() * inputs;
  parallel_for(frames * bands.of_frame(), 1, [&](Index first_band, Index last_band) {
    T* const padded = thread_scratch<T, PaddedFrames>(bands.padded_pixels() * inputs);
    for (Index band = first_band; band < last_band; ++band) {
      bands.copy(x, band, inputs, padded);
      T* const of_band = y + bands.first_pixel(band) * outputs;
      for (Index f = 0; f < outputs; f += lanes<T>) {
        const T* const of_block = kernel + f * side * side * inputs;
        const Index count = std::min(lanes<T>, outputs - f);
        for (Index row = 0; row < bands.rows(band); ++row) {
          for_each_group(width, [&](auto places, Index pixel) {
            Vector<T> sums[places] = {};
            for (Index dy = 0; dy < side; ++dy) {
              add_products<places>(padded + (row + dy) * row_step + pixel * inputs, inputs, 1,
                                   of_block + dy * side * inputs * lanes<T>, side * inputs, sums);
            }
            for (int i = 0; i < places; ++i) {
              T* const to = of_band + (row * width + pixel + i) * outputs + f;
              if (count == lanes<T>) {
                (Vector<T>::load(to) + Vector<T>(factor) * sums[i]).store(to);
              } else {
                alignas(64) T numbers[lanes<T>];
                sums[i].store(numbers);
                for (Index n = 0; n < count; ++n) to[n] += factor * numbers[n];
              }
            }
          });
        }
      }
    }
  });
}

}  // namespace

template <class T>
void HostConvolution<T>::add(const T* kernel, const T* x, T* y, Index frames) const {
  const T* const packed = packed_kernel<T>(
      around.offsets(), inputs, outputs,
      [&](Index offset, Index input, Index f) { return kernel[(offset * inputs + input) * outputs + f]; });
  add_convolution(Bands{around}, inputs, outputs, factor, packed, x, y, frames);
}

template <class T>
void HostConvolution<T>::add_input_gradient(const T* kernel, const T* g, T* d_x, Index frames) const {
  // The transposed map is a convolution with mirrored offsets, of which inputs and outputs change places.
  const Index offsets = around.offsets();
  const T* const packed = packed_kernel<T>(offsets, outputs, inputs, [&](Index offset, Index f, Index input) {
    return kernel[((offsets - 1 - offset) * inputs + input) * outputs + f];
  });
  add_convolution(Bands{around}, outputs, inputs, factor, packed, g, d_x, frames);
}

template <class T>
void HostConvolution<T>::add_kernel_gradient(const T* x, const T* g, T* d_kernel, Index frames) const {
  const Bands bands{around};
  const Index side = around.side(), width = around.width, row_step = bands.padded_width() * inputs;
  const Index count = frames * bands.of_frame(), blocks = blocks_of<T>(outputs);
  // Ranges of bands have sums of their own, which are then added in order. They are as many on every machine,
  // so that no bit depends on the threads. Each takes the memory of a kernel.
  constexpr Index most_ranges = 32;
  const Index ranges = std::min(most_ranges, count),
              sums_of_range = around.offsets() * inputs * blocks * lanes<T>;
  T* const partial = thread_scratch<T, PartialSums>(ranges * sums_of_range);
  parallel_for(ranges, 1, [&](Index first_range, Index last_range) {
    T* const padded = thread_scratch<T, PaddedFrames>(bands.padded_pixels() * inputs);
    T* const packed = thread_scratch<T, PackedGradient>(band_rows * width * lanes<T>);
    for (Index range = first_range; range < last_range; ++range) {
      T* const of_range = partial + range * sums_of_range;
      std::fill_n(of_range, sums_of_range, T{0});
      for (Index band = count * range / ranges; band < count * (range + 1) / ranges; ++band) {
        bands.copy(x, band, inputs, padded);
        const Index rows = bands.rows(band);
        const T* const of_band = g + bands.first_pixel(band) * outputs;
        for (Index block = 0; block < blocks; ++block) {
          const Index f = block * lanes<T>;
          for (Index pixel = 0; pixel < rows * width; ++pixel) {
            for (Index n = 0; n < lanes<T>; ++n)
              packed[pixel * lanes<T> + n] = f + n < outputs ? of_band[pixel * outputs + f + n] : T{0};
          }
          for (Index dy = 0; dy < side; ++dy) {
            T* const of_row = of_range + (block * side + dy) * side * inputs * lanes<T>;
            for_each_group(side * inputs, [&](auto places, Index k) {
              Vector<T> sums[places];
              for (int i = 0; i < places; ++i) sums[i] = Vector<T>::load(of_row + (k + i) * lanes<T>);
              for (Index row = 0; row < rows; ++row) {
                add_products<places>(padded + (row + dy) * row_step + k, 1, inputs,
                                     packed + row * width * lanes<T>, width, sums);
              }
              for (int i = 0; i < places; ++i) sums[i].store(of_row + (k + i) * lanes<T>);
            });
          }
        }
      }
    }
  });
  const Index of_block = around.offsets() * inputs;
  parallel_for(blocks * of_block, 256, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      Vector<T> sum;
      for (Index range = 0; range < ranges; ++range)
        sum = sum + Vector<T>::load(partial + range * sums_of_range + row * lanes<T>);
      alignas(64) T numbers[lanes<T>];
      sum.store(numbers);
      const Index f = row / of_block * lanes<T>;
      T* const to = d_kernel + row % of_block * outputs + f;
      for (Index n = 0; n < std::min(lanes<T>, outputs - f); ++n) to[n] += factor * numbers[n];
    }
  });
}

template struct HostConvolution<float>;
template struct HostConvolution<double>;

}  // namespace orthornn
