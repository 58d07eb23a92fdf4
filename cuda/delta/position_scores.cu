// Scores with Householder positions, in chunks (cuda/delta/factor_chunks.cuh). The factors I - beta w w^T act
// on each key alone. So a block carries the keys of one chunk through the chunks of factors from there on, as
// a chain of factors I + q k^T with q = -beta w and k = w. Four kernels:
//
//   couple    a block for each chunk and head: the inverse N of the coupling, and the meetings G of w and c q
//   carry     a block for each chunk of keys P [C, D] and head. Through each chunk of tokens, its own first:
//               1. right sides R = W P^T       2. u = N^T R, steps Y = -beta u
//               3. scores = (c Q) P^T + G^T Y  4. P += Y^T W
//   retreat   the same backward, with dP. From the last chunk of tokens to its own:
//               1. R and u as above            2. du = -beta (W dP^T + G dscores)
//               3. dR = N du                   4. dP += dscores^T (c Q) + dR^T W
//   gather    a block for each chunk of tokens and head: gradients of queries, vectors and betas, which are
//             sums over all chunks of keys that came. B = u dR^T above the diagonal and A = u dscores^T from
//             the diagonal on are the gradients of products q . w and q . (c query):
//               d(c Q) = dscores P + A^T q     dq = u dP + B W + A (c Q)
//               dW (as k) = dR P + B^T q       dw = dW - beta dq          dbeta = -w . dq
//
// In the chunk of the keys themselves, a factor acts on the keys before its token: R is 0 but for r > key. A
// query meets the keys up to its token.

#include "cuda/delta/factor_chunks.cuh"
#include "cuda/delta/position_scores.hpp"

namespace orthornn::cuda {
namespace {

using namespace factors;

template <class T>
struct Arguments {
  Vectors<T> queries, keys, vectors;
  const T* betas;
  Coupled<T> coupled;
  /// Keys before each chunk of tokens [pairs of chunks, H, C, D], or null.
  T* carried;
  /// Of rows and columns of scores.
  Index length;
};

/// What `retreat` writes for `gather`, for each pair of chunks: gradients of the keys after the chunk of
/// tokens [pairs, H, C, D], u and dR [pairs, H, C, C].
template <class T>
struct Returned {
  T* d_carried;
  T* updates;
  T* d_right_sides;
};

/// No two pairs of a chunk of tokens and a chunk of keys at or before it, in one sequence, have the same
/// number below this.
inline Index count_pairs(const TokenLayout& layout, int factors) {
  const Index most = (layout.longest() + factors - 1) / factors;
  return (count_numbers(layout, factors) * (most + 1) + 1) / 2;
}

/// The place of a pair in a tensor [pairs, H, ..]. A sequence of n chunks has n (n + 1) / 2 pairs, no more
/// than n (most + 1) / 2.
__device__ __forceinline__ Index slot_of_pair(const Head& head, Index tokens, Index keys) {
  const Index first = (head.first_number * (head.chunks.most + 1) + 1) / 2;
  return (first + tokens * (tokens + 1) / 2 + keys) * head.chunks.heads + head.head;
}

/// Whether a key of a chunk is reached by the factor of token `row` of a chunk, and met by its query.
__device__ __forceinline__ bool is_reached(Index tokens, Index keys, int row, int key) {
  return tokens > keys || row > key;
}
__device__ __forceinline__ bool is_met(Index tokens, Index keys, int row, int key) {
  return tokens > keys || row >= key;
}

/// Of a score in a tensor [B, H, length, length].
__device__ __forceinline__ Index place_of_score(const Head& head, Index length, Index tokens, int row,
                                                Index keys, int key) {
  const int count = head.chunks.factors;
  return (head.pair * length + tokens * count + row) * length + keys * count + key;
}

/// Loads -beta of each row, with zeros where there is none.
template <class T>
__device__ __forceinline__ void load_factors(T* to, const T* betas, const Head& head, Index chunk) {
  const int rows = head.rows(chunk);
  for_each_entry(head.chunks.factors, 1,
                 [&](int r, int) { to[r] = r < rows ? -betas[head.place(chunk, r)] : T{0}; });
}

/// A chunk of tokens in shared memory.
template <class T>
struct TokenChunk {
  SharedMatrix<T> vectors, queries, inverse, meeting;

