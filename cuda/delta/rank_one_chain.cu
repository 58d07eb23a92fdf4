// Chains of factors I + q k^T, in chunks (cuda/delta/factor_chunks.cuh). Three kernels:
//
//   couple    a block for each chunk and head: the inverse N of the coupling
//   sweep     a block for some columns of each state, from chunk to chunk with the columns in shared memory.
//             Forward, S is the state:
//               1. right sides = K S        2. updates u = N^T (right sides)    3. S += Q^T u
//             Backward, it is the mirrored chain. S is the gradient of the state after the chunk:
//               1. du = dO + Q S            2. d(right sides) = N du            3. S += K^T d(right sides)
//   gather    a block for each chunk and head: gradients of vectors and scales, which are sums over all
//             columns of the states. B = u d(right sides)^T above the diagonal is the gradient of Q K^T
//             there:
//               dQ = u dS^T + B K           dK = d(right sides) S^T + B^T Q

#include <limits>

#include "cuda/core/for_each.cuh"
#include "cuda/delta/factor_chunks.cuh"
#include "cuda/delta/rank_one_chain.hpp"

namespace orthornn::cuda {
namespace {

using namespace factors;

/// Columns of a state [D, M] that a block has.
constexpr int most_columns = 32, fewest_columns = 8;

/// One direction of the chain.
template <class T>
struct Sweep {
  Vectors<T> first, second;
  /// [numbers, H, C, C]
  const T* inverses;
  /// States before all steps and after them [B, H, D, M]; null for zeros, and where none are wanted. They may
  /// be the same.
  const T* start;
  T* finish;
  /// [R, H, M], added to the products of step 1; null for zeros.
  const T* added;
  /// [R, H, M]: the results of step 2; may be null.
  T* results;
  /// Kept for `gather`, or null: S before each chunk of the sweep [numbers, H, D, M], and the results of step
  /// 2 [numbers, H, C, M].
  T* states;
  T* updates;
};

template <bool is_backward, class T>
__global__ void __launch_bounds__(threads) sweep(Chunks chunks, Sweep<T> a, Index columns, int tile) {
  const Index tiles = (columns + tile - 1) / tile;
  const Head head(chunks, blockIdx.x / tiles);
  const Index first_column = blockIdx.x % tiles * tile;
  const int width = static_cast<int>(min(static_cast<Index>(tile), columns - first_column));
  const int size = chunks.size, count = chunks.factors;
  SharedMatrices<T> shared;
  const SharedMatrix<T> state = shared.take(size, tile), vectors = shared.take(count, odd(size)),
                        products = shared.take(count, tile), updates = shared.take(count, tile),
                        inverse = shared.take(count, count);

  const auto entry = [&](Index matrix, Index rows, int row, int column) {
    return (matrix * rows + row) * columns + first_column + column;
  };
  for_each_entry(size, width, [&](int k, int m) {
    state(k, m) = a.start == nullptr ? T{0} : a.start[entry(head.pair, size, k, m)];
  });
  const Index all = head.count();
  for (Index i = 0; i < all; ++i) {
    const Index chunk = is_backward ? all - 1 - i : i;
    const int rows = head.rows(chunk);
    __syncthreads();
    if (a.states != nullptr) {
      for_each_entry(size, width,
                     [&](int k, int m) { a.states[entry(head.slot(chunk), size, k, m)] = state(k, m); });
    }
    load_vectors(vectors, a.first, head, chunk, 0, size);
    load_kept(inverse, a.inverses + head.slot(chunk) * count * count, count, count);
    __syncthreads();
    // 1.
    multiply<2, 2, T>(count, width, size, vectors, state, [&](int r, int m, T sum) {
      if (a.added != nullptr && r < rows) sum += a.added[head.place(chunk, r) * columns + first_column + m];
      products(r, m) = sum;
    });
    __syncthreads();
    // 2.
    multiply<2, 2, T>(
        count, width, count, [&](int r, int s) { return is_backward ? inverse(r, s) : inverse(s, r); },
        products,
        [&](int r, int m, T sum) {
          updates(r, m) = sum;
          if (a.results != nullptr && r < rows)
            a.results[head.place(chunk, r) * columns + first_column + m] = sum;
          if (a.updates != nullptr) a.updates[entry(head.slot(chunk), count, r, m)] = sum;
        });
    load_vectors(vectors, a.second, head, chunk, 0, size);
    __syncthreads();
    // 3.
    multiply<4, 4, T>(size, width, count, vectors.transposed(), updates, state.add());
  }
  __syncthreads();
  if (a.finish == nullptr) return;
  for_each_entry(size, width, [&](int k, int m) { a.finish[entry(head.pair, size, k, m)] = state(k, m); });
}

/// Where the gradients of vectors and of their scales go, which may be null.
template <class T>
struct VectorGradients {
  T* vectors;
  T* scales;
};

/// What `gather` reads: states, gradients of states, updates, and gradients of right sides, as `sweep` kept
/// them.
template <class T>
struct Kept {
  const T* states;
  const T* d_states;
  const T* updates;
  const T* d_right_sides;
};

constexpr int column_stride = odd(most_columns);

/// The shared memory of `gather`.
template <class T>
struct GatherMatrices {
  /// B.
  SharedMatrix<T> products;
  /// Some columns of what `sweep` kept: a tile. Of states, numbers of a slice.
  SharedMatrix<T> updates, d_right_sides, states, d_states;
  /// A slice of the vectors, and of their gradients without scales.
  SharedMatrix<T> q, k, dq, dk;
  T *d_left_scales, *d_right_scales;

