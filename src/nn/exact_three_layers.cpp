#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <vector>

#include "nn/exact_plan.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/delta/exact_factors.hpp"
#include "orthornn/nn/exact_network.hpp"

namespace orthornn {
namespace {

using Swaps = std::vector<std::array<Index, 2>>;

/// Where points are after some swaps, the first one done first.
std::vector<Index> images_of(std::span<const std::array<Index, 2>> swaps, Index points) {
  std::vector<Index> images(static_cast<std::size_t>(points));
  std::iota(images.begin(), images.end(), Index{0});
  for (Index& image : images) {
    for (const auto& [a, b] : swaps) image = image == a ? b : image == b ? a : image;
  }
  return images;
}

/// Permutations, each as the images of its points.
using Permutations = std::vector<std::vector<std::int32_t>>;

/// The steps that make the weights of three layers, in their order. `ones` is how many features are 1 at the
/// norm of a step.
template <class T>
class ThreeLayerSteps {
 public:
  ThreeLayerSteps(ExactWeights<T>& weights, const ThreeLayerFeatures& features)
      : weights_(weights), f_(features), n_(f_.points) {}

  void embed_symbols() {
    for (Index s = 0; s < f_.symbols; ++s) {
      weights_.embed(s, s);
      weights_.embed(s, f_.one());
      weights_.embed(s, f_.place(F::second));
      for (Index i = 0; i < n_; ++i) {
        weights_.embed(s, f_.matrix(F::before, i, i));
        weights_.embed(s, f_.matrix(F::last_block, i, i));
      }
    }
  }

  /// 1. The place in the block, which changes at each step, and the symbol before.
  void keep_symbol(const Permutations& symbols, double ones) {
    Delta delta(weights_, 0, ones);
    delta.switch_off(n_, 2, f_.one());
    write_register(delta);
    read_rows(delta, F::before);
    for (Index head = 0; head < n_; ++head) {
      delta.beta(0, head, f_.one(), on);
      for (Index s = 0; s < std::ssize(symbols); ++s) {
        const auto& images = symbols[static_cast<std::size_t>(s)];
        for (Index j = 0; j < n_; ++j) {
          const Index difference = (images[static_cast<std::size_t>(j)] == head) - (j == head);
          if (difference != 0) delta.value(1, head, j, s, difference > 0 ? plus_ : minus_);
        }
      }
    }
    // 0, 2 v, 0, 2 v, ..: beta = 2 reflects about v.
    delta.key(0, n_, 0, f_.one(), large);
    delta.value(0, n_, 0, f_.one(), large);
    delta.beta(0, n_, f_.one(), on);
    delta.query(n_, 0, f_.one(), large);
    delta.read(n_, 0, f_.place(F::first), 1 / (2 * large));
    delta.read(n_, 0, f_.place(F::second), -1 / (2 * large));
  }

  /// The product of the block as far as it is read: x at its first step, x times the symbol before at its
  /// second.
  void multiply_block(const Permutations& symbols, double ones) {
    Mlp mlp(weights_, 0, ones);
    Index gate = 0;
    const auto open_gate = [&](Index i, Index j, Index place) {
      for (Index s = 0; s < std::ssize(symbols); ++s) {
        if (symbols[static_cast<std::size_t>(s)][static_cast<std::size_t>(j)] == i) mlp.condition(gate, s, 1);
      }
      mlp.condition(gate, place, 1);
      mlp.condition(gate, f_.one(), -1.5);
    };
    each_pair([&](Index i, Index j) {
      open_gate(i, j, f_.place(F::first));
      mlp.pass(gate, f_.one());
      mlp.to(gate++, f_.matrix(F::block, i, j));
      for (Index k = 0; k < n_; ++k) {
        open_gate(i, j, f_.place(F::second));
        mlp.pass(gate, f_.matrix(F::before, j, k));
        mlp.to(gate++, f_.matrix(F::block, i, k));
      }
    });
  }

