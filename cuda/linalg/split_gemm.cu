#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cuda/core/launch.hpp"
#include "cuda/linalg/aligned_columns.hpp"
#include "cuda/linalg/split_gemm.cuh"
#include "cuda/linalg/split_gemm.hpp"
#include "cuda/linalg/sum_partials.cuh"

namespace orthornn::cuda {
namespace {

using namespace split_products;

/// Blocks that fill a large GPU. Not this one: the order of the sums depends on the sizes alone.
constexpr Index enough_blocks = 132;

/// Its shared memory says what its code was compiled for: a GPU takes the code that is nearest to it.
constexpr std::size_t bytes_without = 1024;
__global__ void tell_instructions() {
  __shared__ volatile char memory[bytes_without * (wgmma::has_wgmma ? 2 : 1)];
  memory[threadIdx.x] = 0;
}

bool has_instructions() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, tell_instructions));
  return attributes.sharedSizeBytes > bytes_without;
}

/// Columns of a block, and blocks along the columns.
struct Division {
  Index depth_of_block, parts;
};

Division divide(Index tiles, Index columns) {
  const Index sums = (columns + columns_of_sum - 1) / columns_of_sum,
              most = std::max<Index>(1, enough_blocks / tiles);
  const Index depth_of_block = (sums + most - 1) / most * columns_of_sum;
  return {depth_of_block, (columns + depth_of_block - 1) / depth_of_block};
}

template <class Shape>
void start(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
           MatrixView<float> c) {
  using Boxes = typename Shape::Boxes;
  Context& gpu = context(c.device);
  const Division division = divide(Shape::tiles(a.rows, b.rows), a.cols);
  const Index count = a.rows * b.rows;
  float* const partial = gpu.scratch<float>(static_cast<std::size_t>(division.parts * count));
  launch(gpu, split_gemm_kernel<Shape>,
         {.grid = dim3(blocks_for(a.rows, Shape::rows), blocks_for(b.rows, Shape::columns),
                       grid_size(division.parts)),
          .block = Shape::threads,
          .shared = Shape::shared_bytes},
         Arguments<typename Boxes::Source>{Boxes::left_source(a), Boxes::right_source(b), a.rows, b.rows,
                                           a.cols, division.depth_of_block, partial});
  sum_partials(gpu, partial, division.parts, count, [=] __device__(Index i, float sum) {
    float& to = c.data[i / c.rows * c.stride + i % c.rows];
    to = alpha * sum + (beta == 0 ? 0 : beta * to);
  });
}

/// Numbers of the results with what pads them to whole tiles, which are the same for each kind of boxes and
/// number of terms.
template <class Shape>
Index padded(Index rows, Index cols) {
  return Shape::tiles(rows, cols) * Shape::rows * Shape::columns;
}
using SquareTiles = Square<SwizzledBoxes, 3>;
using WideTiles = Wide<SwizzledBoxes, 3>;

bool is_wide(Index rows, Index cols) {
  return padded<WideTiles>(rows, cols) < padded<SquareTiles>(rows, cols);
}

template <template <int, int> class Boxes, int terms>
void start_in(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
              MatrixView<float> c) {
  if (is_wide(a.rows, b.rows)) return start<Wide<Boxes, terms>>(alpha, a, b, beta, c);
  start<Square<Boxes, terms>>(alpha, a, b, beta, c);
}

/// Share of a large GPU's multiplications that count. The others pad tiles, or are lost while multiprocessors
/// wait for the last blocks.
template <class Shape>
double useful_share(Index rows, Index cols, Index parts) {
  const Index blocks = parts * Shape::tiles(rows, cols), turns = (blocks + enough_blocks - 1) / enough_blocks;
  return static_cast<double>(rows * cols * parts) /
         static_cast<double>(turns * enough_blocks * Shape::rows * Shape::columns);
}

template <class Shape>
bool takes(Index rows, Index cols, Index depth_of_sums) {
  // This kernel takes 0.39 to 0.87 of cuBLAS's time with three terms where tiles have this share or more, for
  // cuBLAS pads as well. With two terms it takes 0.55 to 1.05 of it up to 705 rows. Smaller shares were
  // hardly timed (tools/bench-results/h200-gradients.csv).
  constexpr double least_share = 0.4;
  const Index parts = divide(Shape::tiles(rows, cols), depth_of_sums).parts;
  return parts * rows * cols <= max_partial_sums && useful_share<Shape>(rows, cols, parts) >= least_share;
}

}  // namespace

bool takes_split_gemm(Device device, Index rows, Index cols, Index depth) {
  // Smaller products were not timed.
  constexpr double fewest_products = 0x1p25;
  constexpr Index least_depth = 4096;
  const double products = static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  if (depth < least_depth || products < fewest_products) return false;
  if (!(is_wide(rows, cols) ? takes<WideTiles>(rows, cols, depth) : takes<SquareTiles>(rows, cols, depth)))
    return false;
  context(device);  // makes it the current one
  return has_instructions();
}

void split_gemm(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                MatrixView<float> c, Precision precision) {
  assert(a.cols == b.cols && a.cols > 0 && a.rows == c.rows && b.rows == c.cols);
  // Two terms are for columns that begin anywhere: for others cuBLAS's products in tf32 are faster.
  if (precision != Precision::fp32) return start_in<ShiftedBoxes, 2>(alpha, a, b, beta, c);
  if (has_aligned_columns(a) && has_aligned_columns(b))
    return start_in<SwizzledBoxes, 3>(alpha, a, b, beta, c);
  start_in<ShiftedBoxes, 3>(alpha, a, b, beta, c);
}

}  // namespace orthornn::cuda
