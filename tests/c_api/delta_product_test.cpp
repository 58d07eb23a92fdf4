// Delta products and rank-one chains through the C interface, against the C++ ones.

#include "orthornn/delta/delta_product.hpp"

#include <limits>

#include "c_api/c_case.hpp"
#include "orthornn/delta/rank_one_chain.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

/// A layout as both interfaces take it.
struct BothLayouts {
  orthornn_layout c;
  TokenLayout cpp;
};

const std::vector<std::int32_t> four_lengths = {7, 0, 3, 5};
const std::vector<std::int64_t> four_offsets = {0, 6, 6, 7, 16};

/// Four sequences of at most seven tokens, in every order.
std::vector<BothLayouts> layouts_of_four() {
  const TensorView<const std::int32_t> lengths(four_lengths.data(), {4});
  return {
      {{ORTHORNN_SEQUENCE_MAJOR, 0, 4, 7, nullptr, nullptr}, TokenLayout::sequence_major(4, 7)},
      {{ORTHORNN_SEQUENCE_MAJOR, 0, 4, 7, four_lengths.data(), nullptr},
       TokenLayout::sequence_major(4, 7, lengths)},
      {{ORTHORNN_TIME_MAJOR, 0, 4, 7, four_lengths.data(), nullptr}, TokenLayout::time_major(7, 4, lengths)},
      {{ORTHORNN_PACKED, 0, 4, 0, nullptr, four_offsets.data()}, TokenLayout::packed(four_offsets)}};
}

/// What a delta product and its backward read, and what they wrote.
template <class T>
struct LentDeltaCase {
  orthornn_delta_product product;
  BothLayouts layout;
  Tensor<T> queries, keys, values, betas, log_decays, removals, states, d_outputs, d_final;
  Tensor<T> outputs, final_states, d_queries, d_keys, d_values, d_betas, d_log_decays, d_removals, d_states;

  LentDeltaCase(const orthornn_delta_product& settings, const BothLayouts& of)
      : product(settings), layout(of) {
    const Index rows = layout.cpp.rows(), sequences = layout.cpp.size();
    const auto& [n, heads, key, value] =
        std::array{product.factors, product.heads, product.key, product.value};
    queries = normal_tensor<T>({rows, heads, key}, 1);
    keys = normal_tensor<T>({rows, n, heads, key}, 2, 0.4);
    values = normal_tensor<T>({rows, n, heads, value}, 3);
    betas = normal_tensor<T>({rows, n, heads}, 4, 0.5);
    if (product.decay != ORTHORNN_NO_DECAY) {
      log_decays = normal_tensor<T>(
          product.decay == ORTHORNN_DECAY_OF_HEAD ? Shape{rows, heads} : Shape{rows, heads, key}, 5, 0.2);
      for (T& x : log_decays) x = -std::abs(x);
    }
    if (product.removals != 0) removals = normal_tensor<T>({rows, n, heads, key}, 6);
    states = normal_tensor<T>({sequences, heads, key, value}, 7);
    d_outputs = normal_tensor<T>({rows, heads, value}, 8);
    d_final = normal_tensor<T>({sequences, heads, key, value}, 9);
    outputs.resize(d_outputs.shape());
    final_states.resize(d_final.shape());
    d_queries.resize(queries.shape());
    d_keys.resize(keys.shape());
    d_values.resize(values.shape());
    d_betas.resize(betas.shape());
    if (!log_decays.empty()) d_log_decays.resize(log_decays.shape());
    if (!removals.empty()) d_removals.resize(removals.shape());
    d_states.resize(states.shape());
  }

  orthornn_delta_inputs inputs() const {
    return {queries.data(),    keys.data(),     values.data(), betas.data(),
            log_decays.data(), removals.data(), states.data()};
  }
  DeltaProductInput<T> cpp_inputs() const {
    return {queries, keys, values, betas, log_decays, removals, states};
  }
  DeltaProductOptions cpp_options() const {
    return {.form = static_cast<DeltaForm>(product.form),
            .scale = product.scale,
            .unit_keys = product.unit_keys == 1,
            .chunk = product.chunk};
  }

