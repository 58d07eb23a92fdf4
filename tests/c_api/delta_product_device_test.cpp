// Delta products and rank-one chains on a GPU through the C interface: they have the bits of the C++ ones
// there, which are near those of the CPU.

#include <cstring>

#include "c_api/delta_calls.hpp"
#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/scalar/bfloat16.hpp"
#include "support/gpu.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

template <class T>
void check_near(const std::vector<Tensor<T>>& found, auto& expected, double bound) {
  expected.run();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [name, here] = expected.results()[i];
    INFO(name);
    CHECK(relative_error(found[i], *here) <= bound);
  }
}

/// Gradients of 37 tokens have the rounding of some hundred factors, and products of tf32 that of 2^-11.
template <class T>
double bound_of(Precision precision) {
  return precision == Precision::fp32 ? 1000 * tolerance::epsilon<T> : 0.05;
}

template <class T>
void check_delta(const LayoutOfBoth& layout, const DeltaCaseSizes& sizes, const DeltaProductOptions& options,
                 Decay decay, bool removals, Device device) {
  CAPTURE(layout.c.order, layout.c.lengths != nullptr, sizes.factors, sizes.key, sizes.value);
  DeltaCase<T> c(layout.cpp, sizes, options, decay, removals);
  DeltaCase<double> expected(layout.cpp, sizes, options, decay, removals);
  c.move_to(device);
  DeltaCalls<T> calls(c, layout.c, on_own_stream(device));
  check_near<T>(check_like_cpp(c, calls, device), expected, bound_of<T>(options.precision));
}

