// Convolutions of frames on a GPU, in float.
//
// The sums are products of matrices whose larger operand, the neighbourhoods of all pixels, is never made.
// Its numbers lie in shared memory once. A thread reads a row of them once, and uses each number for q
// neighbouring pixels.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <type_traits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/layers/frame_convolution.hpp"

namespace orthornn::cuda {
namespace {

/// Channels of which a thread has sums: two words.
constexpr int own_channels = 8;

/// Pixels of a frame that a block works on: Rows x Columns, the first at (row, column).
template <int Rows, int Columns>
struct Tile {
  Index frame;
  int row, column;

  static Index count(const FrameMap& map) {
    return map.frames * ((map.height + Rows - 1) / Rows) * ((map.width + Columns - 1) / Columns);
  }
  __device__ Tile(Index number, int height, int width) {
    const int along = (width + Columns - 1) / Columns, of_frame = (height + Rows - 1) / Rows * along;
    frame = number / of_frame;
    const int rest = static_cast<int>(number % of_frame);
    row = rest / along * Rows;
    column = rest % along * Columns;
  }
};

/// Frames [frames, H, W, channels] in device memory.
struct Frames {
  const float* data;
  int height, width, channels;

  /// Calls store(place, c, numbers, count) for the channels first .. first + count - 1 of the pixels around a
  /// tile, Rows x Columns from (row, column) on, which may lie outside the frame: there are zeros. Numbers
  /// come four at a time where `wide`, else alone. All threads of the block take part.
  template <int Rows, int Columns>
  __device__ __forceinline__ void for_each_around(Index frame, int row, int column, int first, int count,
                                                  bool wide, const auto& store) const {
    const float* const begin = data + frame * height * width * channels + first;
    const int size = wide ? 4 : 1, packs = count / size;
    // A thread has the same channels of all its pixels, so that it divides by a size that is no constant
    // once.
    const int thread = static_cast<int>(threadIdx.x), c = thread % packs * size;
    const int step = static_cast<int>(blockDim.x) / packs;
    if (thread >= step * packs) return;
    for (int place = thread / packs; place < Rows * Columns; place += step) {
      const int y = row + place / Columns, x = column + place % Columns;
      const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
      const float* const from = begin + (static_cast<Index>(y) * width + x) * channels + c;
      Word<float> numbers{};
      if (is_inside && wide) numbers = load_pack<4>(from);
      if (is_inside && !wide) numbers.of[0] = *from;
      store(place, c, numbers, size);
    }
  }
};

/// Whether the channels of a pixel are whole words.
bool is_wide(const float* data, Index channels) { return channels % 4 == 0 && is_aligned_for_packs(data); }

/// Calls body(constant) with the side of the kernels.
void with_side(Index side, const auto& body) {
  assert(takes_side(side));
  side == 3 ? body(std::integral_constant<int, 3>()) : body(std::integral_constant<int, 5>());
}

// Sums over the neighbours of a pixel: y += factor K * x, and the gradient of x.

/// Numbers K(offset, input, output) of a kernel as they lie, or of the transposed convolution, whose offsets
/// are mirrored.
struct KernelView {
  const float* data;
  Index offset_stride, input_stride, output_stride;
  bool mirrored;

