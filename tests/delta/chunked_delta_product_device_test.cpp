// The chunked delta product on a GPU against the recurrent form in double, on the CPU and for the same
// numbers.

#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "delta/delta_case.hpp"
#include "delta/device_results.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/lengths.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// A GPU that has this form.
std::optional<Device> gpu_with_chunks() {
  const auto device = gpu();
  return device && !has_chunked_form(*device) ? std::nullopt : device;
}

template <class To>
Tensor<To> converted(const Tensor<double>& from, Device device) {
  Tensor<To> to(from.shape());
  std::transform(from.begin(), from.end(), to.begin(), [](double x) { return To(static_cast<float>(x)); });
  return to.copy(device);
}
template <class From>
Tensor<double> in_double(const Tensor<From>& from) {
  const Tensor<From> here = from.copy(Device::cpu());
  Tensor<double> to(here.shape());
  std::transform(here.begin(), here.end(), to.begin(),
                 [](From x) { return static_cast<double>(static_cast<float>(x)); });
  return to;
}

/// Rounds the inputs of a case to what a GPU reads.
template <class T>
void round_inputs(DeltaCase<double>& c) {
  for (Tensor<double>* x : {&c.queries, &c.keys, &c.values, &c.d_outputs})
    *x = in_double(converted<T>(*x, Device::cpu()));
  for (Tensor<double>* x : {&c.betas, &c.log_decays, &c.initial_states, &c.d_final_states})
    *x = in_double(converted<float>(*x, Device::cpu()));
}

/// What the chunked form on a GPU makes of the inputs of a case.
template <class T>
class GpuRun {
 public:
  /// Tensors begin `offset` numbers after aligned memory.
  GpuRun(const DeltaCase<double>& c, Device device, Precision precision, Index chunk, Index offset = 0)
      : c_(c),
        options_(c.options),
        queries_(converted<T>(c.queries, device), offset),
        keys_(converted<T>(c.keys, device), offset),
        values_(converted<T>(c.values, device), offset),
        d_outputs_(converted<T>(c.d_outputs, device), offset),
        outputs_(converted<T>(c.outputs, device), offset),
        d_queries_(converted<T>(c.queries, device), offset),
        d_keys_(converted<T>(c.keys, device), offset),
        d_values_(converted<T>(c.values, device), offset),
        betas_(converted<float>(c.betas, device), offset),
        log_decays_(converted<float>(c.log_decays, device), offset),
        initial_states_(converted<float>(c.initial_states, device), offset),
        d_final_states_(converted<float>(c.d_final_states, device), offset),
        final_states_(converted<float>(c.final_states, device), offset),
        d_betas_(converted<float>(c.betas, device), offset),
        d_log_decays_(converted<float>(c.log_decays, device), offset),
        d_initial_states_(converted<float>(c.initial_states, device), offset),
        saved_(device) {
    options_.form = DeltaForm::chunked;
    options_.precision = precision;
    options_.chunk = chunk;
  }

  /// Final states of the next forward, which overwrites the initial states with them.
  Tensor<double> final_states_over_initial() {
    delta_product<T>(input(), c_.layout, options_, outputs_.view(), initial_states_.view(), saved_);
    return here(initial_states_);
  }

  /// Goes on without the states that are no input or result of a step.
  void leave_out_states() {
    for (WithOffset<float>* x : {&initial_states_, &d_final_states_, &final_states_, &d_initial_states_})
      *x = WithOffset<float>(Tensor<float>({0}, saved_.device()));
  }