  std::int64_t saved_bytes() const {
    return asked_bytes(orthornn_delta_product_saved, nullptr, &product, &layout.c);
  }
  void forward(std::vector<std::int64_t>* saved) {
    Workspace workspace(asked_bytes(orthornn_delta_product_forward_workspace, nullptr, &product, &layout.c,
                                    saved == nullptr ? 0 : 1));
    const orthornn_delta_inputs given = inputs();
    require_status(orthornn_delta_product_forward(
        nullptr, &product, &layout.c, &given, outputs.data(), final_states.data(),
        saved == nullptr ? nullptr : saved->data(), saved == nullptr ? 0 : saved_bytes(), workspace.data(),
        workspace.bytes()));
  }
  void backward(std::vector<std::int64_t>& saved) {
    Workspace workspace(asked_bytes(orthornn_delta_product_backward_workspace, nullptr, &product, &layout.c));
    const orthornn_delta_inputs given = inputs();
    const orthornn_delta_gradients gradients = {d_outputs.data(),    d_final.data(),    d_queries.data(),
                                                d_keys.data(),       d_values.data(),   d_betas.data(),
                                                d_log_decays.data(), d_removals.data(), d_states.data()};
    require_status(orthornn_delta_product_backward(nullptr, &product, &layout.c, &given, &gradients,
                                                   saved.data(), saved_bytes(), workspace.data(),
                                                   workspace.bytes()));
  }
  /// Memory for what a forward keeps, at an address that is a multiple of 8 and no more.
  std::vector<std::int64_t> saved() const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(saved_bytes()) / 8, -1);
  }
};

template <class T>
void check_delta(const orthornn_delta_product& product, const BothLayouts& layout) {
  LentDeltaCase<T> c(product, layout);
  std::vector<std::int64_t> saved = c.saved();
  c.forward(nullptr);
  Tensor<T> outputs(c.outputs.shape()), final_states(c.final_states.shape());
  Saved stack(Device::cpu());
  delta_product_forward<T>(c.cpp_inputs(), layout.cpp, c.cpp_options(), outputs, final_states, stack);
  REQUIRE(same_bits(c.outputs, outputs));
  REQUIRE(same_bits(c.final_states, final_states));
  c.outputs.resize(c.outputs.shape());
  c.forward(&saved);
  REQUIRE(same_bits(c.outputs, outputs));
  Tensor<T> d_queries(c.queries.shape()), d_keys(c.keys.shape()), d_values(c.values.shape()),
      d_betas(c.betas.shape()), d_log_decays(c.log_decays.shape()), d_removals(c.removals.shape()),
      d_states(c.states.shape());
  delta_product_backward<T>(
      c.cpp_inputs(), layout.cpp, c.cpp_options(),
      {c.d_outputs, c.d_final, d_queries, d_keys, d_values, d_betas, d_log_decays, d_removals, d_states},
      stack);
  // Saved in another place meanwhile.
  std::vector<std::int64_t> moved(saved.size() + 3);
  std::copy(saved.begin(), saved.end(), moved.begin());
  c.backward(moved);
  CHECK(std::equal(saved.begin(), saved.end(), moved.begin()));
  REQUIRE(same_bits(c.d_queries, d_queries));
  REQUIRE(same_bits(c.d_keys, d_keys));
  REQUIRE(same_bits(c.d_values, d_values));
  REQUIRE(same_bits(c.d_betas, d_betas));
  REQUIRE(same_bits(c.d_states, d_states));
  if (!c.log_decays.empty()) REQUIRE(same_bits(c.d_log_decays, d_log_decays));
  if (!c.removals.empty()) REQUIRE(same_bits(c.d_removals, d_removals));
}

