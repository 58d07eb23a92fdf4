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

/// Sizes that do not depend on the device.
template <class T>
struct Plan {
  int padded_key, steps, grouped, scale_count, tokens, padded_tokens, padded_value, segments;
  Index slots, group_slots, segment_chunks, segment_slots;

  Plan(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
       Device device) {
    const Shape keys = input.keys.shape();
    const Index factors = keys[1], heads = keys[2], key = keys[3], value = input.values.shape()[3];
    const auto refuse = [](const char* what, Index found, Index most) {
      throw ValueError("a delta product in chunks on a GPU was given " + std::to_string(found) + " " + what +
                       "; expected at most " + std::to_string(most) + ", or ask for the recurrent form");
    };
    constexpr Index longest_key = 256, largest_grid = 65535;
    if (key > longest_key) refuse("numbers a key", key, longest_key);
    if (heads > largest_grid) refuse("heads", heads, largest_grid);
    if (layout.size() > largest_grid) refuse("sequences", layout.size(), largest_grid);
    with_kernels<T>(key, options.precision, [&]<class Product, int padded>(ChunkedKernels<Product, padded>) {
      padded_key = padded;
      steps = chunk_steps<Product, padded>;
      grouped = gathered_chunks<Product, padded>;
      scale_count = ChunkScales<chunk_steps<Product, padded>>::count;
    });
    if (factors > steps) refuse("micro-steps a token", factors, steps);
    // Rows of a chunk are counted by int, and a row has heads times the size of a vector.
    constexpr Index largest = std::numeric_limits<int>::max() - 63;
    if (heads * std::max(key, value) > largest)
      refuse("numbers a micro-step", heads * std::max(key, value), largest);
    for (Index b = 0; b < layout.size(); ++b) {
      if (layout[b].stride > largest / (2 * steps))
        refuse("rows from a token to the next", layout[b].stride, largest / (2 * steps));
    }
    const Index wanted = options.chunk == 0 ? DeltaProductOptions::gpu_chunk : options.chunk;
    tokens = static_cast<int>(std::max(Index{1}, std::min<Index>(wanted, steps) / factors));
    padded_tokens = pad_tokens(tokens);
    padded_value = static_cast<int>((value + 63) / 64 * 64);
    const Index numbers = layout.tokens() / tokens + layout.size();
    slots = numbers * heads;
    group_slots = group_count(grouped, numbers, layout.size()) * heads;
    // A block that goes from chunk to chunk has a multiprocessor for itself.
    const Index chunks = (layout.longest() + tokens - 1) / tokens,
                blocks = layout.size() * heads * padded_value / 64;
    Index wanted_segments = options.segments;
    if (wanted_segments == 0)
      wanted_segments =
          std::min(context(device).multiprocessors() / std::max(blocks, Index{1}), chunks / shortest_segment);
    const bool splits = padded_key <= longest_split_key && chunks > 0;
    const Index most = splits ? std::min(chunks, largest_grid / layout.size()) : 1,
                parts = std::clamp<Index>(wanted_segments, 1, most);
    segment_chunks = std::max(Index{1}, (chunks + parts - 1) / parts);
    segments = static_cast<int>(std::max(Index{1}, (chunks + segment_chunks - 1) / segment_chunks));
    segment_slots = layout.size() * heads * segments;
  }

  Shape scales() const { return {slots, scale_count}; }
  Shape inverses() const { return {slots, steps, steps}; }
  Shape scores() const { return {slots, padded_tokens, steps}; }
  Shape errors() const { return {slots, padded_value, steps}; }
  Shape states() const { return {group_slots, padded_value, padded_key}; }
  Shape segment_states() const { return {segment_slots, padded_value, padded_key}; }
  Shape segment_maps() const { return {segment_slots, padded_key, map_pitch(padded_key)}; }
  /// What a forward keeps: scales, inverses, scores, errors, states and the maps of several segments.
  Index kept_tensors() const { return segments > 1 ? 6 : 5; }
};

template <class U>
bool is_aligned(TensorView<U> tensor, std::size_t bytes) {
  const std::size_t row = static_cast<std::size_t>(tensor.shape()[-1]) * sizeof(U);
  return row % bytes == 0 && reinterpret_cast<std::uintptr_t>(tensor.data()) % bytes == 0;
}

template <class T>
ChunkedArguments<T> arguments_of(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                 const DeltaProductOptions& options, const Plan<T>& plan, Device device) {
  const Shape keys = input.keys.shape();
  const int factors = static_cast<int>(keys[1]);
  ChunkedArguments<T> a{};
  a.sizes = {.sequences = layout.on(device).data(),
             .factors = factors,
             .heads = static_cast<int>(keys[2]),
             .key = static_cast<int>(keys[3]),
             .value = static_cast<int>(input.values.shape()[3]),
             .tokens = plan.tokens,
             .steps = plan.tokens * factors,
             .padded_tokens = plan.padded_tokens,
             .padded_value = plan.padded_value,
             .segments = plan.segments,
             .segment_chunks = plan.segment_chunks,
             .reciprocal = static_cast<unsigned>((65536 + factors - 1) / factors)};
  a.queries = input.queries.data();
  a.keys = input.keys.data();
  a.values = input.values.data();
  a.betas = input.betas.data();
  a.log_decays = input.log_decays.empty() ? nullptr : input.log_decays.data();
  a.initial_states = input.initial_states.empty() ? nullptr : input.initial_states.data();
  a.scale = static_cast<float>(options.scale);
  a.unit_keys = options.unit_keys;
  a.aligned_keys = is_aligned(input.keys, 16) && is_aligned(input.queries, 16);
  a.aligned_values = is_aligned(input.values, 16);
  return a;
}

}  // namespace

