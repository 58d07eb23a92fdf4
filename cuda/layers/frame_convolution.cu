// Convolutions of frames on a GPU, in float, and the gradients of what they read.
//
// They are products of matrices on tensor cores. The larger operand, the neighbourhoods of all pixels, is
// never made: its numbers lie in shared memory once, and each is read from there for all its neighbours.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/core/launch.hpp"
#include "cuda/core/tf32_terms.cuh"
#include "cuda/layers/frame_convolution.hpp"
#include "cuda/layers/frame_tiles.cuh"

namespace orthornn::cuda {
namespace {

/// Numbers K(offset, input, output) of a kernel as they lie.
struct KernelView {
  const float* data;  ///< of offset 0
  float factor;
  /// The transposed convolution goes through the offsets from the last to the first.
  int offset_stride, input_stride, output_stride;
};

/// y += factor K * x, or y = b + factor K * x.
struct Sums {
  KernelView kernel;
  const float* bias;  ///< [outputs], or null where y has what the sums are added to
  float* y;           ///< [.., outputs]
  int outputs;
  /// A step of y, if it has an h, or its gradient, if it has a d.
  pointwise::ReluStep<float> relu;
  pointwise::ReluStepBackward<float> gradient;
};

/// A block has 16 x 16 pixels and `octets` times eight outputs. A warp has two rows of the pixels. The block
/// sums over `inputs` inputs at a time. Their numbers in a neighbourhood are in the order of the offsets; the
/// inputs of an offset lie together. A step of the product takes eight of these numbers, of which lane t of a
/// quad has 2 t and 2 t + 1.
template <int kernel_side, int octets, int inputs_at_once, bool is_exact>
struct SumShape {
  static constexpr bool exact = is_exact;
  static constexpr int rows = 16, columns = 16, warp_rows = 2;
  static constexpr int threads = rows / warp_rows * static_cast<int>(warp_size);
  static constexpr int side = kernel_side, offsets = side * side;
  static constexpr int outputs = octets * octet, inputs = inputs_at_once;
  /// Whether outputs come in pairs, which are read and written at once. In all other cases a block has one
  /// octet.
  static constexpr bool has_pairs = octets > 1;
  static constexpr int reach = side / 2, around_rows = rows + 2 * reach, around_columns = columns + 2 * reach;
  static constexpr int around_numbers = around_rows * around_columns * inputs;
  static constexpr int steps = (offsets * inputs + octet - 1) / octet;
  /// Pairs of numbers of an offset, and of all steps. The kernel is zero for pairs behind the last offset.
  static constexpr int offset_pairs = inputs / 2, pairs = steps * quad;
  /// What a pair of the kernel is for an output: two numbers, or the first terms of both and the second ones.
  static constexpr int pair_numbers = exact ? 4 : 2;
  /// From pair to pair: 8 or 24 modulo 32, so that lanes that are served at once read different banks.
  static constexpr int pair_stride = outputs * pair_numbers + 8;
  static constexpr int weight_numbers = pairs * pair_stride;
  /// Offsets of the kernel that the threads of a block bring to shared memory at once, a pair each.
  static constexpr int offsets_at_once = threads / (offset_pairs * outputs);
  static constexpr int turns = (pairs / offset_pairs + offsets_at_once - 1) / offsets_at_once;
  /// All of it twice: the next inputs arrive while the present ones are multiplied.
  static constexpr std::size_t shared_bytes = sizeof(float) * 2 * (around_numbers + weight_numbers);
  static_assert(inputs % 2 == 0 && around_numbers % 4 == 0 && pairs % offset_pairs == 0 &&
                threads % (offset_pairs * outputs) == 0);