orthornn_delta_product settings(std::int32_t dtype, std::int32_t form, std::int32_t decay,
                                std::int32_t removals, std::array<Index, 4> sizes, Index chunk = 0) {
  return {dtype, form, 1, 0, decay, removals, 0.7, chunk, 0, sizes[0], sizes[1], sizes[2], sizes[3]};
}

}  // namespace

TEMPLATE_TEST_CASE("Delta products through the C interface have the bits of the C++ ones", "[c_api]", float,
                   double) {
  constexpr std::int32_t dtype = dtype_of<TestType>;
  for (const BothLayouts& layout : layouts_of_four()) {
    for (const std::array<Index, 4>& sizes :
         {std::array<Index, 4>{1, 1, 4, 4}, {2, 3, 8, 5}, {3, 2, 17, 33}}) {
      CAPTURE(layout.c.order, layout.c.lengths != nullptr, sizes[0], sizes[1], sizes[2], sizes[3]);
      for (const Index chunk : {0, 1, 4}) {
        check_delta<TestType>(settings(dtype, ORTHORNN_CHUNKED, ORTHORNN_DECAY_OF_HEAD, 0, sizes, chunk),
                              layout);
        check_delta<TestType>(settings(dtype, ORTHORNN_CHUNKED, ORTHORNN_NO_DECAY, 0, sizes, chunk), layout);
      }
      check_delta<TestType>(settings(dtype, ORTHORNN_RECURRENT, ORTHORNN_DECAY_OF_ROW, 1, sizes), layout);
      check_delta<TestType>(settings(dtype, ORTHORNN_RECURRENT, ORTHORNN_NO_DECAY, 0, sizes), layout);
    }
  }
}

TEST_CASE("A delta product of long sequences needs the memory that it says", "[c_api]") {
  const std::vector<std::int64_t> offsets = {0, 1, 130, 131, 331};
  const BothLayouts layout{{ORTHORNN_PACKED, 0, 4, 0, nullptr, offsets.data()}, TokenLayout::packed(offsets)};
  check_delta<float>(settings(ORTHORNN_F32, ORTHORNN_CHUNKED, ORTHORNN_DECAY_OF_HEAD, 0, {2, 2, 16, 16}),
                     layout);
  check_delta<float>(settings(ORTHORNN_F32, ORTHORNN_RECURRENT, ORTHORNN_NO_DECAY, 0, {1, 1, 100, 40}),
                     layout);
}

TEMPLATE_TEST_CASE("The best form of a delta product through the C interface is that of the layers",
                   "[c_api]", float, double) {
  const std::vector<std::int64_t> offsets = {0, 3, 19};
  const std::vector<std::int32_t> lengths = {3, 2};
  const TensorView<const std::int32_t> few(lengths.data(), {2});
  const BothLayouts one{{ORTHORNN_TIME_MAJOR, 0, 2, 1, nullptr, nullptr}, TokenLayout::time_major(1, 2)},
      below{{ORTHORNN_SEQUENCE_MAJOR, 0, 2, 15, nullptr, nullptr}, TokenLayout::sequence_major(2, 15)},
      chunk{{ORTHORNN_SEQUENCE_MAJOR, 0, 2, 16, nullptr, nullptr}, TokenLayout::sequence_major(2, 16)},
      padded{{ORTHORNN_SEQUENCE_MAJOR, 0, 2, 16, lengths.data(), nullptr},
             TokenLayout::sequence_major(2, 16, few)},
      packed{{ORTHORNN_PACKED, 0, 2, 0, nullptr, offsets.data()}, TokenLayout::packed(offsets)};
  const auto check = [](const BothLayouts& layout, std::int32_t decay, std::int32_t removals,
                        std::int32_t expected) {
    CAPTURE(layout.c.order, layout.c.length, decay, removals);
    // A chunk of 32 factors has 16 tokens of two.
    const auto product = [&](std::int32_t form) {
      return settings(dtype_of<TestType>, form, decay, removals, {2, 2, 8, 5});
    };
    LentDeltaCase<TestType> best(product(ORTHORNN_BEST_FORM), layout), same(product(expected), layout),
        other(product(1 - expected), layout);
    REQUIRE(best.saved_bytes() == same.saved_bytes());
    for (LentDeltaCase<TestType>* c : {&best, &same}) {
      std::vector<std::int64_t> saved = c->saved();
      c->forward(&saved);
      c->backward(saved);
    }
    CHECK(same_bits(best.outputs, same.outputs));
    CHECK(same_bits(best.d_keys, same.d_keys));
    if (decay == ORTHORNN_DECAY_OF_ROW || removals != 0) return;
    CHECK(best.saved_bytes() != other.saved_bytes());
    other.forward(nullptr);
    CHECK_FALSE(same_bits(best.outputs, other.outputs));
  };
  check(one, ORTHORNN_NO_DECAY, 0, ORTHORNN_RECURRENT);
  check(below, ORTHORNN_DECAY_OF_HEAD, 0, ORTHORNN_RECURRENT);
  for (const BothLayouts& layout : {chunk, padded, packed}) {
    check(layout, ORTHORNN_DECAY_OF_HEAD, 0, ORTHORNN_CHUNKED);
    check(layout, ORTHORNN_DECAY_OF_ROW, 0, ORTHORNN_RECURRENT);
    check(layout, ORTHORNN_NO_DECAY, 1, ORTHORNN_RECURRENT);
  }
}

