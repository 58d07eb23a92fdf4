// The gradient of the kernel of a convolution of frames on a GPU, in float: a product of matrices on tensor
// cores, whose sums are over pixels. As in frame_convolution.cu neighbourhoods are never made. Pixels of a
// tile that lie outside the frame have the gradient zero. So an infinite number at the edge of a frame can
// make more sums NaN than the formula does.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <type_traits>

#include "cuda/core/launch.hpp"
#include "cuda/core/tf32_terms.cuh"
#include "cuda/layers/frame_convolution.hpp"
#include "cuda/layers/frame_tiles.cuh"
#include "cuda/linalg/sum_partials.cuh"

namespace orthornn::cuda {
namespace {

/// A block has `inputs` inputs and `octets` times eight outputs, and goes over tiles of 8 x 16 pixels. Its
/// result has a row for each input of each offset; the inputs of an offset lie together. A warp has two or
/// three fragments of 16 rows, and all outputs. Where rows are few, there are further warps, in `parts`, for
/// other pixels of a tile.
template <int kernel_side, int octets, int own_inputs, bool is_exact>
struct GradientShape {
  static constexpr bool exact = is_exact;
  static constexpr int side = kernel_side, reach = side / 2, offsets = side * side;
  static constexpr int rows = 8, columns = 16;
  static constexpr int around_rows = rows + 2 * reach, around_columns = columns + 2 * reach;
  static constexpr int inputs = own_inputs, outputs = octets * octet;
  static constexpr int result_rows = offsets * inputs, fragment = 16;
  static constexpr int warp_fragments = inputs == 32 ? 3 : 2, warp_rows = warp_fragments * fragment;
  static constexpr int row_warps = (result_rows + warp_rows - 1) / warp_rows;
  static constexpr int parts = std::clamp(8 / row_warps, 1, rows);
  static constexpr int threads = row_warps * parts * static_cast<int>(warp_size);
  /// Blocks of a multiprocessor, as far as registers go.
  static constexpr int blocks = 16 / (row_warps * parts);
  /// From pixel to pixel. Four pixels of eight channels lie in different banks if this is 8 or 24 modulo 32.
  /// Two inputs lie side by side.
  static constexpr int stride_of(int channels) { return channels <= 8 ? channels : channels <= 16 ? 24 : 40; }
  static constexpr int input_stride = stride_of(inputs), output_stride = stride_of(outputs);
  static constexpr int around_numbers = around_rows * around_columns * input_stride;
  static constexpr int gradient_numbers = rows * columns * output_stride;
  /// Both twice: the next tile arrives while the present one is multiplied.
  static constexpr std::size_t shared_bytes = sizeof(float) * 2 * (around_numbers + gradient_numbers);
  static_assert(around_numbers % 4 == 0);
  /// A thread's row in a half of fragment m. `first` is the one in the first half of fragment 0.
  static constexpr __device__ int row(int first, int m, int half) { return first + m * fragment + 8 * half; }
};

/// Writes a thread's sums to `to` [q, q, channels, outputs]: outputs 2 t and 2 t + 1 of each octet.
template <class Shape, int fragments, int octets>
__device__ __forceinline__ void store_sums(const float (&sums)[fragments][octets][4], int first_row, int t,
                                           int first_input, int first_output, int channels, int outputs,
                                           float* to) {
#pragma unroll
  for (int m = 0; m < fragments; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = Shape::row(first_row, m, half), offset = row / Shape::inputs,
                input = first_input + row % Shape::inputs;
      if (offset >= Shape::offsets || input >= channels) continue;
      float* const of_input = to + (offset * channels + input) * outputs;
#pragma unroll
      for (int j = 0; j < octets; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int output = first_output + j * octet + 2 * t + i;
          if (output < outputs) of_input[output] = sums[m][j][2 * half + i];
        }
      }
    }
  }
}

/// partial [gridDim.x parts, q, q, C, F]: block (i, j, k) has inputs of range j and outputs of range k.
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    kernel_gradient_kernel(Frames x, Frames gradient, Index tiles, float* __restrict__ partial) {
  constexpr int octets = Shape::outputs / octet, fragments = Shape::warp_fragments;
  constexpr int stride = Shape::input_stride, output_stride = Shape::output_stride;
  using Terms = Tf32Terms<Shape::exact>;
  float* const around = reinterpret_cast<float*>(dynamic_shared_memory());
  float* const gradients = around + 2 * Shape::around_numbers;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / static_cast<int>(warp_size);
  const int lane = thread % static_cast<int>(warp_size), g = lane / quad, t = lane % quad;
  const int part = warp / Shape::row_warps, row_warp = warp % Shape::row_warps;
  const int first_input = static_cast<int>(blockIdx.y) * Shape::inputs,
            first_output = static_cast<int>(blockIdx.z) * Shape::outputs;

  // Rows g and g + 8 of each fragment: where their numbers lie behind the first pixel of a neighbourhood.
  // Rows behind the last offset get sums that nobody reads.
  const int first_row = row_warp * Shape::warp_rows + g;
  int places[fragments][2];
#pragma unroll
  for (int m = 0; m < fragments; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = Shape::row(first_row, m, half), offset = min(row / Shape::inputs, Shape::offsets - 1);
      places[m][half] = (offset / Shape::side * Shape::around_columns + offset % Shape::side + t) * stride +
                        row % Shape::inputs;
    }
  }

  float totals[fragments][octets][4] = {};
  int buffer = 1;
  const Index blocks = gridDim.x;
  for (Index present = blockIdx.x - blocks; present < tiles; present += blocks, buffer ^= 1) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (present + blocks < tiles) {
      const FrameTile<Shape::rows, Shape::columns> tile(present + blocks, x.height, x.width);
      x.copy<Shape::around_rows, Shape::around_columns, Shape::inputs, stride, Shape::threads>(
          tile.frame, tile.row - Shape::reach, tile.column - Shape::reach, first_input,
          around + (buffer ^ 1) * Shape::around_numbers);
      gradient.copy<Shape::rows, Shape::columns, Shape::outputs, output_stride, Shape::threads>(
          tile.frame, tile.row, tile.column, first_output,
          gradients + (buffer ^ 1) * Shape::gradient_numbers);
      ptx::cp_async_commit();
    }
    if (present < 0) continue;
    // Tensor cores cut off what they add to a sum. So their sums are short, and are added in float.
    float sums[fragments][octets][4] = {};
    const float* from = around + buffer * Shape::around_numbers + part * Shape::around_columns * stride;
    const float* of_gradients =
        gradients + buffer * Shape::gradient_numbers + (part * Shape::columns + t) * output_stride + g;