  /// Where the pair of lane t of a quad lies in a step, behind the first pixel of a neighbourhood. Pairs
  /// behind the last offset are those of the last one: numbers of the same neighbourhood, times zero.
  static constexpr int place(int step, int t) {
    const int pair = step * quad + t, found = pair / offset_pairs,
              offset = found < offsets ? found : offsets - 1;
    return (offset / side * around_columns + offset % side) * inputs + 2 * (pair % offset_pairs);
  }
};

/// The pairs of the kernel that a thread brings to shared memory: of some offsets, for one output.
template <class Shape>
class KernelPairs {
 public:
  __device__ KernelPairs(const KernelView& kernel, int first_output, int outputs) : kernel_(kernel) {
    // Threads side by side have numbers that lie side by side.
    const int thread = static_cast<int>(threadIdx.x) % (Shape::offset_pairs * Shape::outputs);
    const bool inputs_first = kernel.input_stride == 1;
    pair_ = inputs_first ? thread % Shape::offset_pairs : thread / Shape::outputs;
    output_ = inputs_first ? thread / Shape::offset_pairs : thread % Shape::outputs;
    offset_ = static_cast<int>(threadIdx.x) / (Shape::offset_pairs * Shape::outputs);
    has_output_ = first_output + output_ < outputs;
    from_ = kernel.data + offset_ * kernel.offset_stride + (first_output + output_) * kernel.output_stride;
  }
  /// Of the inputs from `first` on, of which there are `count`.
  __device__ __forceinline__ void load(int first, int count) {
    const int input = first + 2 * pair_;
    const bool has_first = has_output_ && input < count, has_second = has_output_ && input + 1 < count;
    const float* from = from_ + input * kernel_.input_stride;
#pragma unroll
    for (int i = 0; i < Shape::turns; ++i) {
      const bool is_offset = offset_ + i * Shape::offsets_at_once < Shape::offsets;
      numbers_[i].x = is_offset && has_first ? *from : 0.0f;
      numbers_[i].y = is_offset && has_second ? from[kernel_.input_stride] : 0.0f;
      from += Shape::offsets_at_once * kernel_.offset_stride;
    }
  }
  __device__ __forceinline__ void store(float* shared) const {
    float* to =
        shared + (offset_ * Shape::offset_pairs + pair_) * Shape::pair_stride + output_ * Shape::pair_numbers;
#pragma unroll
    for (int i = 0; i < Shape::turns; ++i) {
      if ((offset_ + i * Shape::offsets_at_once) * Shape::offset_pairs + pair_ >= Shape::pairs) break;
      const Tf32Terms<Shape::exact> first(kernel_.factor * numbers_[i].x),
          second(kernel_.factor * numbers_[i].y);
      Pack<unsigned, Shape::pair_numbers> terms;
#pragma unroll
      for (int term = 0; term < Shape::pair_numbers / 2; ++term)
        terms.of[2 * term] = first.of[term], terms.of[2 * term + 1] = second.of[term];
      store_pack(terms, reinterpret_cast<unsigned*>(to));
      to += Shape::offsets_at_once * Shape::offset_pairs * Shape::pair_stride;
    }
  }

 private:
  const KernelView& kernel_;
  int pair_, output_, offset_;
  bool has_output_;
  const float* from_;
  float2 numbers_[Shape::turns];
};

/// What a thread has the sums of: four pixels, columns g and g + 8 of two rows, for outputs 2 t and 2 t + 1
/// of each octet.
template <class Shape>
class OwnPixels {
 public:
  static constexpr int octets = Shape::outputs / octet, warp_rows = Shape::warp_rows;
  /// Of a pixel.
  using Numbers = float2[octets];

  __device__ __forceinline__ OwnPixels(const Frames& x, int row, int column, int output, int outputs)
      : x_(x),
        row_(row),
        column_(column),
        output_(output),
        outputs_(outputs),
        own_octets_((outputs - output + octet - 1) / octet),
        first_((row * x.width + column) * outputs + output) {}

  __device__ __forceinline__ void load(const float* from, Numbers& numbers) const {
#pragma unroll
    for (int j = 0; j < octets; ++j) {
      if (j >= own_octets_) break;
      if constexpr (Shape::has_pairs) {
        numbers[j] = *reinterpret_cast<const float2*>(from + j * octet);
      } else {
        numbers[j] = {from[0], output_ + 1 < outputs_ ? from[1] : 0.0f};
      }
    }
  }
  __device__ __forceinline__ void store(const Numbers& numbers, float* into) const {
#pragma unroll
    for (int j = 0; j < octets; ++j) {
      if (j >= own_octets_) break;
      if constexpr (Shape::has_pairs) {
        *reinterpret_cast<float2*>(into + j * octet) = numbers[j];
      } else {
        into[0] = numbers[j].x;
        if (output_ + 1 < outputs_) into[1] = numbers[j].y;
      }
    }
  }
  /// Calls body(m, half, n): n is where the thread's numbers of a pixel begin in a frame.
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
#pragma unroll
    for (int m = 0; m < warp_rows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (row_ + m < x_.height && column_ + 8 * half < x_.width)
          body(m, half, first_ + (m * x_.width + 8 * half) * outputs_);
      }
    }
  }

 private:
  const Frames& x_;
  int row_, column_, output_, outputs_, own_octets_, first_;
};