  /// As DeltaCase::results, without gradients of removals.
  std::vector<std::pair<const char*, Tensor<double>>> run() {
    spoil();
    enqueue();
    CHECK(saved_.size() == 0);
    auto results = this->results();
    // The same without what a backward reads.
    spoil();
    delta_product<T>(input(), c_.layout, options_, outputs_.view(), {}, saved_);
    CHECK(same(here(outputs_), results[0].second));
    return results;
  }
  void enqueue() {
    delta_product_forward<T>(input(), c_.layout, options_, outputs_.view(), final_states_.view(), saved_);
    delta_product_backward<T>(input(), c_.layout, options_,
                              {.d_outputs = d_outputs_.view(),
                               .d_final_states = d_final_states_.view(),
                               .d_queries = d_queries_.view(),
                               .d_keys = d_keys_.view(),
                               .d_values = d_values_.view(),
                               .d_betas = d_betas_.view(),
                               .d_log_decays = d_log_decays_.view(),
                               .d_initial_states = d_initial_states_.view()},
                              saved_);
  }
  /// Fills the results with NaN.
  void spoil() {
    for (WithOffset<T>* x : {&outputs_, &d_queries_, &d_keys_, &d_values_}) spoil(*x);
    for (WithOffset<float>* x : {&final_states_, &d_betas_, &d_log_decays_, &d_initial_states_}) spoil(*x);
  }
  std::vector<std::pair<const char*, Tensor<double>>> results() const {
    std::vector<std::pair<const char*, Tensor<double>>> results;
    results.emplace_back("outputs", here(outputs_));
    results.emplace_back("final_states", here(final_states_));
    results.emplace_back("d_queries", here(d_queries_));
    results.emplace_back("d_keys", here(d_keys_));
    results.emplace_back("d_values", here(d_values_));
    results.emplace_back("d_betas", here(d_betas_));
    results.emplace_back("d_log_decays", here(d_log_decays_));
    results.emplace_back("d_initial_states", here(d_initial_states_));
    return results;
  }
  static bool same(const Tensor<double>& a, const Tensor<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  DeltaProductInput<T> input() const {
    return {.queries = queries_.view(),
            .keys = keys_.view(),
            .values = values_.view(),
            .betas = betas_.view(),
            .log_decays = log_decays_.view(),
            .initial_states = initial_states_.view()};
  }
  template <class From>
  static Tensor<double> here(const WithOffset<From>& x) {
    Tensor<From> host(x.view().shape());
    copy<From>(x.view(), host);
    return in_double(host);
  }
  template <class To>
  static void spoil(WithOffset<To>& x) {
    Tensor<double> noise(x.view().shape());
    fill_with_nan(noise.view());
    copy<To>(converted<To>(noise, Device::cpu()), x.view());
  }

  const DeltaCase<double>& c_;
  DeltaProductOptions options_;
  WithOffset<T> queries_, keys_, values_, d_outputs_, outputs_, d_queries_, d_keys_, d_values_;
  WithOffset<float> betas_, log_decays_, initial_states_, d_final_states_, final_states_, d_betas_,
      d_log_decays_, d_initial_states_;
  Saved saved_;
};

/// What a precision is held to. A float has 24 bits; the error of a product of tf32 operands is some 2^-12 of
/// its norm, that of bfloat16 operands some 2^-9, and a few such products follow each other. The bounds are
/// those times a few: bfloat16 was within 6e-3 for keys of 64 numbers.
struct Kind {
  Precision precision;
  double bound;
};

/// Compares all results with those of the recurrent form in double, and with themselves.
template <class T>
void check_like_recurrent(DeltaCase<double>& c, Device device, const Kind& kind, Index chunk) {
  round_inputs<T>(c);
  c.options.form = DeltaForm::recurrent;
  c.run();
  GpuRun<T> gpu(c, device, kind.precision, chunk);
  const auto found = gpu.run(), again = gpu.run();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [name, result] = found[i];
    INFO(name);
    for (const auto& [expected_name, expected] : c.results()) {
      if (std::string(expected_name) == name) CHECK(relative_error(result, *expected) <= kind.bound);
    }
    CHECK(GpuRun<T>::same(result, again[i].second));
  }
}

constexpr Kind fp32{Precision::fp32, 1e-5}, tf32{Precision::tf32, 2e-3};
/// Many factors on few numbers share directions, and their errors add up: 1.5e-2 for 90 on keys of 16.
Kind bf16(Index key) { return {Precision::bf16, key < 64 ? 3e-2 : 1e-2}; }

/// In all precisions.
void check_all(const std::function<DeltaCase<double>()>& make, Device device, Index chunk) {
  DeltaCase<double> c = make();
  check_like_recurrent<float>(c, device, fp32, chunk);
  c = make();
  check_like_recurrent<float>(c, device, tf32, chunk);
  c = make();
  check_like_recurrent<bfloat16>(c, device, bf16(c.keys.shape()[3]), chunk);
}

}  // namespace

