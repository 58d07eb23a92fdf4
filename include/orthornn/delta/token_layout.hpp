#pragma once

#include <memory>
#include <span>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Where the tokens of B sequences lie among the R rows of tensors [R, ..]. An operation reads sequences of
/// any layout where they lie, without a copy. A row belongs to one sequence at most; rows of no sequence are
/// padding. On a GPU, keep a layout that comes again: each one made takes memory there.
class TokenLayout {
 public:
  /// Token t of a sequence is row `first + t * stride`.
  struct Sequence {
    Index first, stride, count;
    Index row(Index token) const { return first + token * stride; }
  };

  /// Tensors [T, B, ..], as everywhere in this library. `lengths` [B], 0 .. T, in host memory; without memory
  /// when all are T. Throws ValueError for a length outside 0 .. T, and ShapeError.
  static TokenLayout time_major(Index length, Index batch, ConstTensorView<std::int32_t> lengths = {});
  /// Tensors [B, T, ..], as in PyTorch. As above.
  static TokenLayout sequence_major(Index batch, Index length, ConstTensorView<std::int32_t> lengths = {});
  /// Sequences of different lengths one after another, without padding: sequence b is rows offsets[b] ..
  /// offsets[b + 1] - 1. Throws ValueError unless there are B + 1 offsets that begin with 0 and never fall.
  static TokenLayout packed(std::span<const Index> offsets);

  /// R.
  Index rows() const { return rows_; }
  /// Rows that belong to a sequence.
  Index tokens() const { return tokens_; }
  /// B.
  Index size() const { return static_cast<Index>(sequences_.size()); }
  const Sequence& operator[](Index b) const { return sequences_[static_cast<std::size_t>(b)]; }
  /// Tokens of the longest sequence.
  Index longest() const { return longest_; }
  /// Whether some rows belong to no sequence.
  bool has_padding() const { return tokens_ < rows_; }

  /// [B, 4] in the memory of a device, for its kernels: first row, stride, number of tokens, and the tokens
  /// of all sequences before. Made at the first call for a device, which waits for it, and kept as long as a
  /// copy of this layout lives; one must outlive recordings that use it. Threads that use different devices
  /// may call it at once. Throws DeviceError if memory is short, and where the first call comes while
  /// operations are recorded.
  TensorView<const Index> on(Device device) const;

 private:
  /// The tables on all devices, which copies of a layout share.
  class Tables;

  TokenLayout(Index rows, std::vector<Sequence> sequences);

  Index rows_, tokens_ = 0, longest_ = 0;
  std::vector<Sequence> sequences_;
  std::shared_ptr<Tables> tables_;
};

}  // namespace orthornn