/// totals += the products of the inputs in shared memory, which begin at `of_pixel` and `of_output` for this
/// thread. Tensor cores cut off what they add to a sum. So their sums are short, and are added in float.
template <class Shape>
__device__ __forceinline__ void add_inputs(
    const float* of_pixel, const unsigned* of_output, int t,
    typename OwnPixels<Shape>::Numbers (&totals)[Shape::warp_rows][2]) {
  constexpr int octets = OwnPixels<Shape>::octets, warp_rows = Shape::warp_rows;
  using Terms = Tf32Terms<Shape::exact>;
  float sums[warp_rows][octets][4] = {};
#pragma unroll
  for (int step = 0; step < Shape::steps; ++step) {
    const float* const from = of_pixel + Shape::place(step, t);
    Terms left[warp_rows][4];
#pragma unroll
    for (int m = 0; m < warp_rows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 both =
            *reinterpret_cast<const float2*>(from + (m * Shape::around_columns + 8 * half) * Shape::inputs);
        left[m][half] = Terms(both.x), left[m][2 + half] = Terms(both.y);
      }
    }
    constexpr int at_once = std::min(octets, 2);  // of registers
#pragma unroll
    for (int first = 0; first < octets; first += at_once) {
      Terms right[at_once][2];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        const auto terms = load_pack<Shape::pair_numbers>(of_output + step * quad * Shape::pair_stride +
                                                          (first + j) * octet * Shape::pair_numbers);
#pragma unroll
        for (int i = 0; i < Shape::pair_numbers; ++i) right[j][i % 2].of[i / 2] = terms.of[i];
      }
      multiply_terms(left, right, [&](int m, int j) -> float(&)[4] { return sums[m][first + j]; });
    }
  }