TEST_CASE("a chunked delta product on a GPU is the recurrent one, for all sizes", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  struct Sizes {
    Index length, factors, key, value, chunk;
  };
  // One number, odd numbers, each size that is compiled and just above it; chunks of a token and of several,
  // in each number of rows of 16 tokens; sequences of a token, of part of a chunk and of several.
  const auto [length, factors, key, value, chunk] =
      GENERATE(Sizes{1, 1, 1, 1, 64}, Sizes{70, 1, 5, 7, 1}, Sizes{70, 1, 5, 7, 16},
               Sizes{150, 1, 64, 64, 64}, Sizes{150, 2, 65, 64, 64}, Sizes{150, 3, 128, 72, 64},
               Sizes{80, 1, 100, 72, 64}, Sizes{150, 1, 128, 128, 64}, Sizes{90, 4, 128, 128, 64},
               Sizes{40, 8, 100, 130, 64}, Sizes{50, 1, 256, 200, 64}, Sizes{40, 2, 129, 65, 32},
               Sizes{70, 1, 64, 33, 48}, Sizes{3, 30, 16, 8, 64},
               // An even and an odd number of chunks, which do not have all their rows.
               Sizes{75, 3, 200, 72, 64}, Sizes{140, 1, 256, 40, 16}, Sizes{9, 8, 136, 64, 64},
               // The second chunk begins within a tile of 8 tokens.
               Sizes{70, 1, 136, 40, 20});
  const Decay decay = GENERATE(Decay::none, Decay::of_heads);
  CAPTURE(length, factors, key, value, chunk);
  check_all(
      [&] {
        return DeltaCase<double>(TokenLayout::time_major(length, 2),
                                 {.factors = factors, .heads = 3, .key = key, .value = value}, {.scale = 0.7},
                                 decay);
      },
      *device, chunk);
}

TEST_CASE("a chunked delta product on a GPU makes keys unit vectors", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const Decay decay = GENERATE(Decay::none, Decay::of_heads);
  const Index key = GENERATE(64, 128, 200);
  check_all(
      [&] {
        DeltaCase<double> c(TokenLayout::sequence_major(2, 60),
                            {.factors = 2, .heads = 2, .key = key, .value = 40},
                            {.scale = 0.7, .unit_keys = true}, decay);
        std::fill_n(c.keys.data() + 7 * key, key, 0.0);  // a key of zeros has no direction
        return c;
      },
      *device, 64);
}

TEST_CASE("a chunked delta product on a GPU takes what is hard: equal keys, reflections, cleared states",
          "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  // Keys of each kind of kernel: a chunk for itself, and two chunks as one.
  const Index factors = GENERATE(1, 2), key = GENERATE(32, 144);
  CAPTURE(factors, key);
  const auto make = [=](bool clears) {
    return [=] {
      DeltaCase<double> c(TokenLayout::time_major(100, 1),
                          {.factors = factors, .heads = 2, .key = key, .value = 16}, {},
                          clears ? Decay::of_heads : Decay::none);
      // Four directions, and steps of exactly 2 and 0.
      const Tensor<double> first = c.keys.copy();
      for (Index i = 0; i < c.betas.size(); ++i) {
        std::copy_n(first.data() + i / 2 * 7 % 4 * key, key, c.keys.data() + i * key);
        c.betas.data()[i] = i % 11 == 0 ? 0 : 2;
      }
      for (Index i = 0; i < c.log_decays.size(); ++i)
        c.log_decays.data()[i] = i % 13 == 0  ? -std::numeric_limits<double>::infinity()
                                 : i % 7 == 0 ? -50
                                              : 0;
      return c;
    };
  };
  DeltaCase<double> c = make(true)();
  check_like_recurrent<float>(c, *device, fp32, 64);
  c = make(true)();
  check_like_recurrent<bfloat16>(c, *device, {Precision::bf16, 5e-2}, 64);
  // Nothing forgets: each error stays, and those of 200 reflections in the same four directions add up, 2^-9
  // each.
  c = make(false)();
  check_like_recurrent<float>(c, *device, {Precision::fp32, 1e-4}, 64);
  c = make(false)();
  check_like_recurrent<bfloat16>(c, *device, {Precision::bf16, 200 * 0x1p-9}, 64);
}

TEST_CASE("a chunked delta product on a GPU neither reads nor needs padding", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const bool time_major = GENERATE(true, false);
  const Index key = GENERATE(24, 144);
  const auto lengths = lengths_of({0, 1, 80, 64, 33});
  const TokenLayout layout =
      time_major ? TokenLayout::time_major(80, 5, lengths) : TokenLayout::sequence_major(5, 80, lengths);
  check_all(
      [&] {
        DeltaCase<double> c(layout, {.factors = 2, .heads = 2, .key = key, .value = 16}, {}, Decay::of_heads);
        spoil_padding(layout, {&c.queries, &c.keys, &c.values, &c.betas, &c.log_decays, &c.d_outputs});
        return c;
      },
      *device, 64);
}

