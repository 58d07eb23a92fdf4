#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "cuda/delta/chunked_delta_product.hpp"
#include "cuda/delta/chunked_kernels.cuh"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

/// Chunks of a segment at least, unless a caller asks for shorter ones.
constexpr Index shortest_segment = 16;
constexpr Index largest_grid = 65535;

[[noreturn]] void refuse(const char* what, Index found, Index most) {
  throw ValueError("a delta product in chunks on a GPU was given " + std::to_string(found) + " " + what +
                   "; expected at most " + std::to_string(most) + ", or ask for the recurrent form");
}

/// Calls body(kernels) for the kind of product and the size of the keys.
template <class T, class Body>
void with_kernels(Index key, Precision precision, const Body& body) {
  const auto with_size = [&](auto product) {
    using Product = decltype(product);
    if (key <= 64) return body(ChunkedKernels<Product, 64>());
    if (key <= 128) return body(ChunkedKernels<Product, 128>());
    return body(ChunkedKernels<Product, 256>());
  };
  if constexpr (std::is_same_v<T, bfloat16>) {
    with_size(Bfloat16Product());
  } else if (precision == Precision::fp32) {
    with_size(FloatProduct<true>());
  } else {
    with_size(FloatProduct<false>());
  }
}

/// Sizes of chunks, and of what is kept of them.
template <class T>
struct ChunkPlan {
  ChunkSizes sizes;
  int padded_key, most_steps, scale_count;
  Index slots, group_slots, segment_slots;

  explicit ChunkPlan(const DeltaWork<T>& work) {
    const auto [factors, heads, key, value] = work.sizes;
    const TokenLayout& layout = work.layout;
    constexpr Index longest_key = 256;
    if (key > longest_key) refuse("numbers a key", key, longest_key);
    if (heads > largest_grid) refuse("heads", heads, largest_grid);
    if (layout.size() > largest_grid) refuse("sequences", layout.size(), largest_grid);
    int grouped = 1;
    with_kernels<T>(key, work.options.precision,
                    [&]<class Product, int padded>(ChunkedKernels<Product, padded>) {
                      padded_key = padded;
                      most_steps = chunk_steps<Product, padded>;
                      grouped = gathered_chunks<Product, padded>;
                      scale_count = ChunkScales<chunk_steps<Product, padded>>::count;
                    });
    if (factors > most_steps) refuse("factors a token", factors, most_steps);
    // Rows of a chunk are counted by int, and a row has heads times the size of a vector.
    constexpr Index largest = std::numeric_limits<int>::max() - 63;
    if (heads * std::max(key, value) > largest)
      refuse("numbers a factor", heads * std::max(key, value), largest);
    for (Index b = 0; b < layout.size(); ++b) {
      if (layout[b].stride > largest / (2 * most_steps))
        refuse("rows from a token to the next", layout[b].stride, largest / (2 * most_steps));
    }
    const Index wanted = work.options.chunk == 0 ? DeltaProductOptions::gpu_chunk : work.options.chunk;
    static_cast<BasicDeltaSizes<int>&>(sizes) = work.sizes.template as<int>();
    sizes.tokens = static_cast<int>(std::max(Index{1}, std::min<Index>(wanted, most_steps) / factors));
    sizes.steps = sizes.tokens * sizes.factors;
    sizes.padded_tokens = pad_tokens(sizes.tokens);
    sizes.padded_value = static_cast<int>((value + 63) / 64 * 64);
    sizes.reciprocal = static_cast<unsigned>((65536 + factors - 1) / factors);
    set_segments(work);
    const Index numbers = layout.tokens() / sizes.tokens + layout.size();
    slots = numbers * heads;
    group_slots = group_count(grouped, numbers, layout.size()) * heads;
    segment_slots = layout.size() * heads * sizes.segments;
  }

  Shape scales() const { return {slots, scale_count}; }
  Shape inverses() const { return {slots, most_steps, most_steps}; }
  Shape scores() const { return {slots, sizes.padded_tokens, most_steps}; }
  Shape errors() const { return {slots, sizes.padded_value, most_steps}; }
  Shape states() const { return {group_slots, sizes.padded_value, padded_key}; }
  Shape segment_states() const { return {segment_slots, sizes.padded_value, padded_key}; }
  Shape segment_maps() const { return {segment_slots, padded_key, map_pitch(padded_key)}; }
  bool is_split() const { return sizes.segments > 1; }
  /// What a forward keeps: scales, inverses, scores, errors, states and the maps of several segments.
  Index kept_tensors() const { return is_split() ? 6 : 5; }
  /// Pushes these, and in a forward without a backward all but errors and states.
  void push(Saved& saved, bool keep, ChunkedArguments<T>& to) const {
    to.scales = saved.push<float>(scales()).data();
    to.inverse = saved.push<T>(inverses()).data();
    to.scores = saved.push<T>(scores()).data();
    if (keep) {
      to.errors = saved.push<T>(errors()).data();
      to.states = saved.push<T>(states()).data();
    }
    if (is_split()) to.segment_maps = saved.push<float>(segment_maps()).data();
  }

 private:
  void set_segments(const DeltaWork<T>& work) {
    const TokenLayout& layout = work.layout;
    // A block that goes from chunk to chunk has a multiprocessor for itself.
    const Index chunks = (layout.longest() + sizes.tokens - 1) / sizes.tokens,
                blocks = layout.size() * sizes.heads * sizes.padded_value / 64;
    Index wanted = work.options.segments;
    if (wanted == 0)
      wanted = std::min(context(work.saved.device()).multiprocessors() / std::max(blocks, Index{1}),
                        chunks / shortest_segment);
    const bool splits = padded_key <= longest_split_key && chunks > 0;
    const Index most = splits ? std::min(chunks, largest_grid / layout.size()) : 1,
                parts = std::clamp<Index>(wanted, 1, most);
    sizes.segment_chunks = std::max(Index{1}, (chunks + parts - 1) / parts);
    sizes.segments =
        static_cast<int>(std::max(Index{1}, (chunks + sizes.segment_chunks - 1) / sizes.segment_chunks));
  }
};