  __device__ float at(int offset, int input, int output) const {
    return data[offset * offset_stride + input * input_stride + output * output_stride];
  }
};

struct Sums {
  KernelView kernel;
  const float* bias;  ///< [outputs], or null where y has what the sums are added to
  float factor;
  float* y;  ///< [.., outputs]
  int outputs;
};

/// A block has 16 x 16 pixels, and `Groups` groups of own_channels outputs. A thread has eight pixels of a
/// row and one group, so its sums are 64 registers. Threads of different groups lie side by side, and write
/// whole lines.
template <int Side, int Groups>
struct SumShape {
  static constexpr int rows = 16, columns = 16, own_pixels = 8;
  static constexpr int threads = rows * columns / own_pixels * Groups;
  static constexpr int outputs = own_channels * Groups;
  /// Inputs at a time.
  static constexpr int inputs = 8;
  static constexpr int around_rows = rows + Side - 1, around_columns = columns + Side - 1;
  /// From row to row: a multiple of four, for words; an odd one, so that eight rows lie in different banks.
  static constexpr int row_stride = (around_columns + 3) / 8 * 8 + 4;
  /// From input to input. Four times this is 16 modulo 32 numbers for side 3, so two words of 16 neighbouring
  /// pixels, which a warp stores at once, lie in different banks.
  static constexpr int input_stride = around_rows * row_stride + 4;
  /// Numbers of a row that a thread reads, in whole words.
  static constexpr int read_columns = (own_pixels + Side - 1 + 3) / 4 * 4;
  static constexpr int kernel_numbers = inputs * Side * Side * outputs;
  static constexpr std::size_t shared_bytes = sizeof(float) * (inputs * input_stride + kernel_numbers);
  static_assert(row_stride >= around_columns && row_stride % 8 == 4);
  static_assert(columns - own_pixels + read_columns <= row_stride);
};

template <int Side, int Groups>
__global__ void __launch_bounds__(SumShape<Side, Groups>::threads)
    add_convolution_kernel(Frames x, Sums to, bool wide, bool wide_outputs) {
  using Shape = SumShape<Side, Groups>;
  constexpr int reach = Side / 2;
  float* const around = reinterpret_cast<float*>(dynamic_shared_memory());
  float* const weights = around + Shape::inputs * Shape::input_stride;
  const Tile<Shape::rows, Shape::columns> tile(blockIdx.x, x.height, x.width);
  const int thread = static_cast<int>(threadIdx.x), group = thread % Groups, segment = thread / Groups;
  const int row = segment % Shape::rows, column = segment / Shape::rows * Shape::own_pixels;
  const int first_output = static_cast<int>(blockIdx.y) * Shape::outputs;

  float sums[Shape::own_pixels][own_channels] = {};
  for (int first = 0; first < x.channels; first += Shape::inputs) {
    const int count = min(Shape::inputs, x.channels - first);
    __syncthreads();
    x.for_each_around<Shape::around_rows, Shape::around_columns>(
        tile.frame, tile.row - reach, tile.column - reach, first, count, wide,
        [&](int place, int c, const Word<float>& numbers, int size) {
          const int at = place / Shape::around_columns * Shape::row_stride + place % Shape::around_columns;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (i < size) around[(c + i) * Shape::input_stride + at] = numbers.of[i];
          }
        });
    for (int i = thread; i < count * Side * Side * Shape::outputs; i += Shape::threads) {
      const int output = i % Shape::outputs, offset = i / Shape::outputs % (Side * Side),
                input = i / (Shape::outputs * Side * Side);
      const int lies_at = to.kernel.mirrored ? Side * Side - 1 - offset : offset, own = first_output + output;
      weights[i] = own < to.outputs ? to.kernel.at(lies_at, first + input, own) : 0.0f;
    }
    __syncthreads();
    const float* of_input = around + row * Shape::row_stride + column;
    const float* of_weights = weights + group * own_channels;
    for (int input = 0; input < count; ++input, of_input += Shape::input_stride) {
#pragma unroll
      for (int dy = 0; dy < Side; ++dy) {
        float numbers[Shape::read_columns];
#pragma unroll
        for (int i = 0; i < Shape::read_columns; i += 4) {
          const Word<float> word = load_pack<4>(of_input + dy * Shape::row_stride + i);
#pragma unroll
          for (int j = 0; j < 4; ++j) numbers[i + j] = word.of[j];
        }
#pragma unroll
        for (int dx = 0; dx < Side; ++dx, of_weights += Shape::outputs) {
          const Word<float> low = load_pack<4>(of_weights), high = load_pack<4>(of_weights + 4);
#pragma unroll
          for (int p = 0; p < Shape::own_pixels; ++p) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              sums[p][j] += low.of[j] * numbers[p + dx];
              sums[p][4 + j] += high.of[j] * numbers[p + dx];
            }
          }
        }
      }
    }
  }

  const int own_row = tile.row + row, own_output = first_output + group * own_channels;
  if (own_row >= x.height) return;