TEST_CASE("a chunked delta product on a GPU is done in segments", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  // Sequences of no chunk, of one and of several: the last segments of some are empty. More segments than
  // chunks are as many as chunks.
  const Index segments = GENERATE(2, 3, 5, 100);
  const Index key = GENERATE(24, 128);
  const Decay decay = GENERATE(Decay::none, Decay::of_heads);
  const auto lengths = lengths_of({0, 1, 150, 64, 97});
  CAPTURE(segments, key);
  check_all(
      [&] {
        return DeltaCase<double>(TokenLayout::sequence_major(5, 150, lengths),
                                 {.factors = 2, .heads = 2, .key = key, .value = 72},
                                 {.scale = 0.7, .unit_keys = true, .segments = segments}, decay);
      },
      *device, 64);
}

TEMPLATE_TEST_CASE("final states of a chunked delta product on a GPU may replace the initial ones",
                   "[delta][cuda]", float, bfloat16) {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const Index segments = GENERATE(1, 3);
  const auto lengths = lengths_of({0, 150, 20});
  DeltaCase<double> c(TokenLayout::sequence_major(3, 150, lengths),
                      {.factors = 1, .heads = 2, .key = 40, .value = 72},
                      {.unit_keys = true, .segments = segments}, Decay::of_heads);
  round_inputs<TestType>(c);
  GpuRun<TestType> gpu(c, *device, Precision::fp32, 64);
  const auto results = gpu.run();
  const auto& expected = results[1];
  REQUIRE(std::string(expected.first) == "final_states");
  CHECK(GpuRun<TestType>::same(gpu.final_states_over_initial(), expected.second));
}

TEST_CASE("packed sequences on a GPU have the bits that each has alone", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const std::vector<Index> offsets = {0, 70, 70, 71, 150};
  const DeltaCaseSizes sizes{.factors = 2, .heads = 2, .key = GENERATE(32, 160), .value = 24};
  DeltaCase<double> all(TokenLayout::packed(offsets), sizes, {}, Decay::of_heads);
  round_inputs<bfloat16>(all);
  const auto together = GpuRun<bfloat16>(all, *device, Precision::bf16, 64).run();
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const Index first = offsets[b], count = offsets[b + 1] - first;
    const std::vector<Index> own = {0, count};
    DeltaCase<double> one(TokenLayout::packed(own), sizes, {}, Decay::of_heads);
    const auto take = [&](Tensor<double>& to, const Tensor<double>& from, Index begin, Index rows, Index of) {
      std::copy_n(from.data() + begin * (from.size() / of), rows * (from.size() / of), to.data());
    };
    const Index rows = offsets.back(), sequences = all.layout.size(), i = static_cast<Index>(b);
    take(one.queries, all.queries, first, count, rows);
    take(one.keys, all.keys, first, count, rows);
    take(one.values, all.values, first, count, rows);
    take(one.betas, all.betas, first, count, rows);
    take(one.log_decays, all.log_decays, first, count, rows);
    take(one.d_outputs, all.d_outputs, first, count, rows);
    take(one.initial_states, all.initial_states, i, 1, sequences);
    take(one.d_final_states, all.d_final_states, i, 1, sequences);
    const auto alone = GpuRun<bfloat16>(one, *device, Precision::bf16, 64).run();
    for (std::size_t j = 0; j < alone.size(); ++j) {
      const auto& [name, result] = alone[j];
      INFO(name << " of sequence " << b);
      const bool of_states = std::string(name).find("states") != std::string::npos;
      Tensor<double> part(result.shape());
      take(part, together[j].second, of_states ? i : first, of_states ? 1 : count,
           of_states ? sequences : rows);
      CHECK(GpuRun<bfloat16>::same(result, part));
    }
  }
}

TEST_CASE("a chunked delta product on a GPU makes long and short keys unit vectors", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  // Norms whose squares are floats.
  const double norm = GENERATE(1e-10, 1e10);
  check_all(
      [&] {
        DeltaCase<double> c(TokenLayout::sequence_major(2, 60),
                            {.factors = 2, .heads = 2, .key = 64, .value = 40},
                            {.scale = 0.7, .unit_keys = true}, Decay::of_heads);
        for (double& x : c.keys) x *= norm / 8;  // keys of 64 normal numbers have norms of about 8
        return c;
      },
      *device, 64);
}