TEST_CASE("Gradients of a delta product through the C interface are those of finite differences",
          "[c_api][gradient]") {
  for (const std::int32_t form : {ORTHORNN_RECURRENT, ORTHORNN_CHUNKED}) {
    CAPTURE(form);
    LentDeltaCase<double> c(settings(ORTHORNN_F64, form, ORTHORNN_DECAY_OF_HEAD, 0, {2, 2, 3, 2}, 4),
                            layouts_of_four()[3]);
    std::vector<std::int64_t> saved = c.saved();
    c.forward(&saved);
    c.backward(saved);
    const auto check = [&](Tensor<double>& values, const Tensor<double>& gradient) {
      const Tensor<double> expected = finite_differences(values.view(), [&] {
        c.forward(nullptr);
        return inner_product(c.outputs, c.d_outputs) + inner_product(c.final_states, c.d_final);
      });
      for (Index i = 0; i < gradient.size(); ++i)
        CHECK(gradient.data()[i] == Approx(expected.data()[i]).epsilon(1e-6).margin(1e-8));
    };
    check(c.queries, c.d_queries);
    check(c.keys, c.d_keys);
    check(c.values, c.d_values);
    check(c.betas, c.d_betas);
    check(c.log_decays, c.d_log_decays);
    check(c.states, c.d_states);
  }
}

TEST_CASE("A delta product goes on token by token through the C interface", "[c_api]") {
  const orthornn_delta_product product =
      settings(ORTHORNN_F32, ORTHORNN_RECURRENT, ORTHORNN_DECAY_OF_ROW, 1, {2, 2, 6, 5});
  const BothLayouts layout{{ORTHORNN_TIME_MAJOR, 0, 3, 4, nullptr, nullptr}, TokenLayout::time_major(4, 3)};
  LentDeltaCase<float> c(product, layout);
  c.forward(nullptr);
  Tensor<float> states = c.states.copy(), outputs({3, 2, 5});
  for (Index t = 0; t < 4; ++t) {
    const auto at = [&](const Tensor<float>& x) { return x.view().slice(3 * t, 3).data(); };
    const orthornn_delta_inputs inputs = {at(c.queries),    at(c.keys),     at(c.values), at(c.betas),
                                          at(c.log_decays), at(c.removals), nullptr};
    require_status(orthornn_delta_product_step(nullptr, &product, 3, &inputs, states.data(), outputs.data()));
    for (Index i = 0; i < outputs.size(); ++i)
      REQUIRE(outputs.data()[i] == c.outputs.view().slice(3 * t, 3).data()[i]);
  }
  CHECK(same_bits(states, c.final_states));
}