  __device__ __forceinline__ TokenChunk(SharedMatrices<T>& shared, const Chunks& chunks)
      : vectors(shared.take(chunks.factors, odd(chunks.size))),
        queries(shared.take(chunks.factors, odd(chunks.size))),
        inverse(shared.take(chunks.factors, chunks.factors)),
        meeting(shared.take(chunks.factors, chunks.factors)) {}
  __device__ __forceinline__ void load(const Arguments<T>& a, const Head& head, Index chunk,
                                       T* factor) const {
    const int size = head.chunks.size, count = head.chunks.factors;
    load_vectors(vectors, a.vectors, head, chunk, 0, size);
    load_vectors(queries, a.queries, head, chunk, 0, size);
    load_kept(inverse, a.coupled.inverses + head.slot(chunk) * count * count, count, count);
    load_kept(meeting, a.coupled.meetings + head.slot(chunk) * count * count, count, count);
    load_factors(factor, a.betas, head, chunk);
  }
};

template <class T>
__global__ void __launch_bounds__(threads) carry(Chunks chunks, Arguments<T> a, T* scores) {
  const Head head(chunks, blockIdx.x / chunks.most);
  const Index own = blockIdx.x % chunks.most, all = head.count();
  if (own >= all) return;
  const int size = chunks.size, count = chunks.factors, key_stride = odd(count);
  const int own_rows = head.rows(own);
  SharedMatrices<T> shared;
  const SharedMatrix<T> keys = shared.take(count, odd(size));
  const TokenChunk<T> tokens(shared, chunks);
  const SharedMatrix<T> products = shared.take(count, key_stride), steps = shared.take(count, key_stride),
                        scored = shared.take(count, key_stride);
  T* const factor = shared.take_numbers(count);

  load_vectors(keys, a.keys, head, own, 0, size);
  for (Index chunk = own; chunk < all; ++chunk) {
    const int rows = head.rows(chunk);
    __syncthreads();
    if (a.carried != nullptr) {
      T* const to = a.carried + slot_of_pair(head, chunk, own) * count * size;
      for_each_entry(count, size, [&](int key, int k) { to[key * size + k] = keys(key, k); });
    }
    tokens.load(a, head, chunk, factor);
    __syncthreads();
    // 1., and the first part of 3.
    multiply<2, 2, T>(count, count, size, tokens.vectors, keys.transposed(), [&](int r, int key, T sum) {
      products(r, key) = is_reached(chunk, own, r, key) ? sum : T{0};
    });
    multiply<2, 2, T>(count, count, size, tokens.queries, keys.transposed(), scored.put());
    __syncthreads();
    // 2.
    multiply<2, 2, T>(count, count, count, tokens.inverse.transposed(), products,
                      [&](int r, int key, T sum) { steps(r, key) = factor[r] * sum; });
    __syncthreads();
    // 3.
    multiply<2, 2, T>(count, count, count, tokens.meeting.transposed(), steps, [&](int t, int key, T sum) {
      if (t < rows && key < own_rows && is_met(chunk, own, t, key))
        scores[place_of_score(head, a.length, chunk, t, own, key)] = scored(t, key) + sum;
    });
    // 4.
    multiply<4, 4, T>(count, size, count, steps.transposed(), tokens.vectors, keys.add());
  }
}

/// Loads the gradients of a pair's scores, with zeros where there is no score.
template <class T>
__device__ __forceinline__ void load_score_gradients(SharedMatrix<T> to, const T* d_scores, Index length,
                                                     const Head& head, Index tokens, Index keys) {
  const int count = head.chunks.factors, rows = head.rows(tokens), key_rows = head.rows(keys);
  for_each_entry(count, count, [&](int t, int key) {
    const bool exists = t < rows && key < key_rows && is_met(tokens, keys, t, key);
    to(t, key) = exists ? d_scores[place_of_score(head, length, tokens, t, keys, key)] : T{0};
  });
}

template <class T>
__global__ void __launch_bounds__(threads)
    retreat(Chunks chunks, Arguments<T> a, const T* d_scores, Returned<T> to, T* d_keys) {
  const Head head(chunks, blockIdx.x / chunks.most);
  const Index own = blockIdx.x % chunks.most, all = head.count();
  if (own >= all) return;
  const int size = chunks.size, count = chunks.factors, key_stride = odd(count);
  SharedMatrices<T> shared;
  const SharedMatrix<T> d_carried = shared.take(count, odd(size)), keys = shared.take(count, odd(size));
  const TokenChunk<T> tokens(shared, chunks);
  const SharedMatrix<T> products = shared.take(count, key_stride), d_updates = shared.take(count, key_stride),
                        d_scored = shared.take(count, key_stride);
  T* const factor = shared.take_numbers(count);

  for_each_entry(count, size, [&](int key, int k) { d_carried(key, k) = 0; });
  for (Index chunk = all; chunk-- > own;) {
    const Index pair = slot_of_pair(head, chunk, own);
    T* const updates = to.updates + pair * count * count;
    T* const d_right_sides = to.d_right_sides + pair * count * count;
    __syncthreads();
    for_each_entry(count, size, [&](int key, int k) {
      const Index place = (pair * count + key) * size + k;
      to.d_carried[place] = d_carried(key, k);
      keys(key, k) = a.carried[place];
    });
    tokens.load(a, head, chunk, factor);
    load_score_gradients(d_scored, d_scores, a.length, head, chunk, own);
    __syncthreads();
    // 1. and 2.
    multiply<2, 2, T>(count, count, size, tokens.vectors, keys.transposed(), [&](int r, int key, T sum) {
      products(r, key) = is_reached(chunk, own, r, key) ? sum : T{0};
    });
    multiply<2, 2, T>(count, count, size, tokens.vectors, d_carried.transposed(), d_updates.put());
    multiply<2, 2, T>(count, count, count, tokens.meeting, d_scored, [&](int r, int key, T sum) {
      T& d_update = d_updates(r, key);
      d_update = factor[r] * (d_update + sum);
    });
    __syncthreads();
    multiply<2, 2, T>(count, count, count, tokens.inverse.transposed(), products,
                      [&](int r, int key, T sum) { updates[r * count + key] = sum; });
    __syncthreads();
    // 3. Right sides that are 0 have a gradient too, of which `gather` makes that of the coupling.
    multiply<2, 2, T>(count, count, count, tokens.inverse, d_updates, [&](int r, int key, T sum) {
      d_right_sides[r * count + key] = sum;
      products(r, key) = is_reached(chunk, own, r, key) ? sum : T{0};
    });
    __syncthreads();
    // 4.
    multiply<4, 4, T>(count, size, count, d_scored.transposed(), tokens.queries, d_carried.add());
    multiply<4, 4, T>(count, size, count, products.transposed(), tokens.vectors, d_carried.add());
  }
  __syncthreads();
  for_each_entry(head.rows(own), size,
                 [&](int key, int k) { d_keys[head.place(own, key) * size + k] = d_carried(key, k); });
}

template <class T>
struct TokenGradients {
  T* queries;
  T* vectors;
  T* betas;
};

/// The shared memory of `gather`.
template <class T>
struct GatherMatrices {
  /// B and A.
  SharedMatrix<T> of_factors, of_queries;
  /// u, dR and dscores of a pair of chunks.
  SharedMatrix<T> updates, d_right_sides, d_scored;
  /// A slice of the keys P and of dP, of the tokens' vectors w and c Q, and of the gradients dq, dW and d(c
  /// Q).
  SharedMatrix<T> keys, d_carried, vectors, queries, d_left, d_right, d_queries;
  /// -beta, and w . dq.
  T *factor, *sums;