TEMPLATE_TEST_CASE("tensors of a chunked delta product on a GPU begin anywhere", "[delta][cuda]", float,
                   bfloat16) {
  const auto device = gpu_with_chunks();
  if (!device) return;
  DeltaCase<double> c(TokenLayout::time_major(70, 2),
                      {.factors = 2, .heads = 2, .key = GENERATE(64, 144), .value = 64}, {}, Decay::of_heads);
  round_inputs<TestType>(c);
  const Precision precision = GENERATE(Precision::fp32, Precision::tf32);
  const auto expected = GpuRun<TestType>(c, *device, precision, 64).run();
  for (const Index offset : {1, 2}) {
    const auto found = GpuRun<TestType>(c, *device, precision, 64, offset).run();
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(found[i].first << " at " << offset);
      CHECK(GpuRun<TestType>::same(found[i].second, expected[i].second));
    }
  }
}

TEMPLATE_TEST_CASE("states and decays of a chunked delta product may be left out on a GPU", "[delta][cuda]",
                   float, bfloat16) {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const Decay decay = GENERATE(Decay::none, Decay::of_heads);
  DeltaCase<double> c(TokenLayout::time_major(70, 2), {.factors = 2, .heads = 2, .key = 40, .value = 24}, {},
                      decay);
  round_inputs<TestType>(c);
  std::fill(c.initial_states.begin(), c.initial_states.end(), 0.0);
  std::fill(c.d_final_states.begin(), c.d_final_states.end(), 0.0);
  GpuRun<TestType> gpu(c, *device, Precision::fp32, 64);
  const auto expected = gpu.run();
  gpu.leave_out_states();
  const auto found = gpu.run();
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(found[i].first);
    if (!found[i].second.empty()) CHECK(GpuRun<TestType>::same(found[i].second, expected[i].second));
  }
}

TEMPLATE_TEST_CASE("a chunked delta product on a GPU can be recorded", "[delta][cuda]", float, bfloat16) {
  const auto device = gpu_with_chunks();
  if (!device) return;
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
  } else {
    DeltaCase<double> c(TokenLayout::time_major(70, 2), {.factors = 2, .heads = 2, .key = 40, .value = 24},
                        {}, Decay::of_heads);
    round_inputs<TestType>(c);
    GpuRun<TestType> gpu(c, *device, Precision::fp32, 64);
    const auto expected = gpu.run();
    gpu.enqueue();  // memory that was too small is one piece now
    const std::uint64_t before = cuda::memory_changes(*device);
    gpu.enqueue();
    CHECK(cuda::memory_changes(*device) == before);
    cuda::Graph graph;
    graph.record(*device, [&] { gpu.enqueue(); });
    gpu.spoil();
    graph.launch();
    const auto found = gpu.results();
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(found[i].first);
      CHECK(GpuRun<TestType>::same(found[i].second, expected[i].second));
    }
  }
}

TEST_CASE("no tokens and no sequences are no error in chunks on a GPU", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const auto lengths = lengths_of({0, 0, 0});
  for (const TokenLayout& layout : {TokenLayout::time_major(0, 3), TokenLayout::time_major(2, 3, lengths),
                                    TokenLayout::time_major(5, 0)}) {
    DeltaCase<double> c(layout, {}, {}, Decay::of_heads);
    round_inputs<bfloat16>(c);
    for (const auto& [name, result] : GpuRun<bfloat16>(c, *device, Precision::bf16, 64).run()) {
      INFO(name);
      if (std::string(name) == "final_states") CHECK(GpuRun<bfloat16>::same(result, c.initial_states));
      if (std::string(name) == "d_initial_states") CHECK(GpuRun<bfloat16>::same(result, c.d_final_states));
    }
  }
}

TEST_CASE("a chunked delta product on a GPU refuses what it does not have", "[delta][cuda]") {
  const auto device = gpu_with_chunks();
  if (!device) return;
  const auto refuses = [&](Index factors, Index key, const char* what) {
    DeltaCase<double> c(TokenLayout::time_major(2, 1),
                        {.factors = factors, .heads = 1, .key = key, .value = 2});
    GpuRun<float> run(c, *device, Precision::fp32, 64);
    CHECK_THROWS_WITH(run.run(), contains(what) && contains("recurrent form"));
  };
  refuses(1, 257, "257 numbers a key");
  refuses(33, 4, "33 factors a token");
  DeltaCase<double> c(TokenLayout::time_major(2, 1), {}, {.form = DeltaForm::chunked});
  c.move_to(*device);
  CHECK_THROWS_AS(c.run(), DeviceError);
}

TEST_CASE("a delta product of bfloat16 needs a GPU", "[delta]") {
  DeltaCase<double> c(TokenLayout::time_major(2, 1), {});
  round_inputs<bfloat16>(c);
  GpuRun<bfloat16> run(c, Device::cpu(), Precision::bf16, 64);
  CHECK_THROWS_AS(run.run(), DeviceError);
}
