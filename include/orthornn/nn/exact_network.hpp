#pragma once

#include <optional>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/gated_mlp_layer.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/group_words.hpp"

namespace orthornn {

/// A DeltaProduct network that solves the word problem of a group, with parameters that are known and not
/// learned (docs/math.md, section 8; Siems et al., NeurIPS 2025, arXiv 2502.10297, theorems 1, 3 and 6). It
/// has the layers of `delta_product_blocks`, beta_limit 2, no readout norm, decay, convolution or gate.
///
/// With one layer, the state becomes A(y_t) less the identity, where A is the `orthogonal_representation`. It
/// takes as many factors as an element of the alphabet needs reflections, at most n - 1 for S_n. An MLP is
/// not needed, and adds nothing.
///
/// With three layers, each with an MLP, it takes half as many factors, at least two. The last layer is a
/// block of two symbols late: while block l + 1 is read, it applies the product of block l, one half of its
/// swaps at each step. The other half, and the symbols of the block that is read, are permuted into the
/// numbers that are read from the state. tasks/words/README.md has the construction and its proof.
///
/// Rounding errors grow by about equal amounts at each step, as factors do not lengthen them. That README
/// says for how many steps the answers stay right.
class ExactNetwork {
 public:
  /// Largest number of points that the group of a network of three layers may permute.
  static constexpr Index most_points = 16;

  /// Finds the sizes of a network of 1 or 3 layers. Throws ValueError for another number of layers, a group
  /// with too many places or points, and for elements that the group does not have.
  ExactNetwork(const GroupWords& words, Index layers);

  /// Number of DeltaProduct layers, 1 or 3.
  Index layers() const { return layers_; }
  /// Options of the DeltaProduct layers, with the smallest sizes and number of factors that suffice. A model
  /// may have larger ones.
  const DeltaProductCell& cell() const { return cell_; }
  /// Options of the MLPs of three layers, with the smallest size that suffices; no value for one layer.
  const std::optional<GatedMlp>& mlp() const { return mlp_; }

  /// Options of a model of exactly these sizes. It answers at `every_step`, or once a sequence.
  ModelOptions model_options(bool every_step) const;
  /// Overwrites all parameters of a model by those of this network. Throws ValueError for a model with other
  /// layers, or with sizes that are too small.
  template <class T>
  void write(SequenceModel<T>& model) const;

 private:
  ModelOptions options_with(const DeltaProductCell& cell, const std::optional<GatedMlp>& mlp,
                            bool every_step) const;

  GroupWords words_;
  Index layers_;
  DeltaProductCell cell_;
  std::optional<GatedMlp> mlp_;
};

extern template void ExactNetwork::write<float>(SequenceModel<float>&) const;
extern template void ExactNetwork::write<double>(SequenceModel<double>&) const;

}  // namespace orthornn