  __device__ __forceinline__ GatherMatrices(SharedMatrices<T> shared, int count)
      : of_factors(shared.take(count, count)),
        of_queries(shared.take(count, count)),
        updates(shared.take(count, odd(count))),
        d_right_sides(shared.take(count, odd(count))),
        d_scored(shared.take(count, odd(count))),
        keys(shared.take(count, slice_stride)),
        d_carried(shared.take(count, slice_stride)),
        vectors(shared.take(count, slice_stride)),
        queries(shared.take(count, slice_stride)),
        d_left(shared.take(count, slice_stride)),
        d_right(shared.take(count, slice_stride)),
        d_queries(shared.take(count, slice_stride)),
        factor(shared.take_numbers(count)),
        sums(shared.take_numbers(count)) {}
};

/// The parts of `gather`.
template <class T>
struct Gather {
  const Head& head;
  const GatherMatrices<T>& m;
  const Arguments<T>& a;
  const T* d_scores;
  const Returned<T>& returned;
  Index chunk;

  /// Calls load(number of the pair) and body(chunk of keys) for the chunks of keys that came, with `updates`,
  /// `d_right_sides` and `d_scored` of the pair.
  template <class Load, class Body>
  __device__ __forceinline__ void for_each_chunk_of_keys(const Load& load, const Body& body) const {
    const int count = head.chunks.factors;
    for (Index own = 0; own <= chunk; ++own) {
      const Index pair = slot_of_pair(head, chunk, own);
      __syncthreads();
      load_kept(m.updates, returned.updates + pair * count * count, count, count);
      load_kept(m.d_right_sides, returned.d_right_sides + pair * count * count, count, count);
      load_score_gradients(m.d_scored, d_scores, a.length, head, chunk, own);
      load(pair);
      __syncthreads();
      body(own);
    }
    __syncthreads();
  }
  /// B = u dR^T above the diagonal, and A = u dscores^T from the diagonal on.
  __device__ __forceinline__ void multiply_updates() const {
    const int count = head.chunks.factors;
    for_each_entry(count, count, [&](int s, int r) { m.of_factors(s, r) = m.of_queries(s, r) = 0; });
    for_each_chunk_of_keys([](Index) {},
                           [&](Index) {
                             multiply<2, 2, T>(count, count, count, m.updates, m.d_right_sides.transposed(),
                                               [&](int s, int r, T sum) {
                                                 if (s < r) m.of_factors(s, r) += sum;
                                               });
                             multiply<2, 2, T>(count, count, count, m.updates, m.d_scored.transposed(),
                                               [&](int r, int t, T sum) {
                                                 if (r <= t) m.of_queries(r, t) += sum;
                                               });
                           });
  }
  /// Loads a slice of the tokens' vectors:  dq = A (c Q) + B W,  dW = B^T q,  d(c Q) = A^T q.
  __device__ __forceinline__ void multiply_tokens(int first, int width) const {
    const int count = head.chunks.factors;
    load_vectors(m.vectors, a.vectors, head, chunk, first, width);
    load_vectors(m.queries, a.queries, head, chunk, first, width);
    __syncthreads();
    multiply<4, 2, T>(count, width, count, m.of_queries, m.queries, m.d_left.put());
    multiply<4, 2, T>(count, width, count, m.of_factors, m.vectors, m.d_left.add());
    multiply<4, 2, T>(
        count, width, count, [&](int r, int s) { return m.of_factors(s, r) * m.factor[s]; }, m.vectors,
        m.d_right.put());
    multiply<4, 2, T>(
        count, width, count, [&](int t, int r) { return m.of_queries(r, t) * m.factor[r]; }, m.vectors,
        m.d_queries.put());
  }
  /// dq += u dP,  dW += dR P,  d(c Q) += dscores P.
  __device__ __forceinline__ void add_keys(int first, int width) const {
    const int count = head.chunks.factors, size = head.chunks.size;
    for_each_chunk_of_keys(
        [&](Index pair) {
          for_each_entry(count, width, [&](int key, int i) {
            const Index place = (pair * count + key) * size + first + i;
            m.keys(key, i) = a.carried[place];
            m.d_carried(key, i) = returned.d_carried[place];
          });
        },
        [&](Index own) {
          const auto d_reached = [&](int r, int key) {
            return is_reached(chunk, own, r, key) ? m.d_right_sides(r, key) : T{0};
          };
          multiply<4, 2, T>(count, width, count, m.updates, m.d_carried, m.d_left.add());
          multiply<4, 2, T>(count, width, count, d_reached, m.keys, m.d_right.add());
          multiply<4, 2, T>(count, width, count, m.d_scored, m.keys, m.d_queries.add());
        });
  }
  /// Writes a slice of the gradients of vectors and queries, and adds its products w . dq.
  __device__ __forceinline__ void write(const TokenGradients<T>& to, int first, int width) const {
    const int rows = head.rows(chunk);
    add_row_products(m.sums, rows, width, m.vectors, m.d_left);
    for_each_entry(rows, width, [&](int r, int i) {
      const Index place = head.place(chunk, r) * head.chunks.size + first + i;
      to.vectors[place] = m.d_right(r, i) + m.factor[r] * m.d_left(r, i);
      to.queries[place] = a.queries.factor * m.d_queries(r, i);
    });
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    gather(Chunks chunks, Arguments<T> a, const T* d_scores, Returned<T> returned, TokenGradients<T> to) {
  const Head head(chunks, blockIdx.x / chunks.most);
  // Late chunks meet more keys, so they begin first.
  const Index chunk = chunks.most - 1 - blockIdx.x % chunks.most;
  if (chunk >= head.count()) return;
  const GatherMatrices<T> m(SharedMatrices<T>(), chunks.factors);
  const Gather<T> of_chunk{head, m, a, d_scores, returned, chunk};
  for_each_entry(chunks.factors, 1, [&](int r, int) { m.sums[r] = 0; });
  load_factors(m.factor, a.betas, head, chunk);
  of_chunk.multiply_updates();
  for (int first = 0; first < chunks.size; first += slice) {
    const int width = min(slice, chunks.size - first);
    of_chunk.multiply_tokens(first, width);
    of_chunk.add_keys(first, width);
    of_chunk.write(to, first, width);
    __syncthreads();
  }
  for_each_entry(head.rows(chunk), 1, [&](int r, int) { to.betas[head.place(chunk, r)] = -m.sums[r]; });
}

/// Numbers in shared memory.
Index memory_of_carry(Index size, Index factors) {
  return 3 * factors * (size + 1) + 2 * factors * factors + 3 * factors * (factors + 1) + factors;
}
Index memory_of_retreat(Index size, Index factors) {
  return 4 * factors * (size + 1) + 2 * factors * factors + 3 * factors * (factors + 1) + factors;
}
Index memory_of_gather(Index factors) {
  return 2 * factors * factors + 3 * factors * (factors + 1) + 7 * factors * slice_stride + 2 * factors;
}

/// Sizes, and what kernels read.
template <class T>
class Scores : public ChunkKernels<T> {
 public:
  Scores(const PositionScoresInput<T>& input, const TokenLayout& layout, const PositionScoresOptions& options,
         Index length, Device device)
      : ChunkKernels<T>(device, layout, input.keys.shape()[1], input.keys.shape()[2],
                        factors_of(context(device), input.keys.shape()[2], options)),
        pairs_of_chunks_(count_pairs(layout, this->chunks.factors)) {
    arguments.queries = {input.queries.data(), nullptr, static_cast<T>(options.scale)};
    arguments.keys = {input.keys.data(), nullptr, T{1}};
    arguments.vectors = {input.vectors.data(), nullptr, T{1}};
    arguments.betas = input.betas.data();
    arguments.length = length;
  }

  Arguments<T> arguments{};

  /// Of inverses and meetings, of kept keys, and of the products of a pair.
  Shape coupled() const {
    return {2, this->numbers, this->chunks.heads, this->chunks.factors, this->chunks.factors};
  }
  Shape carried() const { return of_pairs(this->chunks.size); }
  Shape products() const { return of_pairs(this->chunks.factors); }
  void set_coupled(TensorView<T> both) { arguments.coupled = {both[0].data(), both[1].data()}; }

  void launch_forward(T* scores) const {
    const Vectors<T> left{arguments.vectors.vectors, arguments.betas, T{-1}};
    this->launch_couple(left, arguments.vectors, arguments.queries, arguments.coupled);
    this->launch_chunks(carry<T>, memory_of_carry(this->chunks.size, this->chunks.factors), arguments,
                        scores);
  }
  void launch_backward(const PositionScoresGradients<T>& gradients, const Returned<T>& returned) const {
    const T* const d_scores = gradients.d_scores.data();
    this->launch_chunks(retreat<T>, memory_of_retreat(this->chunks.size, this->chunks.factors), arguments,
                        d_scores, returned, gradients.d_keys.data());
    this->launch_chunks(
        gather<T>, memory_of_gather(this->chunks.factors), arguments, d_scores, returned,
        TokenGradients<T>{gradients.d_queries.data(), gradients.d_vectors.data(), gradients.d_betas.data()});
  }

 private:
  static int factors_of(const Context& gpu, Index size, const PositionScoresOptions& options) {
    return factors_of_chunk<T>(gpu, options.chunk, size, "keys", [&](Index factors) {
      return std::max(
          {memory_of_retreat(size, factors), memory_of_gather(factors), memory_of_couple(factors, true)});
    });
  }
  Shape of_pairs(Index columns) const {
    return {pairs_of_chunks_, this->chunks.heads, this->chunks.factors, columns};
  }

  Index pairs_of_chunks_;
};

}  // namespace

template <class T>
void position_scores(const PositionScoresInput<T>& input, const TokenLayout& layout,
                     const PositionScoresOptions& options, TensorView<T> scores, bool keep, Saved& saved) {
  Scores<T> all(input, layout, options, scores.shape()[2], saved.device());
  all.set_coupled(saved.push<T>(all.coupled()));
  if (keep) all.arguments.carried = saved.push<T>(all.carried()).data();
  all.launch_forward(scores.data());
}

template <class T>
void position_scores_backward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                              const PositionScoresOptions& options,
                              const PositionScoresGradients<T>& gradients, Saved& saved) {
  Scores<T> all(input, layout, options, gradients.d_scores.shape()[2], saved.device());
  const TensorView<T> coupled = saved.top<T>(1), carried = saved.top<T>(0);
  check_shape("inverses that the forward kept", coupled.shape(), all.coupled());
  check_shape("keys that the forward kept", carried.shape(), all.carried());
  all.set_coupled(coupled);
  all.arguments.carried = carried.data();
  {
    const Saved::Scope scope(saved);
    Returned<T> returned{};
    returned.d_carried = saved.push<T>(all.carried()).data();
    returned.updates = saved.push<T>(all.products()).data();
    returned.d_right_sides = saved.push<T>(all.products()).data();
    all.launch_backward(gradients, returned);
  }
  saved.pop(2);
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template void position_scores<T>(const PositionScoresInput<T>&, const TokenLayout&,                        \
                                   const PositionScoresOptions&, TensorView<T>, bool, Saved&);               \
  template void position_scores_backward<T>(const PositionScoresInput<T>&, const TokenLayout&,               \
                                            const PositionScoresOptions&, const PositionScoresGradients<T>&, \
                                            Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