/// Calls body(kernels, grid) unless there is nothing to compute.
template <class T, class Body>
void with_grid(const DeltaWork<T>& work, const Body& body) {
  const TokenLayout& layout = work.layout;
  if (layout.size() == 0 || work.sizes.heads == 0 || work.sizes.value == 0) return;
  with_kernels<T>(work.sizes.key, work.options.precision, [&](auto kernels) {
    body(kernels, ChunkedGrid{.sequences = layout.size(), .longest = layout.longest()});
  });
}

}  // namespace

bool has_chunked_kernels(Device device) {
  // Clusters came with the instructions that move matrices to shared memory.
  return context(device).has_clusters();
}

template <class T>
void chunked_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  Saved& saved = work.saved;
  const ChunkPlan<T> plan(work);
  ChunkedArguments<T> a(work, plan.sizes);
  plan.push(saved, results.keep, a);
  if (plan.is_split()) {
    a.segment_states = saved.push<float>(plan.segment_states()).data();
    // Only the kernels of this call read the states of segments. Whatever comes to their place comes after
    // them.
    saved.pop(1);
  }
  a.outputs = results.outputs.data();
  a.aligned_outputs = are_vectors(results.outputs);
  a.final_states = data_or_null(results.final_states);
  with_grid(work, [&](auto kernels, const ChunkedGrid& grid) {
    kernels.forward(context(saved.device()), grid, a);
  });
}

template <class T>
void chunked_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  Saved& saved = work.saved;
  const ChunkPlan<T> plan(work);
  ChunkedArguments<T> a(work, plan.sizes);
  Index below = 0;
  const auto find = [&]<class U>(const char* name, const Shape& shape, U*& to) {
    const TensorView<U> found = saved.top<U>(below++);
    check_shape(name, found.shape(), shape);
    to = found.data();
  };
  if (plan.is_split()) find("maps that the forward kept", plan.segment_maps(), a.segment_maps);
  find("states that the forward kept", plan.states(), a.states);
  find("errors that the forward kept", plan.errors(), a.errors);
  find("scores that the forward kept", plan.scores(), a.scores);
  find("inverses that the forward kept", plan.inverses(), a.inverse);
  find("scales that the forward kept", plan.scales(), a.scales);
  {
    const Saved::Scope scope(saved);
    ChunkedGradients<T> g(gradients);
    g.d_errors = saved.push<T>(plan.errors()).data();
    g.d_states = saved.push<T>(plan.states()).data();
    if (plan.is_split()) g.d_segment_states = saved.push<float>(plan.segment_states()).data();
    a.aligned_values = are_vectors(gradients.d_outputs);
    a.aligned_outputs = are_vectors(gradients.d_values);
    a.aligned_gradients = are_vectors(gradients.d_keys) && are_vectors(gradients.d_queries);
    if (work.sizes.value == 0) {
      // Nothing depends on the inputs, and no kernel has anything to do.
      const auto set_zero = [&](const auto& tensor) {
        const auto bytes = static_cast<std::size_t>(tensor.size()) * sizeof(tensor.data()[0]);
        if (bytes > 0) check(cudaMemsetAsync(tensor.data(), 0, bytes, context(saved.device()).stream()));
      };
      set_zero(gradients.d_queries);
      set_zero(gradients.d_keys);
      set_zero(gradients.d_betas);
      set_zero(gradients.d_log_decays);
    }
    with_grid(work, [&](auto kernels, const ChunkedGrid& grid) {
      kernels.backward(context(saved.device()), grid, a, g);
    });
  }
  saved.pop(plan.kept_tensors());
}

template <class T>
SavedMemory memory_of_chunks(const DeltaWork<T>& work) {
  const ChunkPlan<T> plan(work);
  const auto vectors = [](const Shape& shape) { return Saved::bytes_of(shape, sizeof(T)); };
  const auto floats = [](const Shape& shape) { return Saved::bytes_of(shape, sizeof(float)); };
  const std::size_t maps = plan.is_split() ? floats(plan.segment_maps()) : 0,
                    between = plan.is_split() ? floats(plan.segment_states()) : 0,
                    of_states = vectors(plan.errors()) + vectors(plan.states()),
                    coupled =
                        floats(plan.scales()) + vectors(plan.inverses()) + vectors(plan.scores()) + maps;
  return {.kept = coupled + of_states,
          .keeping = between,
          .forward = coupled + between,
          .backward = of_states + between};
}

template <class T>
void push_kept_chunks(const DeltaWork<T>& work) {
  const ChunkPlan<T> plan(work);
  ChunkedArguments<T> unused(work, plan.sizes);
  plan.push(work.saved, true, unused);
}

#define ORTHORNN_INSTANTIATE(T)                                                                          \
  template void chunked_delta_product<T>(const DeltaWork<T>&, const DeltaResults<T>&);                   \
  template void chunked_delta_product_backward<T>(const DeltaWork<T>&, const DeltaProductGradients<T>&); \
  template SavedMemory memory_of_chunks<T>(const DeltaWork<T>&);                                         \
  template void push_kept_chunks<T>(const DeltaWork<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
