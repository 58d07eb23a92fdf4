// Scores with Householder positions on a GPU against those of the CPU in double.

#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "delta/device_results.hpp"
#include "delta/scores_case.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Factors of a norm of at most 1 enlarge no error, so those of all tokens add up, and with them those of
/// sums over D.
template <class T>
double bound_of(const ScoresCase<T>& c) {
  return tolerance::rounding<T>(c.layout.longest() + c.keys.shape()[2]);
}

const std::vector<Index> score_offsets{0, 11, 11, 12, 90};

}  // namespace

TEMPLATE_TEST_CASE("scores with Householder positions on a GPU are those of the CPU", "[delta][cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index length, size, chunk, room;
  };
  // One number, odd numbers, parts and several of what a block has at a time, each chunk, one token, and room
  // beyond the tokens. Keys of 800 numbers leave room for chunks of a few tokens.
  const auto [length, size, chunk, room] =
      GENERATE(Sizes{1, 1, 32, 1}, Sizes{1, 5, 32, 3}, Sizes{40, 1, 32, 40}, Sizes{9, 5, 1, 9},
               Sizes{70, 6, 7, 71}, Sizes{70, 5, 100, 70}, Sizes{65, 70, 16, 65}, Sizes{66, 130, 32, 66},
               Sizes{20, 800, 32, 20}, Sizes{3, 0, 32, 3}, Sizes{0, 5, 32, 0}, Sizes{0, 5, 32, 2});
  CAPTURE(length, size, chunk, room);
  const TokenLayout layout = TokenLayout::time_major(length, 2);
  ScoresCase<TestType> found(layout, 2, size, room, {.scale = 0.4, .chunk = chunk});
  ScoresCase<double> expected(layout, 2, size, room, {.scale = 0.4, .chunk = 32});
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEMPLATE_TEST_CASE("scores on a GPU take packed sequences, equal vectors and vectors of zeros",
                   "[delta][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const bool reflections = GENERATE(false, true);
  ScoresCase<TestType> found(TokenLayout::packed(score_offsets), 2, 6, 80, {});
  ScoresCase<double> expected(TokenLayout::packed(score_offsets), 2, 6, 80, {});
  const auto fill = [](auto& c) {
    using T = std::remove_reference_t<decltype(c.betas(0, 0))>;
    for (Index i = 0; i < c.betas.size(); ++i) {
      // One direction, with reflections of it, no step at all, and no vector.
      for (Index k = 0; k < 6; ++k) c.vectors.data()[i * 6 + k] = k == 2 && i % 7 != 3 ? T{1} : T{0};
      c.betas.data()[i] = i % 5 == 4 ? T{0} : T{2};
    }
  };
  if (reflections) {
    fill(found);
    fill(expected);
  }
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEST_CASE("scores on a GPU read no padding and no gradient of later keys", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  Tensor<std::int32_t> lengths(Shape{4});
  lengths(0) = 2;
  lengths(1) = 40;
  lengths(2) = 0;
  lengths(3) = 33;
  const bool time_major = GENERATE(true, false);
  const TokenLayout layout =
      time_major ? TokenLayout::time_major(40, 4, lengths) : TokenLayout::sequence_major(4, 40, lengths);
  ScoresCase<double> found(layout, 2, 5, 41, {}), expected(layout, 2, 5, 41, {});
  spoil_padding(layout, {&found.queries, &found.keys, &found.vectors, &found.betas});
  for (Index b = 0; b < 4; ++b) {
    for (Index h = 0; h < 2; ++h) {
      for (Index t = 0; t < 41; ++t) {
        for (Index s = 0; s < 41; ++s) {
          if (s > t || t >= lengths(b)) found.d_scores(b, h, t, s) = std::nan("");
        }
      }
    }
  }
  check_like_cpu(found, expected, *device, bound_of(found));
}

TEST_CASE("scores of a sequence have the same bits alone on a GPU and beside others", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Index length = 78;
  ScoresCase<float> all(TokenLayout::packed(score_offsets), 2, 6, length, {});
  ScoresCase<float> one(TokenLayout::sequence_major(1, length), 2, 6, length, {});
  const auto last = [](Tensor<float>& x) {
    return x.shape()[0] == 4 ? x.view().slice(3, 1) : x.view().slice(12, length);
  };
  for (auto [from, to] : {std::pair{&all.queries, &one.queries},
                          {&all.keys, &one.keys},
                          {&all.vectors, &one.vectors},
                          {&all.betas, &one.betas},
                          {&all.d_scores, &one.d_scores}})
    copy<float>(last(*from), *to);
  check_alone_as_beside_others(all, one, *device, last);
}

TEST_CASE("tensors of scores on a GPU begin anywhere", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TokenLayout layout = TokenLayout::time_major(40, 2);
  ScoresCase<float> c(layout, 2, 8, 40, {});
  c.move_to(*device);
  c.run();
  WithOffset<float> queries(c.queries), keys(c.keys), vectors(c.vectors), betas(c.betas),
      d_scores(c.d_scores), scores(c.d_scores), d_queries(c.queries), d_keys(c.keys), d_vectors(c.vectors),
      d_betas(c.betas);
  const PositionScoresInput<float> input{
      .queries = queries.view(), .keys = keys.view(), .vectors = vectors.view(), .betas = betas.view()};
  position_scores_forward<float>(input, layout, {}, scores.view(), *c.saved);
  position_scores_backward<float>(input, layout, {},
                                  {.d_scores = d_scores.view(),
                                   .d_queries = d_queries.view(),
                                   .d_keys = d_keys.view(),
                                   .d_vectors = d_vectors.view(),
                                   .d_betas = d_betas.view()},
                                  *c.saved);
  for (auto [found, expected] : {std::pair{&scores, &c.scores},
                                 {&d_queries, &c.d_queries},
                                 {&d_keys, &c.d_keys},
                                 {&d_vectors, &c.d_vectors},
                                 {&d_betas, &c.d_betas}}) {
    Tensor<float> here(expected->shape());
    copy<float>(found->view(), here);
    CHECK(same_bits(here, expected->copy(Device::cpu())));
  }
}

TEST_CASE("scores on a GPU can be recorded, and allocate nothing after the first", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
  } else {
    ScoresCase<float> c(TokenLayout::time_major(40, 3), 2, 6, 40, {});
    c.move_to(*device);
    c.run();
    c.run();  // memory that was too small is one piece now
    const std::uint64_t before = cuda::memory_changes(*device);
    c.run();
    CHECK(cuda::memory_changes(*device) == before);
    const std::vector<Tensor<float>> expected = results_on_host(c);
    cuda::Graph graph;
    graph.record(*device, [&] { c.run(); });
    for (auto [name, x] : c.results()) copy<float>(normal_tensor<float>(x->shape(), 11), *x);
    graph.launch();
    const std::vector<Tensor<float>> found = results_on_host(c);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
}

TEST_CASE("position_scores on a GPU refuses what does not fit", "[delta][cuda]") {
  const auto device = gpu();
  if (!device) return;
  ScoresCase<float> c(TokenLayout::time_major(3, 2), 2, 5, 3, {});
  c.move_to(*device);
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.run(), contains(words)); };
  c.betas = c.betas.copy(Device::cpu());
  refused("betas on cpu, but scratch memory (Saved) on cuda:0");
  CHECK_THROWS_AS(c.run(), DeviceError);
  c.betas = c.betas.copy(*device);
  c.scores = c.scores.copy(Device::cpu());
  refused("scores on cpu");
  c.scores = c.scores.copy(*device);
  ScoresCase<float> other(TokenLayout::time_major(9, 3), 2, 5, 9, {});
  other.move_to(*device);
  position_scores_forward<float>(other.input(), other.layout, {}, other.scores, *other.saved);
  CHECK_THROWS_WITH(
      position_scores_backward<float>(c.input(), c.layout, c.options, c.gradients(), *other.saved),
      contains("the forward kept"));
  ScoresCase<float> wide(TokenLayout::time_major(1, 1), 1, 100'000, 1, {});
  wide.move_to(*device);
  CHECK_THROWS_AS(wide.run(), ValueError);
  CHECK(wide.saved->size() == 0);
}