#pragma unroll
  for (int p = 0; p < Shape::own_pixels; ++p) {
    const int own_column = tile.column + column + p;
    if (own_column >= x.width) break;
    const Index pixel = (tile.frame * x.height + own_row) * x.width + own_column;
    float* const y = to.y + pixel * to.outputs + own_output;
    const float* const before = to.bias == nullptr ? y : to.bias + own_output;
    if (wide_outputs) {
#pragma unroll
      for (int i = 0; i < own_channels; i += 4) {
        if (own_output + i >= to.outputs) break;
        Word<float> word = load_pack<4>(before + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) word.of[j] += to.factor * sums[p][i + j];
        store_pack(word, y + i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < own_channels; ++i) {
        if (own_output + i < to.outputs) y[i] = before[i] + to.factor * sums[p][i];
      }
    }
  }
}

template <int Side, int Groups>
void add_sums(const Context& gpu, Index tiles, const Frames& x, const Sums& sums) {
  using Shape = SumShape<Side, Groups>;
  const unsigned ranges = blocks_for(sums.outputs, Shape::outputs);
  launch(gpu, add_convolution_kernel<Side, Groups>,
         {.grid = dim3(grid_size(tiles), ranges), .block = Shape::threads, .shared = Shape::shared_bytes}, x,
         sums, is_wide(x.data, x.channels),
         is_wide(sums.y, sums.outputs) && (sums.bias == nullptr || is_wide(sums.bias, sums.outputs)));
}

void add_sums(const FrameMap& map, Device device, const float* x, int inputs, const Sums& sums) {
  const Context& gpu = context(device);
  const Frames frames{x, static_cast<int>(map.height), static_cast<int>(map.width), inputs};
  with_side(map.side, [&](auto side) {
    const Index tiles = Tile<SumShape<side, 1>::rows, SumShape<side, 1>::columns>::count(map);
    if (sums.outputs <= own_channels) return add_sums<side, 1>(gpu, tiles, frames, sums);
    if (sums.outputs <= 2 * own_channels) return add_sums<side, 2>(gpu, tiles, frames, sums);
    add_sums<side, 4>(gpu, tiles, frames, sums);
  });
}

// Sums over pixels: the gradient of K.

/// A block has up to 32 inputs and 32 outputs, and all offsets: a thread has the offsets of one row, a pair
/// of inputs and own_channels outputs. Blocks go over tiles of 8 x 16 pixels. Where the channels are few,
/// further threads, in `parts`, take other rows of the tile.
template <int Side>
struct GradientShape {
  static constexpr int rows = 8, columns = 16, own_inputs = 2;
  static constexpr int most_inputs = 32, most_outputs = 32;
  static constexpr int most_threads = Side * (most_inputs / own_inputs) * (most_outputs / own_channels);
  static constexpr int around_rows = rows + Side - 1, around_columns = columns + Side - 1;

  int pairs, groups, parts;

  GradientShape(int inputs, int outputs)
      : pairs((std::min(inputs, most_inputs) + own_inputs - 1) / own_inputs),
        groups((std::min(outputs, most_outputs) + own_channels - 1) / own_channels),
        parts(std::clamp(most_threads / (Side * pairs * groups), 1, rows)) {}

  __host__ __device__ int threads_of_part() const { return Side * pairs * groups; }
  /// Inputs of a pixel in shared memory: whole words.
  __host__ __device__ int input_stride() const { return (own_inputs * pairs + 3) / 4 * 4; }
  __host__ __device__ int output_stride() const { return own_channels * groups; }
  std::size_t shared_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(around_rows * around_columns * input_stride() +
                                                    rows * columns * output_stride());
  }
};