/// A case, whose forward and backward are recorded by a caller, and then launched. Recording starts nothing.
template <class Calls, class Case>
void check_recorded(Case& c, Calls& calls, Device device) {
  if constexpr (has_cuda_bodies) {
    const auto expected = check_like_cpp(c, calls, device);
    spoil_results(c);
    Lent lent(device, calls);
    cuda::Graph graph;
    graph.record(device, [&] {
      calls.forward(&lent.saved, lent.forward);
      calls.backward(lent.saved, lent.backward);
    });
    CHECK_FALSE(same_bits(c.results()[0].second->copy(Device::cpu()), expected[0]));
    for (int launch = 0; launch < 2; ++launch) {
      graph.launch();
      require_results(c, expected, expected.size());
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("Recurrent delta products on a GPU through the C interface are those of C++",
                   "[c_api][delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const DeltaProductOptions options{.form = DeltaForm::recurrent, .scale = 0.7, .unit_keys = true};
  for (const LayoutOfBoth& layout : four_sequences()) {
    check_delta<TestType>(layout, {2, 2, 5, 7}, options, Decay::none, false, *device);
    check_delta<TestType>(layout, {2, 3, 17, 33}, options, Decay::of_heads, false, *device);
    check_delta<TestType>(layout, {1, 2, 70, 5}, options, Decay::of_rows, true, *device);
    // Small states have kernels of their own.
    check_delta<TestType>(layout, {3, 2, 6, 8}, {.form = DeltaForm::recurrent}, Decay::none, false, *device);
  }
}

TEST_CASE("Chunked delta products on a GPU through the C interface are those of C++",
          "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device || !has_chunked_form(*device)) return;
  for (const LayoutOfBoth& layout : four_sequences()) {
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      const DeltaProductOptions options{
          .form = DeltaForm::chunked, .scale = 0.7, .unit_keys = true, .precision = precision};
      check_delta<float>(layout, {2, 2, 16, 7}, options, Decay::none, false, *device);
      check_delta<float>(layout, {3, 3, 70, 33}, options, Decay::of_heads, false, *device);
      check_delta<float>(layout, {1, 1, 200, 65}, options, Decay::none, false, *device);
    }
  }
  // Segments have memory of their own.
  const std::vector<std::int64_t> offsets = {0, 1, 700, 700, 1000};
  const LayoutOfBoth longer{{ORTHORNN_PACKED, 0, 4, 0, nullptr, offsets.data()},
                            TokenLayout::packed(offsets)};
  for (const Index segments : {0, 1, 5}) {
    CAPTURE(segments);
    check_delta<float>(longer, {2, 2, 64, 64},
                       {.form = DeltaForm::chunked, .unit_keys = true, .chunk = 16, .segments = segments},
                       Decay::of_heads, false, *device);
  }
}

TEST_CASE("The best form of a delta product on a GPU through the C interface is that of the layers",
          "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto check = [&]<class T>(std::type_identity<T>, const LayoutOfBoth& layout,
                                  const DeltaCaseSizes& sizes, bool unit_keys, bool chunked) {
    CAPTURE(layout.c.order, sizes.factors, sizes.heads, sizes.key, unit_keys);
    const bool has_chunks = chunked && has_chunked_form(*device);
    DeltaCase<T> c(layout.cpp, sizes,
                   {.form = has_chunks ? DeltaForm::chunked : DeltaForm::recurrent, .unit_keys = unit_keys},
                   Decay::none);
    c.move_to(*device);
    DeltaCalls<T> calls(c, layout.c, on_own_stream(*device));
    calls.product.form = ORTHORNN_BEST_FORM;
    check_like_cpp(c, calls, *device);
  };
  constexpr std::type_identity<float> floats;
  for (const LayoutOfBoth& layout : four_sequences()) {
    check(floats, layout, {2, 2, 20, 24}, false, true);
    check(floats, layout, {33, 1, 8, 8}, true, false);
    check(floats, layout, {1, 1, 257, 8}, false, false);
    // Four times 16 states are many small ones, unless the product normalizes their keys.
    check(floats, layout, {2, 15, 6, 8}, false, true);
    check(floats, layout, {2, 16, 6, 8}, false, false);
    check(floats, layout, {2, 16, 6, 8}, true, true);
    check(std::type_identity<double>(), layout, {2, 2, 20, 24}, false, false);
  }
}

TEST_CASE("Delta products of bfloat16 on a GPU through the C interface are those of C++",
          "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device || !has_chunked_form(*device)) return;
  const DeltaCaseSizes sizes{2, 2, 64, 64};
  const DeltaProductOptions options{
      .form = DeltaForm::chunked, .unit_keys = true, .precision = Precision::bf16};
  for (const LayoutOfBoth& layout : four_sequences()) {
    CAPTURE(layout.c.order, layout.c.lengths != nullptr);
    DeltaCase<float> c(layout.cpp, sizes, options, Decay::of_heads);
    const auto rounded = [&](const Tensor<float>& x) {
      Tensor<bfloat16> to(x.shape());
      std::transform(x.begin(), x.end(), to.begin(), [](float number) { return bfloat16(number); });
      return to.copy(*device);
    };
    const Tensor<bfloat16> queries = rounded(c.queries), keys = rounded(c.keys), values = rounded(c.values),
                           d_outputs = rounded(c.d_outputs);
    c.move_to(*device);
    /// What a forward and a backward write.
    struct Results {
      Tensor<bfloat16> outputs, d_queries, d_keys, d_values;
      Tensor<float> final_states, d_betas, d_log_decays, d_initial_states;
    };
    const auto results = [&] {
      return Results{d_outputs.copy(),      queries.copy(), keys.copy(),         values.copy(),
                     c.final_states.copy(), c.betas.copy(), c.log_decays.copy(), c.initial_states.copy()};
    };
    Results cpp = results(), found = results();
    const DeltaProductInput<bfloat16> input{.queries = queries,
                                            .keys = keys,
                                            .values = values,
                                            .betas = c.betas,
                                            .log_decays = c.log_decays,
                                            .initial_states = c.initial_states};
    Saved stack(*device);
    delta_product_forward<bfloat16>(input, layout.cpp, options, cpp.outputs, cpp.final_states, stack);
    delta_product_backward<bfloat16>(input, layout.cpp, options,
                                     {.d_outputs = d_outputs,
                                      .d_final_states = c.d_final_states,
                                      .d_queries = cpp.d_queries,
                                      .d_keys = cpp.d_keys,
                                      .d_values = cpp.d_values,
                                      .d_betas = cpp.d_betas,
                                      .d_log_decays = cpp.d_log_decays,
                                      .d_initial_states = cpp.d_initial_states},
                                     stack);
    DeltaCalls<float> calls(c, layout.c, on_own_stream(*device));
    calls.product.dtype = ORTHORNN_BF16;
    Lent lent(*device, calls);
    const orthornn_delta_inputs given = {queries.data(),         keys.data(),         values.data(),
                                         c.betas.data(),         c.log_decays.data(), nullptr,
                                         c.initial_states.data()};
    require_status(orthornn_delta_product_forward(
        &calls.device, &calls.product, &calls.layout, &given, found.outputs.data(), found.final_states.data(),
        lent.saved.data(), lent.saved.bytes(), lent.forward.data(), lent.forward.bytes()));
    const orthornn_delta_gradients gradients = {d_outputs.data(),
                                                c.d_final_states.data(),
                                                found.d_queries.data(),
                                                found.d_keys.data(),
                                                found.d_values.data(),
                                                found.d_betas.data(),
                                                found.d_log_decays.data(),
                                                nullptr,
                                                found.d_initial_states.data()};
    require_status(orthornn_delta_product_backward(&calls.device, &calls.product, &calls.layout, &given,
                                                   &gradients, lent.saved.data(), lent.saved.bytes(),
                                                   lent.backward.data(), lent.backward.bytes()));
    const auto same = [](const auto& x, const auto& y) {
      const auto a = x.copy(Device::cpu()), b = y.copy(Device::cpu());
      return std::memcmp(a.data(), b.data(), a.shape().bytes(sizeof(*a.data()))) == 0;
    };
    CHECK(same(found.outputs, cpp.outputs));
    CHECK(same(found.final_states, cpp.final_states));
    CHECK(same(found.d_queries, cpp.d_queries));
    CHECK(same(found.d_keys, cpp.d_keys));
    CHECK(same(found.d_values, cpp.d_values));
    CHECK(same(found.d_betas, cpp.d_betas));
    CHECK(same(found.d_log_decays, cpp.d_log_decays));
    CHECK(same(found.d_initial_states, cpp.d_initial_states));
  }
}

TEMPLATE_TEST_CASE("A delta product goes on token by token on a GPU through the C interface",
                   "[c_api][delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const DeltaProductOptions options{.form = DeltaForm::recurrent, .scale = 0.7, .unit_keys = true};
  const LayoutOfBoth layout{{ORTHORNN_TIME_MAJOR, 0, 3, 4, nullptr, nullptr}, TokenLayout::time_major(4, 3)};
  DeltaCase<TestType> c(layout.cpp, {2, 2, 6, 20}, options, Decay::of_rows, true);
  c.move_to(*device);
  c.run();
  DeltaCalls<TestType> calls(c, layout.c, on_own_stream(*device));
  Tensor<TestType> states = c.initial_states.copy(), outputs({3, 2, 20}, *device);
  for (Index t = 0; t < 4; ++t) {
    const auto at = [&](const Tensor<TestType>& x) { return x.view().slice(3 * t, 3).data(); };
    const orthornn_delta_inputs inputs = {at(c.queries),    at(c.keys),     at(c.values), at(c.betas),
                                          at(c.log_decays), at(c.removals), nullptr};
    require_status(orthornn_delta_product_step(&calls.device, &calls.product, 3, &inputs, states.data(),
                                               outputs.data()));
    const Tensor<TestType> whole = c.outputs.copy(Device::cpu()), found = outputs.copy(Device::cpu());
    CHECK(std::equal(found.begin(), found.end(), whole.view().slice(3 * t, 3).begin()));
  }
  CHECK(same_bits(states.copy(Device::cpu()), c.final_states.copy(Device::cpu())));
}

TEMPLATE_TEST_CASE("Rank-one chains on a GPU through the C interface are those of C++",
                   "[c_api][delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const LayoutOfBoth& layout : four_sequences()) {
    for (const bool scaled : {false, true}) {
      CAPTURE(layout.c.order, layout.c.lengths != nullptr, scaled);
      ChainCase<T> c(layout.cpp, 2, 33, 20, {.chunk = 7}, scaled);
      ChainCase<double> expected(layout.cpp, 2, 33, 20, {.chunk = 7}, scaled);
      c.move_to(*device);
      ChainCalls<T> calls(c, layout.c, on_own_stream(*device));
      check_near<T>(check_like_cpp(c, calls, *device), expected, bound_of<T>(Precision::fp32));
    }
  }
}