bool has_chunked_kernels(Device device) {
  // Clusters came with the instructions that move matrices to shared memory.
  return context(device).has_clusters();
}

template <class T>
void chunked_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<float> final_states, bool keep, Saved& saved) {
  const Device device = saved.device();
  const Plan<T> plan(input, layout, options, device);
  ChunkedArguments<T> a = arguments_of(input, layout, options, plan, device);
  const Index before = saved.size();
  try {
    a.scales = saved.push<float>(plan.scales()).data();
    a.inverse = saved.push<T>(plan.inverses()).data();
    a.scores = saved.push<T>(plan.scores()).data();
    if (keep) {
      a.errors = saved.push<T>(plan.errors()).data();
      a.states = saved.push<T>(plan.states()).data();
    }
    if (plan.segments > 1) a.segment_maps = saved.push<float>(plan.segment_maps()).data();
    if (plan.segments > 1) a.segment_states = saved.push<float>(plan.segment_states()).data();
  } catch (...) {
    // Memory is short: a forward that throws leaves the stack as it was.
    saved.pop(saved.size() - before);
    throw;
  }
  // Only the kernels of this call read the states of segments. Whatever comes to their place comes after
  // them.
  if (plan.segments > 1) saved.pop(1);
  a.outputs = outputs.data();
  a.aligned_outputs = is_aligned(outputs, 16);
  a.final_states = final_states.empty() ? nullptr : final_states.data();
  if (layout.size() == 0 || a.sizes.heads == 0 || a.sizes.value == 0) return;
  with_kernels<T>(a.sizes.key, options.precision, [&](auto kernels) {
    kernels.forward(context(device), {.sequences = layout.size(), .longest = layout.longest()}, a);
  });
}

template <class T>
void chunked_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                    const DeltaProductOptions& options,
                                    const DeltaProductGradients<T>& gradients, Saved& saved) {
  const Device device = saved.device();
  const Plan<T> plan(input, layout, options, device);
  ChunkedArguments<T> a = arguments_of(input, layout, options, plan, device);
  const Index maps = plan.segments > 1 ? 1 : 0;
  const auto states = saved.top<T>(maps), errors = saved.top<T>(maps + 1), scores = saved.top<T>(maps + 2),
             inverses = saved.top<T>(maps + 3);
  const auto scales = saved.top<float>(maps + 4);
  check_shape("states that the forward kept", states.shape(), plan.states());
  check_shape("errors that the forward kept", errors.shape(), plan.errors());
  check_shape("scores that the forward kept", scores.shape(), plan.scores());
  check_shape("inverses that the forward kept", inverses.shape(), plan.inverses());
  check_shape("scales that the forward kept", scales.shape(), plan.scales());
  a.states = states.data();
  a.errors = errors.data();
  a.scores = scores.data();
  a.inverse = inverses.data();
  a.scales = scales.data();
  if (maps > 0) {
    const auto segment_maps = saved.top<float>(0);
    check_shape("maps that the forward kept", segment_maps.shape(), plan.segment_maps());
    a.segment_maps = segment_maps.data();
  }
  {
    const Saved::Scope scope(saved);
    ChunkedGradients<T> g{};
    g.d_errors = saved.push<T>(plan.errors()).data();
    g.d_states = saved.push<T>(plan.states()).data();
    if (maps > 0) g.d_segment_states = saved.push<float>(plan.segment_states()).data();
    g.d_outputs = gradients.d_outputs.data();
    g.d_final_states = gradients.d_final_states.empty() ? nullptr : gradients.d_final_states.data();
    g.d_queries = gradients.d_queries.data();
    g.d_keys = gradients.d_keys.data();
    g.d_values = gradients.d_values.data();
    g.d_betas = gradients.d_betas.data();
    g.d_log_decays = gradients.d_log_decays.empty() ? nullptr : gradients.d_log_decays.data();
    g.d_initial_states = gradients.d_initial_states.empty() ? nullptr : gradients.d_initial_states.data();
    a.aligned_values = is_aligned(gradients.d_outputs, 16);
    a.aligned_outputs = is_aligned(gradients.d_values, 16);
    a.aligned_gradients = is_aligned(gradients.d_keys, 16) && is_aligned(gradients.d_queries, 16);
    if (a.sizes.value == 0) {
      // Nothing depends on the inputs, and no kernel has anything to do.
      const auto set_zero = [&](const auto& tensor) {
        const auto bytes = static_cast<std::size_t>(tensor.size()) * sizeof(tensor.data()[0]);
        if (bytes > 0) check(cudaMemsetAsync(tensor.data(), 0, bytes, context(device).stream()));
      };
      set_zero(gradients.d_queries);
      set_zero(gradients.d_keys);
      set_zero(gradients.d_betas);
      set_zero(gradients.d_log_decays);
    } else if (layout.size() > 0 && a.sizes.heads > 0) {
      with_kernels<T>(a.sizes.key, options.precision, [&](auto kernels) {
        kernels.backward(context(device), {.sequences = layout.size(), .longest = layout.longest()}, a, g);
      });
    }
  }
  saved.pop(plan.kept_tensors());
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template void chunked_delta_product<T>(const DeltaProductInput<T>&, const TokenLayout&,                    \
                                         const DeltaProductOptions&, TensorView<T>, TensorView<float>, bool, \
                                         Saved&);                                                            \
  template void chunked_delta_product_backward<T>(const DeltaProductInput<T>&, const TokenLayout&,           \
                                                  const DeltaProductOptions&,                                \
                                                  const DeltaProductGradients<T>&, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