/// partial [gridDim.x parts, q, q, C, F]: block (i, j, k) has inputs of range j and outputs of range k.
template <int Side>
__global__ void __launch_bounds__(GradientShape<Side>::most_threads)
    kernel_gradient_kernel(Frames x, Frames g, GradientShape<Side> shape, Index tiles,
                           float* __restrict__ partial, bool wide_inputs, bool wide_outputs) {
  using Shape = GradientShape<Side>;
  constexpr int reach = Side / 2;
  const int input_stride = shape.input_stride(), output_stride = shape.output_stride();
  float* const around = reinterpret_cast<float*>(dynamic_shared_memory());
  float* const gradients = around + Shape::around_rows * Shape::around_columns * input_stride;
  const int of_part = shape.threads_of_part(), part = static_cast<int>(threadIdx.x) / of_part,
            rest = static_cast<int>(threadIdx.x) % of_part;
  const int group = rest % shape.groups, pair = rest / shape.groups % shape.pairs,
            dy = rest / (shape.groups * shape.pairs);
  const int first_input = static_cast<int>(blockIdx.y) * Shape::most_inputs,
            first_output = static_cast<int>(blockIdx.z) * Shape::most_outputs;
  const int inputs = min(input_stride, x.channels - first_input),
            outputs = min(output_stride, g.channels - first_output);
  // Channels that are not there stay zero.
  for (int i = static_cast<int>(threadIdx.x); i < Shape::around_rows * Shape::around_columns * input_stride;
       i += static_cast<int>(blockDim.x))
    around[i] = 0;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::rows * Shape::columns * output_stride;
       i += static_cast<int>(blockDim.x))
    gradients[i] = 0;

  float sums[Side][Shape::own_inputs][own_channels] = {};
  for (Index number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile<Shape::rows, Shape::columns> tile(number, x.height, x.width);
    const auto store_at = [](float* memory, int stride) {
      return [=](int place, int c, const Word<float>& numbers, int size) {
        float* const to = memory + place * stride + c;
        if (size == 4) {
          store_pack(numbers, to);
        } else {
          *to = numbers.of[0];
        }
      };
    };
    __syncthreads();
    x.for_each_around<Shape::around_rows, Shape::around_columns>(tile.frame, tile.row - reach,
                                                                 tile.column - reach, first_input, inputs,
                                                                 wide_inputs, store_at(around, input_stride));
    g.for_each_around<Shape::rows, Shape::columns>(tile.frame, tile.row, tile.column, first_output, outputs,
                                                   wide_outputs, store_at(gradients, output_stride));
    __syncthreads();
    for (int row = part; row < Shape::rows; row += shape.parts) {
      const float* const of_row =
          around + (row + dy) * Shape::around_columns * input_stride + Shape::own_inputs * pair;
      const float* const of_gradients =
          gradients + row * Shape::columns * output_stride + own_channels * group;
      float numbers[Shape::around_columns][Shape::own_inputs];
#pragma unroll
      for (int p = 0; p < Shape::around_columns; ++p) {
        const float2 both = *reinterpret_cast<const float2*>(of_row + p * input_stride);
        numbers[p][0] = both.x, numbers[p][1] = both.y;
        const int pixel = p - (Side - 1);  // whose neighbours are all there now
        if (pixel < 0) continue;
        const Word<float> low = load_pack<4>(of_gradients + pixel * output_stride),
                          high = load_pack<4>(of_gradients + pixel * output_stride + 4);
#pragma unroll
        for (int dx = 0; dx < Side; ++dx) {
#pragma unroll
          for (int i = 0; i < Shape::own_inputs; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              sums[dx][i][j] += numbers[pixel + dx][i] * low.of[j];
              sums[dx][i][4 + j] += numbers[pixel + dx][i] * high.of[j];
            }
          }
        }
      }
    }
  }

  float* const to = partial + (static_cast<Index>(blockIdx.x) * shape.parts + part) * Side * Side *
                                  static_cast<Index>(x.channels) * g.channels;
#pragma unroll
  for (int dx = 0; dx < Side; ++dx) {
#pragma unroll
    for (int i = 0; i < Shape::own_inputs; ++i) {
      const int input = first_input + Shape::own_inputs * pair + i;
      if (input >= x.channels) continue;
#pragma unroll
      for (int j = 0; j < own_channels; ++j) {
        const int output = first_output + own_channels * group + j;
        if (output < g.channels)
          to[(static_cast<Index>(dy * Side + dx) * x.channels + input) * g.channels + output] =
              sums[dx][i][j];
      }
    }
  }
}