TEST_CASE("Delta products and chains of nothing on a GPU through the C interface", "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const DeltaForm form : {DeltaForm::recurrent, DeltaForm::chunked}) {
    if (form == DeltaForm::chunked && !has_chunked_form(*device)) continue;
    for (const auto& [batch, length] : {std::pair<Index, Index>{0, 5}, {3, 0}}) {
      CAPTURE(batch, length);
      const LayoutOfBoth layout{{ORTHORNN_SEQUENCE_MAJOR, 0, batch, length, nullptr, nullptr},
                                TokenLayout::sequence_major(batch, length)};
      DeltaCase<float> c(layout.cpp, {2, 2, 20, 20}, {.form = form}, Decay::of_heads);
      c.move_to(*device);
      DeltaCalls<float> calls(c, layout.c, on_own_stream(*device));
      check_like_cpp(c, calls, *device);
      ChainCase<float> chain(layout.cpp, 2, 5, 4, {});
      chain.move_to(*device);
      ChainCalls<float> chain_calls(chain, layout.c, on_own_stream(*device));
      check_like_cpp(chain, chain_calls, *device);
    }
  }
}

TEST_CASE("Delta products and chains that a caller captures give equal bits at every launch",
          "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // A table of more sequences than one launch writes.
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t b = 0; b < 150; ++b) offsets.push_back(offsets.back() + b % 4);
  std::vector<LayoutOfBoth> layouts = four_sequences();
  layouts.push_back({{ORTHORNN_PACKED, 0, 150, 0, nullptr, offsets.data()}, TokenLayout::packed(offsets)});
  for (const LayoutOfBoth& layout : layouts) {
    CAPTURE(layout.c.order, layout.c.batch, layout.c.lengths != nullptr);
    for (const DeltaForm form : {DeltaForm::recurrent, DeltaForm::chunked}) {
      if (form == DeltaForm::chunked && !has_chunked_form(*device)) continue;
      DeltaCase<float> c(layout.cpp, {2, 2, 24, 20}, {.form = form, .unit_keys = true}, Decay::of_heads);
      c.move_to(*device);
      DeltaCalls<float> calls(c, layout.c, on_own_stream(*device));
      check_recorded(c, calls, *device);
    }
    ChainCase<float> chain(layout.cpp, 2, 20, 12, {});
    chain.move_to(*device);
    ChainCalls<float> calls(chain, layout.c, on_own_stream(*device));
    check_recorded(chain, calls, *device);
  }
}