  __device__ __forceinline__ GatherMatrices(SharedMatrices<T> shared, int count)
      : products(shared.take(count, count)),
        updates(shared.take(count, column_stride)),
        d_right_sides(shared.take(count, column_stride)),
        states(shared.take(slice, column_stride)),
        d_states(shared.take(slice, column_stride)),
        q(shared.take(count, slice_stride)),
        k(shared.take(count, slice_stride)),
        dq(shared.take(count, slice_stride)),
        dk(shared.take(count, slice_stride)),
        d_left_scales(shared.take_numbers(count)),
        d_right_scales(shared.take_numbers(count)) {}
};

/// The parts of `gather`.
template <class T>
struct Gather {
  const Head& head;
  const GatherMatrices<T>& m;
  const Kept<T>& kept;
  Index chunk, columns;

  /// Calls load(first column, number of columns) and body(number of columns) for the columns of the states,
  /// with those of `updates` and `d_right_sides`.
  template <class Load, class Body>
  __device__ __forceinline__ void for_each_tile(const Load& load, const Body& body) const {
    const int count = head.chunks.factors;
    for (Index first = 0; first < columns; first += most_columns) {
      const int width = static_cast<int>(min(static_cast<Index>(most_columns), columns - first));
      __syncthreads();
      for_each_entry(count, width, [&](int r, int column) {
        const Index from = (head.slot(chunk) * count + r) * columns + first + column;
        m.updates(r, column) = kept.updates[from];
        m.d_right_sides(r, column) = kept.d_right_sides[from];
      });
      load(first, width);
      __syncthreads();
      body(width);
    }
    __syncthreads();
  }
  /// B = u d(right sides)^T above the diagonal.
  __device__ __forceinline__ void multiply_updates() const {
    const int count = head.chunks.factors;
    for_each_entry(count, count, [&](int s, int r) { m.products(s, r) = 0; });
    for_each_tile([](Index, int) {},
                  [&](int width) {
                    multiply<2, 2, T>(count, count, width, m.updates, m.d_right_sides.transposed(),
                                      [&](int s, int r, T sum) {
                                        if (s < r) m.products(s, r) += sum;
                                      });
                  });
  }
  /// Loads a slice of the vectors:  dQ = B K,  dK = B^T Q.
  __device__ __forceinline__ void multiply_vectors(const Vectors<T>& left, const Vectors<T>& right, int first,
                                                   int width) const {
    const int count = head.chunks.factors;
    load_vectors(m.q, left, head, chunk, first, width);
    load_vectors(m.k, right, head, chunk, first, width);
    __syncthreads();
    multiply<4, 2, T>(count, width, count, m.products, m.k, m.dq.put());
    multiply<4, 2, T>(count, width, count, m.products.transposed(), m.q, m.dk.put());
  }
  /// dQ += u dS^T,  dK += d(right sides) S^T.
  __device__ __forceinline__ void add_states(int first, int width) const {
    const int count = head.chunks.factors, size = head.chunks.size;
    for_each_tile(
        [&](Index first_column, int tile) {
          for_each_entry(width, tile, [&](int i, int column) {
            const Index from = (head.slot(chunk) * size + first + i) * columns + first_column + column;
            m.states(i, column) = kept.states[from];
            m.d_states(i, column) = kept.d_states[from];
          });
        },
        [&](int tile) {
          multiply<4, 2, T>(count, width, tile, m.updates, m.d_states.transposed(), m.dq.add());
          multiply<4, 2, T>(count, width, tile, m.d_right_sides, m.states.transposed(), m.dk.add());
        });
  }
  /// Writes a slice of the gradients of vectors, and adds what it is for those of their scales. `memory` is
  /// for the vectors themselves.
  __device__ __forceinline__ void write(const Vectors<T>& vectors, const SharedMatrix<T>& memory,
                                        const SharedMatrix<T>& d, const VectorGradients<T>& to, T* d_scales,
                                        int first, int width) const {
    const int rows = head.rows(chunk);
    if (to.scales != nullptr) {
      load_vectors(memory, {vectors.vectors, nullptr, T{1}}, head, chunk, first, width);
      __syncthreads();
      add_row_products(d_scales, rows, width, memory, d);
    }
    for_each_entry(rows, width, [&](int r, int i) {
      const Index place = head.place(chunk, r);
      to.vectors[place * head.chunks.size + first + i] = vectors.scale(place) * d(r, i);
    });
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    gather(Chunks chunks, Vectors<T> left, Vectors<T> right, Kept<T> kept, Index columns,
           VectorGradients<T> d_left, VectorGradients<T> d_right) {
  const Head head(chunks, blockIdx.x / chunks.most);
  const Index chunk = blockIdx.x % chunks.most;
  if (chunk >= head.count()) return;
  const GatherMatrices<T> m(SharedMatrices<T>(), chunks.factors);
  const Gather<T> of_chunk{head, m, kept, chunk, columns};
  for_each_entry(chunks.factors, 1, [&](int r, int) { m.d_left_scales[r] = m.d_right_scales[r] = 0; });
  of_chunk.multiply_updates();
  for (int first = 0; first < chunks.size; first += slice) {
    const int width = min(slice, chunks.size - first);
    of_chunk.multiply_vectors(left, right, first, width);
    of_chunk.add_states(first, width);
    of_chunk.write(left, m.q, m.dq, d_left, m.d_left_scales, first, width);
    of_chunk.write(right, m.k, m.dk, d_right, m.d_right_scales, first, width);
    __syncthreads();
  }
  for_each_entry(head.rows(chunk), 1, [&](int r, int) {
    const Index place = head.place(chunk, r);
    if (d_left.scales != nullptr) d_left.scales[place] = m.d_left_scales[r];
    if (d_right.scales != nullptr) d_right.scales[place] = m.d_right_scales[r];
  });
}

/// The factors of left vectors that make the mirrored chain of the inverses: -alpha / (1 + q^T k). A warp for
/// each factor.
template <class T>
__global__ void __launch_bounds__(threads)
    invert_factors(Chunks chunks, Vectors<T> left, Vectors<T> right, T* scales, FaultWord* faults) {
  const Head head(chunks, blockIdx.x / chunks.most);
  const Index chunk = blockIdx.x % chunks.most;
  if (chunk >= head.count()) return;
  const int rows = head.rows(chunk), lane = static_cast<int>(threadIdx.x % warp_size);
  const int warps = static_cast<int>(blockDim.x / warp_size);
  for (int row = static_cast<int>(threadIdx.x / warp_size); row < rows; row += warps) {
    const Index place = head.place(chunk, row), size = chunks.size;
    const T alpha = left.scale(place), beta = right.scale(place);
    T product = 0, sizes = 0;
    for (Index i = lane; i < size; i += warp_size) {
      const T term = alpha * beta * left.vectors[place * size + i] * right.vectors[place * size + i];
      product += term;
      sizes += fabs(term);
    }
    const T determinant = 1 + warp_sum(product);
    sizes = warp_sum(sizes);
    if (lane != 0) continue;
    // No larger than its own rounding, as on the CPU.
    const bool exists = fabs(determinant) > 4 * std::numeric_limits<T>::epsilon() * (1 + sizes);
    if (!exists) report_fault(faults, Fault::factor_without_inverse, place);
    scales[place] = exists ? -alpha / determinant : T{0};
  }
}

template <class T>
Vectors<T> vectors_of(TensorView<const T> vectors, TensorView<const T> scales) {
  return {vectors.data(), data_or_null(scales), T{1}};
}

/// Sizes, and the vectors as kernels read them.
template <class T>
class Chain : public ChunkKernels<T> {
 public:
  Chain(const RankOneChainInput<T>& input, const TokenLayout& layout, const RankOneChainOptions& options,
        Device device)
      : ChunkKernels<T>(device, layout, input.left.shape()[1], input.left.shape()[2],
                        factors_of(context(device), input.left.shape()[2], options)),
        left(vectors_of(input.left, input.left_scales)),
        right(vectors_of(input.right, input.right_scales)),
        columns_(input.initial_states.shape()[3]) {}

  const Vectors<T> left, right;

  Shape inverses() const { return this->of_chunks(this->chunks.factors, this->chunks.factors); }
  Shape states() const { return this->of_chunks(this->chunks.size, columns_); }
  Shape updates() const { return this->of_chunks(this->chunks.factors, columns_); }

  template <bool is_backward>
  void launch_sweep(const Sweep<T>& a) const {
    const int factors = this->chunks.factors;
    const int tile = static_cast<int>(std::min<Index>(columns_, widest(factors)));
    const Index tiles = columns_ == 0 ? 0 : (columns_ - 1) / tile + 1;
    this->launch_blocks(sweep<is_backward, T>, this->pairs * tiles,
                        memory_of_sweep(this->chunks.size, factors, tile), a, columns_, tile);
  }
  void launch_gather(const Kept<T>& kept, const VectorGradients<T>& d_left,
                     const VectorGradients<T>& d_right) const {
    this->launch_chunks(gather<T>, memory_of_gather(this->chunks.factors), left, right, kept, columns_,
                        d_left, d_right);
  }
  /// `input` has the vectors of which this is the mirrored chain.
  void launch_invert_factors(const RankOneChainInput<T>& input, T* scales, FaultWord* faults) const {
    this->launch_chunks(invert_factors<T>, 0, vectors_of(input.left, input.left_scales),
                        vectors_of(input.right, input.right_scales), scales, faults);
  }

 private:
  /// Columns of a block: fewer where vectors are so long that a chunk has few factors.
  static Index widest(Index factors) { return std::clamp<Index>(factors, fewest_columns, most_columns); }

  /// Numbers in shared memory.
  static Index memory_of_sweep(Index size, Index factors, Index columns) {
    return size * columns + factors * (size + 1) + 2 * factors * columns + factors * factors;
  }
  static Index memory_of_gather(Index factors) {
    return factors * factors + 2 * (factors + slice) * column_stride + 4 * factors * slice_stride +
           2 * factors;
  }
  static int factors_of(const Context& gpu, Index size, const RankOneChainOptions& options) {
    return factors_of_chunk<T>(gpu, options.chunk, size, "factors of a chain", [&](Index factors) {
      return std::max({memory_of_sweep(size, factors, widest(factors)), memory_of_gather(factors),
                       memory_of_couple(factors, false)});
    });
  }

  Index columns_;
};

}  // namespace

template <class T>
void rank_one_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                    const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                    bool keep, Saved& saved) {
  const Chain<T> chain(input, layout, options, saved.device());
  const TensorView<T> inverses = saved.push<T>(chain.inverses());
  TensorView<T> states, updates;
  if (keep) {
    states = saved.push<T>(chain.states());
    updates = saved.push<T>(chain.updates());
  }
  chain.launch_couple(chain.left, chain.right, {}, {inverses.data(), nullptr});
  chain.template launch_sweep<false>({.first = chain.right,
                                      .second = chain.left,
                                      .inverses = inverses.data(),
                                      .start = input.initial_states.data(),
                                      .finish = data_or_null(final_states),
                                      .added = nullptr,
                                      .results = outputs.data(),
                                      .states = states.data(),
                                      .updates = updates.data()});
}

template <class T>
SavedMemory memory_of_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, Device device) {
  const Chain<T> chain(input, layout, options, device);
  const auto bytes = [](const Shape& shape) { return Saved::bytes_of(shape, sizeof(T)); };
  const std::size_t inverses = bytes(chain.inverses()),
                    others = bytes(chain.states()) + bytes(chain.updates());
  return {.kept = inverses + others, .keeping = 0, .forward = inverses, .backward = others};
}

template <class T>
void push_kept_of_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                        const RankOneChainOptions& options, Saved& saved) {
  const Chain<T> chain(input, layout, options, saved.device());
  for (const Shape& shape : {chain.inverses(), chain.states(), chain.updates()}) saved.push<T>(shape);
}

