#pragma once

#include <optional>
#include <vector>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/gated_mlp_layer.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/group_words.hpp"

namespace orthornn {

/// A DeltaProduct network that solves the word problem of a group, with parameters that are known and not
/// learned (Siems et al., NeurIPS 2025, arXiv 2502.10297, theorems 1, 3 and 6). It has the layers of
/// `delta_product_blocks`, beta_limit 2, no readout norm, decay, convolution or gate.
///
/// One layer: the state becomes A(y_t) less the identity, where A is the `orthogonal_representation`. It
/// takes as many factors as an element of the alphabet needs reflections, at most n - 1 for S_n. An MLP is
/// not needed, and adds nothing.
///
/// Three layers, each with an MLP: half as many factors, at least two. The last layer is a block of two
/// symbols late: while block l + 1 is read, it applies the product of block l, one half of its swaps at each
/// step. What is missing, the other half and the symbols of the block that is read, is permuted into what is
/// read from the state. tasks/words/README.md has the construction and why it is right.
///
/// Rounding errors grow by about the same amount at each step, as factors do not lengthen them. The README
/// says how many steps that leaves.
class ExactNetwork {
 public:
  /// Points that the group of a network of three layers may permute.
  static constexpr Index most_points = 16;

  /// Throws ValueError for other numbers of layers than 1 and 3, a group with too many places or points, and
  /// elements that are none.
  ExactNetwork(const GroupWords& words, Index layers);

  Index layers() const { return layers_; }
  /// With the smallest sizes and number of factors that do. A model may have larger ones.
  const DeltaProductCell& cell() const { return cell_; }
  /// Of three layers, in the same way; of one, none.
  const std::optional<GatedMlp>& mlp() const { return mlp_; }

  /// A model of exactly these sizes. It answers at `every_step`, or once a sequence.
  ModelOptions model_options(bool every_step) const;
  /// Overwrites all parameters. Throws ValueError for a model that has not the layers, or sizes that are too
  /// small.
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