constexpr unsigned sum_columns_of_block = 32, sum_rows_of_block = 8;

/// sums [count] += factor times the rows of partial [rows, count]; a thread adds a range of rows, and then
/// one adds the ranges.
__global__ void add_partial_gradients(const float* __restrict__ partial, Index rows, Index count,
                                      float factor, float* __restrict__ sums) {
  __shared__ float shared[sum_rows_of_block][sum_columns_of_block];
  const Index column = static_cast<Index>(blockIdx.x) * sum_columns_of_block + threadIdx.x;
  const Index range = (rows + sum_rows_of_block - 1) / sum_rows_of_block, first = threadIdx.y * range;
  const Index last = first + range < rows ? first + range : rows;
  float sum = 0;
  if (column < count) {
#pragma unroll 8
    for (Index row = first; row < last; ++row) sum += partial[row * count + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= count) return;
  float total = 0;
  for (unsigned y = 0; y < sum_rows_of_block; ++y) total += shared[y][threadIdx.x];
  sums[column] += factor * total;
}

}  // namespace

void add_convolution(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> bias,
                     TensorView<const float> x, TensorView<float> y) {
  if (y.empty()) return;
  const int inputs = static_cast<int>(map.inputs), outputs = static_cast<int>(map.outputs);
  const KernelView view{kernel.data(), map.inputs * outputs, outputs, 1, false};
  add_sums(map, y.device(), x.data(), inputs,
           {view, bias.empty() ? nullptr : bias.data(), map.factor, y.data(), outputs});
}

void add_input_gradient(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> g,
                        TensorView<float> d_x) {
  if (d_x.empty()) return;
  const int inputs = static_cast<int>(map.inputs), outputs = static_cast<int>(map.outputs);
  const KernelView view{kernel.data(), map.inputs * outputs, 1, outputs, true};
  add_sums(map, d_x.device(), g.data(), outputs, {view, nullptr, map.factor, d_x.data(), inputs});
}

void add_kernel_gradient(const FrameMap& map, TensorView<const float> x, TensorView<const float> g,
                         TensorView<float> d_kernel) {
  if (x.empty()) return;
  Context& gpu = context(x.device());
  const int height = static_cast<int>(map.height), width = static_cast<int>(map.width),
            inputs = static_cast<int>(map.inputs), outputs = static_cast<int>(map.outputs);
  with_side(map.side, [&](auto side) {
    using Shape = GradientShape<side>;
    const Shape shape(inputs, outputs);
    const Index tiles = Tile<Shape::rows, Shape::columns>::count(map);
    // Three blocks of side 3 on each multiprocessor of a large GPU. Not of this machine: the order of the
    // sums depends on the sizes alone.
    constexpr Index most_blocks = 384;
    const unsigned input_ranges = blocks_for(inputs, Shape::most_inputs),
                   output_ranges = blocks_for(outputs, Shape::most_outputs);
    const Index blocks = std::clamp<Index>(most_blocks / (Index{input_ranges} * output_ranges), 1, tiles);
    const Index rows = blocks * shape.parts, count = d_kernel.size();
    float* const partial = gpu.scratch<float>(static_cast<std::size_t>(rows * count));
    launch(gpu, kernel_gradient_kernel<side>,
           {.grid = dim3(static_cast<unsigned>(blocks), input_ranges, output_ranges),
            .block = static_cast<unsigned>(shape.threads_of_part() * shape.parts),
            .shared = shape.shared_bytes()},
           Frames{x.data(), height, width, inputs}, Frames{g.data(), height, width, outputs}, shape, tiles,
           partial, is_wide(x.data(), inputs), is_wide(g.data(), outputs));
    launch(gpu, add_partial_gradients,
           {.grid = blocks_for(count, sum_columns_of_block),
            .block = dim3(sum_columns_of_block, sum_rows_of_block)},
           partial, rows, count, map.factor, d_kernel.data());
  });
}

}  // namespace orthornn::cuda