TEST_CASE("Delta products through the C interface of nothing at all", "[c_api]") {
  const orthornn_delta_product product =
      settings(ORTHORNN_F32, ORTHORNN_CHUNKED, ORTHORNN_DECAY_OF_HEAD, 0, {2, 2, 4, 3});
  for (const auto& [batch, length] : {std::pair<Index, Index>{0, 5}, {3, 0}, {0, 0}}) {
    CAPTURE(batch, length);
    const BothLayouts layout{{ORTHORNN_SEQUENCE_MAJOR, 0, batch, length, nullptr, nullptr},
                             TokenLayout::sequence_major(batch, length)};
    LentDeltaCase<float> c(product, layout);
    std::vector<std::int64_t> saved = c.saved();
    c.forward(&saved);
    CHECK(same_bits(c.final_states, c.states));
    c.backward(saved);
    CHECK(same_bits(c.d_states, c.d_final));
  }
}

TEST_CASE("Rank-one chains through the C interface of no factors, with scales of no elements", "[c_api]") {
  const orthornn_rank_one_chain chain{ORTHORNN_F32, 0, 0, 2, 3, 4};
  const orthornn_layout layout{ORTHORNN_SEQUENCE_MAJOR, 0, 2, 0, nullptr, nullptr};
  const Tensor<float> states = normal_tensor<float>({2, 2, 3, 4}, 1),
                      d_last = normal_tensor<float>({2, 2, 3, 4}, 2);
  Tensor<float> last(states.shape()), d_states(states.shape());
  float scale = 0;  // the address of an array without elements
  const orthornn_chain_inputs inputs{nullptr, nullptr, &scale, &scale, states.data()};
  const orthornn_chain_gradients gradients{nullptr, d_last.data(), nullptr,        nullptr,
                                           &scale,  &scale,        d_states.data()};
  std::int64_t saved_bytes = 0, bytes = 0;
  require_status(orthornn_rank_one_chain_saved(nullptr, &chain, &layout, &saved_bytes));
  std::vector<std::int64_t> saved(static_cast<std::size_t>(saved_bytes) / 8 + 1);
  require_status(orthornn_rank_one_chain_forward(nullptr, &chain, &layout, &inputs, nullptr, last.data(),
                                                 saved.data(), saved_bytes, nullptr, 0));
  CHECK(same_bits(last, states));
  require_status(orthornn_rank_one_chain_backward_workspace(nullptr, &chain, &layout, &bytes));
  Workspace workspace(bytes);
  require_status(orthornn_rank_one_chain_backward(nullptr, &chain, &layout, &inputs, &gradients, saved.data(),
                                                  saved_bytes, workspace.data(), workspace.bytes()));
  CHECK(same_bits(d_states, d_last));
}

