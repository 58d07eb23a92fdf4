#pragma once

#include <memory>
#include <span>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Places of the tokens of B sequences among the R rows of tensors [R, ..]. An operation reads sequences of
/// any layout where they lie, without a copy. A row belongs to one sequence at most; rows of no sequence are
/// padding. On a GPU, keep a layout that is used again: each one that is not regular takes memory there.
class TokenLayout {
 public:
  /// Rows of one sequence.
  struct Sequence {
    Index first,  ///< Row of token 0.
        stride,   ///< Distance of the rows of two neighbouring tokens.
        count;    ///< Number of tokens.
    /// Row of a token, `first + token * stride`.
    Index row(Index token) const { return first + token * stride; }
  };

  /// Layout of tensors [T, B, ..], as everywhere in this library. `lengths` [B] are numbers 0 to T in host
  /// memory; an empty view when all are T. Throws ShapeError, and ValueError for a length outside 0 to T.
  static TokenLayout time_major(Index length, Index batch, ConstTensorView<std::int32_t> lengths = {});
  /// Layout of tensors [B, T, ..], as in PyTorch. Lengths and errors are as in `time_major`.
  static TokenLayout sequence_major(Index batch, Index length, ConstTensorView<std::int32_t> lengths = {});
  /// Layout of sequences of different lengths one after another, without padding: sequence b has the rows
  /// from offsets[b] to offsets[b + 1] - 1. Throws ValueError unless there are B + 1 offsets that begin with
  /// 0 and never fall.
  static TokenLayout packed(std::span<const Index> offsets);

  /// Number R of rows.
  Index rows() const { return rows_; }
  /// Number of rows that belong to a sequence.
  Index tokens() const { return tokens_; }
  /// Number B of sequences.
  Index size() const { return static_cast<Index>(sequences_.size()); }
  /// Rows of sequence b. The index is not checked.
  const Sequence& operator[](Index b) const { return sequences_[static_cast<std::size_t>(b)]; }
  /// Number of tokens of the longest sequence.
  Index longest() const { return longest_; }
  /// Whether some rows belong to no sequence.
  bool has_padding() const { return tokens_ < rows_; }
  /// Whether all sequences have as many tokens at equal strides, and begin at equal distances from row 0 on.
  /// Kernels then need no table.
  bool is_regular() const { return is_regular_; }

  /// Table [B, 4] in the memory of a device, for its kernels: first row, stride, number of tokens, and number
  /// of tokens of all sequences before. The first call for a device makes it and waits for the device. It is
  /// kept as long as a copy of this layout lives; a copy must outlive recordings that use the table. Threads
  /// that use different devices may call it at once. Throws DeviceError where memory is short, and where the
  /// first call comes while operations are recorded.
  TensorView<const Index> on(Device device) const;
  /// Makes `on` return this table for the device of `table`, in place of one that it makes and waits for.
  /// Its memory has the numbers that `on` describes, at the latest when an operation reads them, and must
  /// outlive all copies of this layout. Call it before `on` for that device. Throws ShapeError for another
  /// shape than [B, 4].
  void use_table(TensorView<Index> table) const;

 private:
  /// The tables on all devices, which copies of a layout share.
  class Tables;

  TokenLayout(Index rows, std::vector<Sequence> sequences);

  Index rows_, tokens_ = 0, longest_ = 0;
  bool is_regular_ = true;
  std::vector<Sequence> sequences_;
  std::shared_ptr<Tables> tables_;
};

}  // namespace orthornn