TEST_CASE("A delta product on a GPU goes to the stream that it is given", "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const LayoutOfBoth& layout : four_sequences()) {
    DeltaCase<float> c(layout.cpp, {2, 2, 20, 20}, {.form = DeltaForm::recurrent}, Decay::none);
    c.move_to(*device);
    c.run();
    const auto expected = results_on_host(c);
    // CUDA's default stream, and that of the calling thread (cudaStreamPerThread).
    for (void* const stream : {static_cast<void*>(nullptr), reinterpret_cast<void*>(2)}) {
      spoil_results(c);
      DeltaCalls<float> calls(c, layout.c, on_stream(*device, stream));
      Lent lent(*device, calls);
      synchronize(*device);  // of the test's own stream
      calls.forward(&lent.saved, lent.forward);
      calls.backward(lent.saved, lent.backward);
      require_status(orthornn_synchronize(&calls.device));
      require_results(c, expected, expected.size());
    }
  }
}

TEST_CASE("What a GPU cannot do with a delta product is a status", "[c_api][delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const LayoutOfBoth layout = four_sequences()[2];
  DeltaCase<float> c(layout.cpp, {2, 2, 20, 20}, {.form = DeltaForm::recurrent}, Decay::none);
  c.move_to(*device);
  DeltaCalls<float> calls(c, layout.c, on_own_stream(*device));
  Lent lent(*device, calls);
  const orthornn_delta_inputs given = calls.inputs();
  const auto forward = [&](void* saved, std::int64_t workspace_bytes) {
    return orthornn_delta_product_forward(&calls.device, &calls.product, &calls.layout, &given,
                                          c.outputs.data(), nullptr, saved, lent.saved.bytes(),
                                          lent.forward.data(), workspace_bytes);
  };
  require_error(forward(static_cast<char*>(lent.saved.data()) + 8, lent.forward.bytes()),
                ORTHORNN_INVALID_ARGUMENT, "multiple of 256");
  calls.product.dtype = ORTHORNN_BF16;
  std::int64_t bytes = 0;
  require_error(orthornn_delta_product_saved(&calls.device, &calls.product, &calls.layout, &bytes),
                ORTHORNN_DEVICE_ERROR, "bfloat16");
  calls.product.dtype = ORTHORNN_F64;
  calls.product.form = ORTHORNN_CHUNKED;
  require_status(orthornn_delta_product_saved(&calls.device, &calls.product, &calls.layout, &bytes),
                 ORTHORNN_DEVICE_ERROR);
}

}  // namespace orthornn::testing