TEST_CASE("Bad arguments of delta products are statuses that name the argument", "[c_api]") {
  const orthornn_delta_product good =
      settings(ORTHORNN_F32, ORTHORNN_CHUNKED, ORTHORNN_NO_DECAY, 0, {1, 1, 4, 4});
  const orthornn_layout layout{ORTHORNN_SEQUENCE_MAJOR, 0, 2, 3, nullptr, nullptr};
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = 0;
  const auto refuses = [&](auto member, auto value, const std::string& message) {
    orthornn_delta_product changed = good;
    changed.*member = value;
    require_error(orthornn_delta_product_saved(nullptr, &changed, &layout, &bytes), bad, message);
  };
  using Product = orthornn_delta_product;
  refuses(&Product::dtype, 3, "dtype is 3");
  refuses(&Product::form, 3, "form is 3");
  refuses(&Product::unit_keys, 2, "unit_keys is 2");
  refuses(&Product::precision, -1, "precision is -1");
  refuses(&Product::decay, 3, "decay is 3");
  refuses(&Product::removals, -1, "removals is -1");
  refuses(&Product::chunk, std::int64_t{-1}, "chunk is -1");
  refuses(&Product::segments, std::int64_t{-1}, "segments is -1");
  refuses(&Product::factors, std::int64_t{0}, "factors is 0");
  refuses(&Product::heads, std::int64_t{-1}, "heads is -1");
  refuses(&Product::key, most, "63 bits");
  refuses(&Product::value, most, "63 bits");
  const auto refuses_layout = [&](const orthornn_layout& changed, orthornn_status status,
                                  const std::string& message) {
    require_error(orthornn_delta_product_saved(nullptr, &good, &changed, &bytes), status, message);
  };
  const std::vector<std::int32_t> long_ones = {3, 4};
  const std::vector<std::int64_t> falling = {0, 3, 2}, late = {1, 2, 3};
  refuses_layout({3, 0, 2, 3, nullptr, nullptr}, bad, "order is 3");
  refuses_layout({0, 1, 2, 3, nullptr, nullptr}, bad, "reserved is 1");
  refuses_layout({0, 0, -1, 3, nullptr, nullptr}, bad, "batch is -1");
  refuses_layout({0, 0, most, 3, nullptr, nullptr}, bad, "batch is");
  refuses_layout({0, 0, 2, most, nullptr, nullptr}, bad, "63 bits");
  refuses_layout({0, 0, Index{1} << 31, 0, nullptr, nullptr}, bad, "batch is 2147483648");
  refuses_layout({0, 0, 2, 3, long_ones.data(), nullptr}, ORTHORNN_INVALID_VALUE, "lengths[1] is 4");
  refuses_layout({0, 0, 2, 3, nullptr, falling.data()}, bad, "offsets must be NULL");
  refuses_layout({2, 0, 2, 3, nullptr, nullptr}, bad, "offsets is NULL");
  refuses_layout({2, 0, 2, 3, nullptr, falling.data()}, ORTHORNN_INVALID_VALUE, "fall from 3 to 2");
  refuses_layout({2, 0, 2, 3, nullptr, late.data()}, ORTHORNN_INVALID_VALUE, "begin with 1");
  refuses_layout({2, 0, 2, 3, long_ones.data(), late.data()}, bad, "lengths must be NULL");
  require_error(orthornn_delta_product_saved(nullptr, nullptr, &layout, &bytes), bad, "product is NULL");
  require_error(orthornn_delta_product_saved(nullptr, &good, nullptr, &bytes), bad, "layout is NULL");
  require_error(orthornn_delta_product_saved(nullptr, &good, &layout, nullptr), bad, "bytes is NULL");

  require_status(orthornn_delta_product_saved(nullptr, &good, &layout, &bytes));
  std::vector<float> x(2 * 3 * 4), beta(6);
  std::vector<std::int64_t> saved(static_cast<std::size_t>(bytes) / 8);
  const auto forward = [&](const orthornn_delta_inputs& inputs, std::int64_t given) {
    std::vector<float> outputs(x.size());
    return orthornn_delta_product_forward(nullptr, &good, &layout, &inputs, outputs.data(), nullptr,
                                          saved.data(), given, nullptr, 0);
  };
  require_status(forward({x.data(), x.data(), x.data(), beta.data(), nullptr, nullptr, nullptr}, bytes));
  require_error(forward({nullptr, x.data(), x.data(), beta.data(), nullptr, nullptr, nullptr}, bytes), bad,
                "queries is NULL");
  require_error(forward({x.data(), x.data(), x.data(), nullptr, nullptr, nullptr, nullptr}, bytes), bad,
                "betas is NULL");
  require_error(forward({x.data(), x.data(), x.data(), beta.data(), beta.data(), nullptr, nullptr}, bytes),
                bad, "log_decays must be NULL");
  require_error(forward({x.data(), x.data(), x.data(), beta.data(), nullptr, nullptr, nullptr}, bytes - 8),
                bad, "saved has " + std::to_string(bytes - 8) + " bytes, expected " + std::to_string(bytes));
  orthornn_delta_product removals = good;
  removals.removals = 1;
  const orthornn_delta_inputs inputs{x.data(), x.data(), x.data(), beta.data(), nullptr, x.data(), nullptr};
  std::vector<float> outputs(x.size());
  require_error(orthornn_delta_product_forward(nullptr, &removals, &layout, &inputs, outputs.data(), nullptr,
                                               saved.data(), bytes, nullptr, 0),
                ORTHORNN_INVALID_VALUE, "need the recurrent form");
}