  /// 2. A register of products: rows are exchanged at the first step of a block.
  void keep_block(double ones) {
    Delta delta(weights_, 1, ones);
    delta.switch_off(n_, 2, f_.one());
    write_register(delta);
    read_rows(delta, F::last_block);
    for (Index head = 0; head < n_; ++head) {
      delta.beta(0, head, f_.one(), off);
      delta.beta(0, head, f_.place(F::first), on - off);
      for (Index j = 0; j < n_; ++j) {
        if (j != head) delta.value(1, head, j, f_.matrix(F::block, head, j), plus_);
      }
      delta.value(1, head, head, f_.one(), minus_);
      delta.value(1, head, head, f_.matrix(F::block, head, head), -minus_);
    }
  }

  /// Which product it is, and the identity in the order that the swaps to come will make.
  void find_product(const Permutations& products, Index swaps, double ones) {
    Mlp mlp(weights_, 1, ones);
    Index gate = 0;
    each_factor(products, [&](const auto& images, Index feature, Index place) {
      for (Index j = 0; j < n_; ++j)
        mlp.condition(gate, f_.matrix(F::last_block, images[static_cast<std::size_t>(j)], j), 1);
      mlp.condition(gate, f_.place(place), 1);
      mlp.condition(gate, f_.one(), -static_cast<double>(n_) - 0.5);
      mlp.pass(gate, f_.one());
      mlp.to(gate, feature);
      const std::vector<Index> later = images_later(images, swaps, place);
      for (Index j = 0; j < n_; ++j) mlp.to(gate, f_.matrix(F::read, later[static_cast<std::size_t>(j)], j));
      ++gate;
    });
  }

  /// 3. The state, as in one layer. Each head reads the row that the swaps to come will bring to its place.
  void swap_rows(const Permutations& products, Index most_swaps, double ones) {
    Delta delta(weights_, 2, ones);
    delta.switch_off(n_, most_swaps, f_.one());
    each_factor(products, [&](const auto& images, Index feature, Index place) {
      const Swaps swaps = swaps_at(images, most_swaps, place);
      const std::vector<Index> later = images_later(images, most_swaps, place);
      for (Index head = 0; head < n_; ++head) {
        for (Index j = 0; j < most_swaps; ++j) delta.beta(j, head, feature, j < std::ssize(swaps) ? on : off);
        for (Index j = 0; j < std::ssize(swaps); ++j) {
          const auto [a, b] = swaps[static_cast<std::size_t>(j)];
          delta.key(j, head, a, feature, plus_);
          delta.key(j, head, b, feature, minus_);
          delta.value(j, head, a, feature, inverse_silu(-c * std::sqrt(0.5)));
          delta.value(j, head, b, feature, inverse_silu(c * std::sqrt(0.5)));
        }
      }
      for (Index row = 0; row < n_; ++row)
        delta.query(later[static_cast<std::size_t>(row)], row, feature, large);
    });
    read_rows(delta, F::read);
  }

  /// The product of the block as far as it is read, times that.
  void multiply_state(double ones) {
    Mlp mlp(weights_, 2, ones);
    Index gate = 0;
    each_pair([&](Index i, Index j) {
      for (Index k = 0; k < n_; ++k, ++gate) {
        mlp.condition(gate, f_.matrix(F::block, i, j), 1);
        mlp.condition(gate, f_.one(), -0.5);
        mlp.pass(gate, f_.matrix(F::read, j, k));
        mlp.to(gate, f_.matrix(F::answer, i, k));
      }
    });
  }

  /// The score of an element is the number of points that it sends where the answer does.
  void score_elements(const Permutations& elements, double ones) {
    const double scale = exact_score_gap / 2;  // permutations differ in two points at least
    for (Index h = 0; h < std::ssize(elements); ++h) {
      for (Index j = 0; j < n_; ++j) {
        const Index image = elements[static_cast<std::size_t>(h)][static_cast<std::size_t>(j)];
        weights_.classify(h, f_.matrix(F::answer, image, j), scale, ones);
      }
    }
  }

 private:
  using F = ThreeLayerFeatures;
  using Delta = typename ExactWeights<T>::Delta;
  using Mlp = typename ExactWeights<T>::Mlp;

  static constexpr double c = exact_value_size, large = ExactWeights<T>::large,
                          on = ExactWeights<T>::beta_two, off = ExactWeights<T>::beta_zero;

  template <class Body>
  void each_pair(const Body& body) const {
    for (Index i = 0; i < n_; ++i) {
      for (Index j = 0; j < n_; ++j) body(i, j);
    }
  }