template <class T>
void rank_one_chain_backward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                             const RankOneChainOptions& options, const RankOneChainGradients<T>& gradients,
                             Saved& saved) {
  const Chain<T> chain(input, layout, options, saved.device());
  const TensorView<T> inverses = saved.top<T>(2), states = saved.top<T>(1), updates = saved.top<T>(0);
  check_shape("inverses that the forward kept", inverses.shape(), chain.inverses());
  check_shape("states that the forward kept", states.shape(), chain.states());
  check_shape("updates that the forward kept", updates.shape(), chain.updates());
  {
    const Saved::Scope scope(saved);
    const TensorView<T> d_states = saved.push<T>(chain.states()),
                        d_right_sides = saved.push<T>(chain.updates());
    chain.template launch_sweep<true>({.first = chain.left,
                                       .second = chain.right,
                                       .inverses = inverses.data(),
                                       .start = data_or_null(gradients.d_final_states),
                                       .finish = data_or_null(gradients.d_initial_states),
                                       .added = gradients.d_outputs.data(),
                                       .results = nullptr,
                                       .states = d_states.data(),
                                       .updates = d_right_sides.data()});
    chain.launch_gather({.states = states.data(),
                         .d_states = d_states.data(),
                         .updates = updates.data(),
                         .d_right_sides = d_right_sides.data()},
                        {gradients.d_left.data(), data_or_null(gradients.d_left_scales)},
                        {gradients.d_right.data(), data_or_null(gradients.d_right_scales)});
  }
  saved.pop(3);
}