TEMPLATE_TEST_CASE("Rank-one chains through the C interface have the bits of the C++ ones", "[c_api]", float,
                   double) {
  using T = TestType;
  for (const BothLayouts& layout : layouts_of_four()) {
    for (const bool scaled : {false, true}) {
      const orthornn_rank_one_chain chain{dtype_of<T>, 0, 3, 2, 5, 4};
      const Index rows = layout.cpp.rows();
      CAPTURE(layout.c.order, layout.c.lengths != nullptr, scaled);
      const Tensor<T> left = normal_tensor<T>({rows, 2, 5}, 1, 0.3),
                      right = normal_tensor<T>({rows, 2, 5}, 2), states = normal_tensor<T>({4, 2, 5, 4}, 3),
                      d_outputs = normal_tensor<T>({rows, 2, 4}, 4),
                      d_final = normal_tensor<T>({4, 2, 5, 4}, 5);
      const Tensor<T> scales = scaled ? normal_tensor<T>({rows, 2}, 6) : Tensor<T>();
      const RankOneChainInput<T> input{left, right, scales, scales, states};
      const orthornn_chain_inputs c_input{left.data(), right.data(), scales.data(), scales.data(),
                                          states.data()};
      Tensor<T> outputs(d_outputs.shape()), last(states.shape()), c_outputs(d_outputs.shape()),
          c_last(states.shape());
      Saved stack(Device::cpu());
      rank_one_chain_forward<T>(input, layout.cpp, {.chunk = 3}, outputs, last, stack);
      std::int64_t saved_bytes = 0, bytes = 0;
      require_status(orthornn_rank_one_chain_forward_workspace(nullptr, &chain, &layout.c, 0, &bytes));
      Workspace alone(bytes);
      require_status(orthornn_rank_one_chain_forward(nullptr, &chain, &layout.c, &c_input, c_outputs.data(),
                                                     c_last.data(), nullptr, 0, alone.data(), bytes));
      REQUIRE(same_bits(c_outputs, outputs));
      REQUIRE(same_bits(c_last, last));
      require_status(orthornn_rank_one_chain_saved(nullptr, &chain, &layout.c, &saved_bytes));
      std::vector<std::int64_t> saved(static_cast<std::size_t>(saved_bytes) / 8);
      require_status(orthornn_rank_one_chain_forward(nullptr, &chain, &layout.c, &c_input, c_outputs.data(),
                                                     c_last.data(), saved.data(), saved_bytes, nullptr, 0));
      REQUIRE(same_bits(c_outputs, outputs));

      const auto gradients = [&] {
        return std::array{Tensor<T>(left.shape()), Tensor<T>(left.shape()), Tensor<T>(scales.shape()),
                          Tensor<T>(scales.shape()), Tensor<T>(states.shape())};
      };
      auto g = gradients(), c = gradients();
      rank_one_chain_backward<T>(input, layout.cpp, {.chunk = 3},
                                 {d_outputs, d_final, g[0], g[1], g[2], g[3], g[4]}, stack);
      require_status(orthornn_rank_one_chain_backward_workspace(nullptr, &chain, &layout.c, &bytes));
      Workspace workspace(bytes);
      const orthornn_chain_gradients c_gradients{d_outputs.data(), d_final.data(), c[0].data(), c[1].data(),
                                                 c[2].data(),      c[3].data(),    c[4].data()};
      require_status(orthornn_rank_one_chain_backward(nullptr, &chain, &layout.c, &c_input, &c_gradients,
                                                      saved.data(), saved_bytes, workspace.data(),
                                                      workspace.bytes()));
      for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(same_bits(c[i], g[i]));
    }
  }
}

}  // namespace orthornn::testing