  /// Calls body(images, feature, place) for each product at each place in the next block.
  template <class Body>
  void each_factor(const Permutations& products, const Body& body) const {
    for (Index product = 0; product < std::ssize(products); ++product) {
      for (const Index place : {F::first, F::second})
        body(products[static_cast<std::size_t>(product)], f_.factor(product, place), place);
    }
  }

  /// A step of a register of two rows in each of n heads: the first factor exchanges the rows, the second
  /// writes the first row over (beta = 1, which is sigma(0)). What is read is the second row.
  void write_register(Delta& delta) const {
    for (Index head = 0; head < n_; ++head) {
      delta.key(0, head, 0, f_.one(), plus_);
      delta.key(0, head, 1, f_.one(), minus_);
      delta.key(1, head, 0, f_.one(), large);
      delta.query(head, 1, f_.one(), large);
    }
  }

  /// Matrices that a register holds are less the identity, which the embedding has: it starts with 0.
  void read_rows(Delta& delta, F::Matrix to) const {
    each_pair([&](Index i, Index j) { delta.read(i, j, f_.matrix(to, i, j), 1 / c); });
  }

  /// The swaps of a product: some at the first step of the next block, the others at its second step.
  static Swaps swaps_at(std::span<const std::int32_t> images, Index most, Index place) {
    const Swaps all = swaps_of(images);
    const auto half = all.begin() + std::min(most, std::ssize(all));
    return place == F::first ? Swaps(all.begin(), half) : Swaps(half, all.end());
  }
  /// Where points are after the swaps that are still to come.
  std::vector<Index> images_later(std::span<const std::int32_t> images, Index most, Index place) const {
    return images_of(place == F::first ? swaps_at(images, most, F::second) : Swaps(), n_);
  }

  ExactWeights<T>& weights_;
  F f_;
  Index n_;
  double plus_ = inverse_silu(c), minus_ = inverse_silu(-c);
};

}  // namespace

ThreeLayerPlan::ThreeLayerPlan(const GroupWords& words)
    : features_{.symbols = std::ssize(words.elements), .points = words.group.degree()} {
  const FiniteGroup& group = words.group;
  if (features_.points > ExactNetwork::most_points) {
    throw ValueError(fmt::format("{} permutes {} points; expected at most {} for three layers", group.name(),
                                 features_.points, ExactNetwork::most_points));
  }
  std::vector<Index> products = {FiniteGroup::identity};
  for (const Index a : words.elements) {
    symbols_.push_back(group.permutation(a));
    for (const Index b : words.elements) products.push_back(group.product(a, b));
  }
  std::ranges::sort(products);
  products.erase(std::unique(products.begin(), products.end()), products.end());
  for (const Index product : products) {
    const Permutation& permutation = products_.emplace_back(group.permutation(product));
    swaps_ = std::max(swaps_, (std::ssize(swaps_of(permutation)) + 1) / 2);
  }
  for (Index element = 0; element < group.order(); ++element) elements_.push_back(group.permutation(element));
}

DeltaProductCell ThreeLayerPlan::cell() const {
  return {.hidden_size = features_.factor(std::ssize(products_), ThreeLayerFeatures::first),
          .heads = features_.points + 1,
          .key_size = features_.points,
          .value_size = features_.points,
          .householder = swaps_,
          .readout_norm = ReadoutNorm::none};
}

GatedMlp ThreeLayerPlan::mlp() const {
  const Index n = features_.points;
  return {.mlp_size = std::max(n * n * n + n * n, 2 * std::ssize(products_))};
}

template <class T>
void ThreeLayerPlan::write(ExactWeights<T>& weights) const {
  const ThreeLayerFeatures& f = features_;
  ThreeLayerSteps<T> steps(weights, f);
  steps.embed_symbols();
  steps.keep_symbol(symbols_, f.ones(2));
  steps.multiply_block(symbols_, f.ones(2));
  steps.keep_block(f.ones(3));
  steps.find_product(products_, swaps_, f.ones(3));
  steps.swap_rows(products_, swaps_, f.ones(4, true));
  steps.multiply_state(f.ones(4, true));
  steps.score_elements(elements_, f.ones(5, true));
}

template void ThreeLayerPlan::write<float>(ExactWeights<float>&) const;
template void ThreeLayerPlan::write<double>(ExactWeights<double>&) const;

}  // namespace orthornn