template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch) {
  const Shape vectors = input.left.shape(), states = inverses.shape();
  const Index heads = vectors[1], size = vectors[2];
  const Saved::Scope scope(scratch);
  // s^-1 = r with r_t = r_{t-1} (I + c q' k^T), c = -alpha / (1 + q^T k): the mirrored chain, which is that
  // of r^T with left and right exchanged.
  const TensorView<T> scales = scratch.push<T>({vectors[0], heads}), outputs = scratch.push<T>(vectors),
                      transposed = scratch.push<T>(states);
  const Context& gpu = context(scratch.device());
  const RankOneChainInput<T> mirrored{.left = input.right,
                                      .right = input.left,
                                      .left_scales = input.right_scales,
                                      .right_scales = scales,
                                      .initial_states = transposed};
  const Chain<T> chain(mirrored, layout, options, scratch.device());
  chain.launch_invert_factors(input, scales.data(), gpu.faults());
  T* const start = transposed.data();
  for_each(gpu, states.count(), [=] __device__(Index i) { start[i] = i / size % size == i % size; });
  cuda::rank_one_chain<T>(mirrored, layout, options, outputs, transposed, false, scratch);
  const T* const from = transposed.data();
  T* const to = inverses.data();
  for_each(gpu, states.count(), [=] __device__(Index i) {
    const Index row = i / size % size, column = i % size;
    to[i] = from[i + (column - row) * (size - 1)];
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void rank_one_chain<T>(const RankOneChainInput<T>&, const TokenLayout&,                         \
                                  const RankOneChainOptions&, TensorView<T>, TensorView<T>, bool, Saved&); \
  template void rank_one_chain_backward<T>(const RankOneChainInput<T>&, const TokenLayout&,                \
                                           const RankOneChainOptions&, const RankOneChainGradients<T>&,    \
                                           Saved&);                                                        \
  template SavedMemory memory_of_chain<T>(const RankOneChainInput<T>&, const TokenLayout&,                 \
                                          const RankOneChainOptions&, Device);                             \
  template void push_kept_of_chain<T>(const RankOneChainInput<T>&, const TokenLayout&,                     \
                                      const RankOneChainOptions&, Saved&);                                 \
  template void rank_one_chain_inverse<T>(const RankOneChainInput<T>&, const TokenLayout&,                 \
                                          const RankOneChainOptions&, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