#pragma unroll
  for (int m = 0; m < warp_rows; ++m) {
#pragma unroll
    for (int j = 0; j < octets; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        totals[m][half][j].x += sums[m][j][2 * half], totals[m][half][j].y += sums[m][j][2 * half + 1];
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 2) add_convolution_kernel(Frames x, Sums to) {
  using Own = OwnPixels<Shape>;
  using Numbers = typename Own::Numbers;
  constexpr int octets = Own::octets, warp_rows = Shape::warp_rows;
  float* const around = reinterpret_cast<float*>(dynamic_shared_memory());
  float* const weights = around + 2 * Shape::around_numbers;
  const FrameTile<Shape::rows, Shape::columns> tile(blockIdx.x, x.height, x.width);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / static_cast<int>(warp_size);
  const int lane = thread % static_cast<int>(warp_size), g = lane / quad, t = lane % quad;
  const int first_output = static_cast<int>(blockIdx.y) * Shape::outputs, own_output = first_output + 2 * t;
  const Own own(x, tile.row + warp_rows * warp, tile.column + g, own_output, to.outputs);
  const Index of_frame = tile.frame * x.height * x.width * to.outputs;
  float* const y = to.y + of_frame;
  const float* const h = to.gradient.d == nullptr ? nullptr : to.gradient.h + of_frame;

  KernelPairs<Shape> pairs(to.kernel, first_output, to.outputs);
  Numbers totals[warp_rows][2] = {};
  for (int present = -Shape::inputs; present < x.channels; present += Shape::inputs) {
    const int next = present + Shape::inputs, buffer = next / Shape::inputs % 2;
    if (present >= 0) {
      pairs.store(weights + (buffer ^ 1) * Shape::weight_numbers);
      ptx::cp_async_wait<0>();
      __syncthreads();
    }
    if (next < x.channels) {
      x.copy<Shape::around_rows, Shape::around_columns, Shape::inputs, Shape::inputs, Shape::threads>(
          tile.frame, tile.row - Shape::reach, tile.column - Shape::reach, next,
          around + buffer * Shape::around_numbers);
      ptx::cp_async_commit();
      pairs.load(next, x.channels);
    }
    if (present < 0) {
      own.for_each([&](int m, int half, int n) {
        own.load(to.bias == nullptr ? y + n : to.bias + own_output, totals[m][half]);
        // The lanes of a quad bring an octet each to the L2 cache.
        if (h != nullptr && first_output + t * octet < to.outputs)
          ptx::prefetch_to_l2(h + n + t * (octet - 2));
      });
      continue;
    }
    const float* const of_pixel = around + (buffer ^ 1) * Shape::around_numbers +
                                  (warp_rows * warp * Shape::around_columns + g) * Shape::inputs;
    const unsigned* const of_output = reinterpret_cast<const unsigned*>(weights) +
                                      (buffer ^ 1) * Shape::weight_numbers + t * Shape::pair_stride +
                                      g * Shape::pair_numbers;
    add_inputs<Shape>(of_pixel, of_output, t, totals);
  }

  if (h != nullptr) {
    const auto step = to.gradient.of(tile.frame);
    Numbers states[warp_rows][2] = {}, arrives[warp_rows][2] = {};
    own.for_each([&](int m, int half, int n) {
      own.load(h + n, states[m][half]);
      if (step.d_last != nullptr) own.load(step.d_last + n, arrives[m][half]);
    });
    own.for_each([&](int m, int half, int n) {
      Numbers& total = totals[m][half];
#pragma unroll
      for (int j = 0; j < octets; ++j) {
        const float2 state = states[m][half][j], more = arrives[m][half][j];
        total[j] = {step(state.x, total[j].x + more.x), step(state.y, total[j].y + more.y)};
      }
      own.store(total, y + n);
    });
    return;
  }
  const bool has_step = to.relu.h != nullptr;
  const auto step = to.relu.of(tile.frame);
  own.for_each([&](int m, int half, int n) {
    Numbers& total = totals[m][half];
#pragma unroll
    for (int j = 0; j < octets; ++j) {
      if (has_step) total[j] = {step(total[j].x), step(total[j].y)};
    }
    if (step.last != nullptr) own.store(total, step.last + n);
    own.store(total, y + n);
  });
}

/// Whether pairs of outputs can be read and written at once.
bool allows_pairs(const float* data, Index outputs) {
  return outputs % 2 == 0 && reinterpret_cast<std::uintptr_t>(data) % alignof(float2) == 0;
}

void add_sums(const FrameMap& map, Device device, const Frames& x, const Sums& sums) {
  const auto add = [&]<class Shape>(Shape) {
    const Index tiles = FrameTile<Shape::rows, Shape::columns>::count(map);
    launch(context(device), add_convolution_kernel<Shape>,
           {.grid = dim3(grid_size(tiles), blocks_for(sums.outputs, Shape::outputs)),
            .block = Shape::threads,
            .shared = Shape::shared_bytes},
           x, sums);
  };
  const bool pairs = allows_pairs(sums.y, sums.outputs) && allows_pairs(sums.bias, sums.outputs) &&
                     allows_pairs(sums.gradient.h, sums.outputs) &&
                     allows_pairs(sums.gradient.d_last, sums.outputs) &&
                     allows_pairs(sums.relu.last, sums.outputs);
  with_constants(map, [&](auto side, auto exact) {
    with_octets(pairs ? sums.outputs : 1, [&](auto octets) {
      constexpr int most_inputs = side == 3 ? 8 : 4;  // of shared memory
      x.channels <= 2 ? add(SumShape<side, octets, 2, exact>())
                      : add(SumShape<side, octets, most_inputs, exact>());
    });
  });
}

}  // namespace

bool takes_side(Index side) { return side == 3 || side == 5; }

void add_convolution(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> bias,
                     TensorView<const float> x, TensorView<float> y, const pointwise::ReluStep<float>& step) {
  assert(step.h == nullptr || (step.h == y.data() && step.size == map.height * map.width * map.outputs));
  if (y.empty()) return;
  const int inputs = static_cast<int>(map.inputs), outputs = static_cast<int>(map.outputs);
  const KernelView view{kernel.data(), map.factor, inputs * outputs, outputs, 1};
  add_sums(map, y.device(), Frames(x.data(), map, inputs),
           {view, bias.empty() ? nullptr : bias.data(), y.data(), outputs, step, {}});
}

void add_input_gradient(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> g,
                        TensorView<float> d_x, const pointwise::ReluStepBackward<float>& step) {
  assert(step.d == nullptr || (step.d == d_x.data() && step.size == map.height * map.width * map.inputs));
  if (d_x.empty()) return;
  const int inputs = static_cast<int>(map.inputs), outputs = static_cast<int>(map.outputs);
  const int of_offset = inputs * outputs;
  const float* const last = kernel.data() + (map.side * map.side - 1) * of_offset;
  const KernelView view{last, map.factor, -of_offset, 1, outputs};
  add_sums(map, d_x.device(), Frames(g.data(), map, outputs), {view, nullptr, d_x.data(), inputs, {}, step});
}

}  // namespace orthornn::cuda
