#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <span>

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

}  // namespace

ThreeLayerPlan::ThreeLayerPlan(const GroupWords& words) : points_(words.group.degree()) {
  const FiniteGroup& group = words.group;
  if (points_ > ExactNetwork::most_points) {
    throw ValueError(fmt::format("{} permutes {} points; expected at most {} for three layers", group.name(),
                                 points_, ExactNetwork::most_points));
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
  return {.hidden_size = factor(std::ssize(products_), first),
          .heads = points_ + 1,
          .key_size = points_,
          .value_size = points_,
          .householder = swaps_,
          .readout_norm = ReadoutNorm::none};
}

GatedMlp ThreeLayerPlan::mlp() const {
  const Index n = points_;
  return {.mlp_size = std::max(n * n * n + n * n, 2 * std::ssize(products_))};
}

template <class T>
void ThreeLayerPlan::write(ExactWeights<T>& weights) const {
  using Delta = typename ExactWeights<T>::Delta;
  using Mlp = typename ExactWeights<T>::Mlp;
  const Index n = points_;
  const double c = exact_value_size, large = weights.large, on = weights.beta_two, off = weights.beta_zero;
  const double plus = inverse_silu(c), minus = inverse_silu(-c);
  const auto each_pair = [&](const auto& body) {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) body(i, j);
    }
  };
  /// A step of a register of two rows in each of n heads: the first factor exchanges the rows, the second
  /// writes the first row over (beta = 1, which is sigma(0)). What is read is the second row.
  const auto write_register = [&](Delta& delta) {
    for (Index head = 0; head < n; ++head) {
      delta.key(0, head, 0, one(), plus);
      delta.key(0, head, 1, one(), minus);
      delta.key(1, head, 0, one(), large);
      delta.query(head, 1, one(), large);
    }
  };
  // Matrices that a register holds are less the identity, which the embedding has: it starts with 0.
  const auto read_register = [&](Delta& delta, Matrices to) {
    each_pair([&](Index i, Index j) { delta.read(i, j, matrix(to, i, j), 1 / c); });
  };

  for (Index s = 0; s < symbols(); ++s) {
    weights.embed(s, s);
    weights.embed(s, one());
    weights.embed(s, place(second));
    for (Index i = 0; i < n; ++i) {
      weights.embed(s, matrix(before, i, i));
      weights.embed(s, matrix(last_block, i, i));
    }
  }
  {  // 1. The place in the block, which changes at each step, and the symbol before.
    Delta delta(weights, 0, ones(2, false));
    delta.switch_off(n, 2, one());
    write_register(delta);
    read_register(delta, before);
    for (Index head = 0; head < n; ++head) {
      delta.beta(0, head, one(), on);
      for (Index s = 0; s < symbols(); ++s) {
        const Permutation& images = symbols_[static_cast<std::size_t>(s)];
        for (Index j = 0; j < n; ++j) {
          const Index difference = (images[static_cast<std::size_t>(j)] == head) - (j == head);
          if (difference != 0) delta.value(1, head, j, s, difference > 0 ? plus : minus);
        }
      }
    }
    // 0, 2 v, 0, 2 v, ..: beta = 2 reflects about v.
    delta.key(0, n, 0, one(), large);
    delta.value(0, n, 0, one(), large);
    delta.beta(0, n, one(), on);
    delta.query(n, 0, one(), large);
    delta.read(n, 0, place(first), 1 / (2 * large));
    delta.read(n, 0, place(second), -1 / (2 * large));
  }
  {  // The product of the block as far as it is read: x at its first step, x times the symbol before at its
     // second.
    Mlp mlp(weights, 0, ones(2, false));
    Index gate = 0;
    const auto open_gate = [&](Index i, Index j, Place p) {
      for (Index s = 0; s < symbols(); ++s) {
        if (symbols_[static_cast<std::size_t>(s)][static_cast<std::size_t>(j)] == i)
          mlp.condition(gate, s, 1);
      }
      mlp.condition(gate, place(p), 1);
      mlp.condition(gate, one(), -1.5);
    };
    each_pair([&](Index i, Index j) {
      open_gate(i, j, first);
      mlp.pass(gate, one());
      mlp.to(gate++, matrix(block, i, j));
      for (Index k = 0; k < n; ++k) {
        open_gate(i, j, second);
        mlp.pass(gate, matrix(before, j, k));
        mlp.to(gate++, matrix(block, i, k));
      }
    });
  }
  {  // 2. A register of products: rows are exchanged at the first step of a block.
    Delta delta(weights, 1, ones(3, false));
    delta.switch_off(n, 2, one());
    write_register(delta);
    read_register(delta, last_block);
    for (Index head = 0; head < n; ++head) {
      delta.beta(0, head, one(), off);
      delta.beta(0, head, place(first), on - off);
      for (Index j = 0; j < n; ++j) {
        if (j != head) delta.value(1, head, j, matrix(block, head, j), plus);
      }
      delta.value(1, head, head, one(), minus);
      delta.value(1, head, head, matrix(block, head, head), -minus);
    }
  }
  // The swaps of a product: some at the first step of the next block, the others at its second step.
  const auto swaps_at = [&](Index product, Place p) {
    const Swaps all = swaps_of(products_[static_cast<std::size_t>(product)]);
    const auto half = all.begin() + std::min(swaps_, std::ssize(all));
    return p == first ? Swaps(all.begin(), half) : Swaps(half, all.end());
  };
  // Those that are still to come.
  const auto images_later = [&](Index product, Place p) {
    return images_of(p == first ? swaps_at(product, second) : Swaps(), n);
  };
  const auto each_factor = [&](const auto& body) {
    for (Index product = 0; product < std::ssize(products_); ++product) {
      for (const Place p : {first, second}) body(product, p);
    }
  };
  {  // Which product it is, and the identity in the order that the swaps to come will make.
    Mlp mlp(weights, 1, ones(3, false));
    Index gate = 0;
    each_factor([&](Index product, Place p) {
      const Permutation& images = products_[static_cast<std::size_t>(product)];
      for (Index j = 0; j < n; ++j)
        mlp.condition(gate, matrix(last_block, images[static_cast<std::size_t>(j)], j), 1);
      mlp.condition(gate, place(p), 1);
      mlp.condition(gate, one(), -static_cast<double>(n) - 0.5);
      mlp.pass(gate, one());
      mlp.to(gate, factor(product, p));
      const std::vector<Index> later = images_later(product, p);
      for (Index j = 0; j < n; ++j) mlp.to(gate, matrix(read, later[static_cast<std::size_t>(j)], j));
      ++gate;
    });
  }
  {  // 3. The state, as in one layer. Each head reads the row that the swaps to come will bring to its place.
    Delta delta(weights, 2, ones(4, true));
    delta.switch_off(n, swaps_, one());
    each_factor([&](Index product, Place p) {
      const Index feature = factor(product, p);
      const Swaps swaps = swaps_at(product, p);
      const std::vector<Index> later = images_later(product, p);
      for (Index head = 0; head < n; ++head) {
        for (Index j = 0; j < swaps_; ++j) delta.beta(j, head, feature, j < std::ssize(swaps) ? on : off);
        for (Index j = 0; j < std::ssize(swaps); ++j) {
          const auto [a, b] = swaps[static_cast<std::size_t>(j)];
          delta.key(j, head, a, feature, plus);
          delta.key(j, head, b, feature, minus);
          delta.value(j, head, a, feature, inverse_silu(-c * std::sqrt(0.5)));
          delta.value(j, head, b, feature, inverse_silu(c * std::sqrt(0.5)));
        }
      }
      for (Index row = 0; row < n; ++row)
        delta.query(later[static_cast<std::size_t>(row)], row, feature, large);
    });
    each_pair([&](Index i, Index j) { delta.read(i, j, matrix(read, i, j), 1 / c); });
  }
  {  // The product of the block as far as it is read, times that.
    Mlp mlp(weights, 2, ones(4, true));
    Index gate = 0;
    each_pair([&](Index i, Index j) {
      for (Index k = 0; k < n; ++k, ++gate) {
        mlp.condition(gate, matrix(block, i, j), 1);
        mlp.condition(gate, one(), -0.5);
        mlp.pass(gate, matrix(read, j, k));
        mlp.to(gate, matrix(answer, i, k));
      }
    });
  }
  // The score of an element is the number of points that it sends where the answer does.
  const double scale = exact_score_gap / 2;  // permutations differ in two points at least
  for (Index h = 0; h < std::ssize(elements_); ++h) {
    for (Index j = 0; j < n; ++j) {
      const Index image = elements_[static_cast<std::size_t>(h)][static_cast<std::size_t>(j)];
      weights.classify(h, matrix(answer, image, j), scale, ones(5, true));
    }
  }
}

template void ThreeLayerPlan::write<float>(ExactWeights<float>&) const;
template void ThreeLayerPlan::write<double>(ExactWeights<double>&) const;

}  // namespace orthornn