#pragma unroll 1
    for (int row = part; row < Shape::rows; row += Shape::parts) {
#pragma unroll
      for (int column = 0; column < Shape::columns; column += octet) {
        Terms left[fragments][4];
#pragma unroll
        for (int m = 0; m < fragments; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            left[m][i] = Terms(from[places[m][i % 2] + (column + i / 2 * quad) * stride]);
        }
        constexpr int at_once = std::min(octets, 2);  // of registers
#pragma unroll
        for (int first = 0; first < octets; first += at_once) {
          Terms right[at_once][2];
#pragma unroll
          for (int j = 0; j < at_once; ++j) {
            const float* const of_octet = of_gradients + column * output_stride + (first + j) * octet;
            right[j][0] = Terms(of_octet[0]), right[j][1] = Terms(of_octet[quad * output_stride]);
          }
          multiply_terms(left, right, [&](int m, int j) -> float(&)[4] { return sums[m][first + j]; });
        }
      }
      from += Shape::parts * Shape::around_columns * stride;
      of_gradients += Shape::parts * Shape::columns * output_stride;
    }
#pragma unroll
    for (int m = 0; m < fragments; ++m) {
#pragma unroll
      for (int j = 0; j < octets; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) totals[m][j][i] += sums[m][j][i];
      }
    }
  }

  float* const to = partial + (static_cast<Index>(blockIdx.x) * Shape::parts + part) * Shape::offsets *
                                  static_cast<Index>(x.channels) * gradient.channels;
  store_sums<Shape>(totals, first_row, t, first_input, first_output, x.channels, gradient.channels, to);
}

/// d_kernel <- d_kernel + factor times the sums of the rows of `partial`.
void add_scaled_partials(const Context& gpu, const float* partial, Index rows, float factor,
                         TensorView<float> d_kernel) {
  float* const sums = d_kernel.data();
  sum_partials(gpu, partial, rows, d_kernel.size(),
               [=] __device__(Index i, float sum) { sums[i] += factor * sum; });
}

}  // namespace

void add_kernel_gradient(const FrameMap& map, TensorView<const float> x, TensorView<const float> g,
                         TensorView<float> d_kernel) {
  if (x.empty()) return;
  Context& gpu = context(x.device());
  const auto add = [&]<class Shape>(Shape) {
    const Index tiles = FrameTile<Shape::rows, Shape::columns>::count(map);
    const unsigned input_ranges = blocks_for(map.inputs, Shape::inputs),
                   output_ranges = blocks_for(map.outputs, Shape::outputs);
    // As many blocks as a large GPU has room for. Not this one: the order of the sums depends on the sizes
    // alone.
    constexpr Index most_blocks = Index{132} * Shape::blocks;
    const Index blocks = std::clamp<Index>(most_blocks / (Index{input_ranges} * output_ranges), 1, tiles);
    const Index rows = blocks * Shape::parts, count = d_kernel.size();
    float* const partial = gpu.scratch<float>(static_cast<std::size_t>(rows * count));
    launch(gpu, kernel_gradient_kernel<Shape>,
           {.grid = dim3(static_cast<unsigned>(blocks), input_ranges, output_ranges),
            .block = Shape::threads,
            .shared = Shape::shared_bytes},
           Frames(x.data(), map, map.inputs), Frames(g.data(), map, map.outputs), tiles, partial);
    add_scaled_partials(gpu, partial, rows, map.factor, d_kernel);
  };
  with_constants(map, [&](auto side, auto exact) {
    with_octets(static_cast<int>(map.outputs), [&](auto octets) {
      if (map.inputs <= 2) return add(GradientShape<side, octets, 2, exact>());
      if (side == 5 || map.inputs <= 8) return add(GradientShape<side, octets, 8, exact>());
      if (map.inputs <= 16) return add(GradientShape<3, octets, 16, exact>());
      add(GradientShape<3, octets, 32, exact>());
    });
  });
}

}  // namespace orthornn::cuda
