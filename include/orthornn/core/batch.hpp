#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Names of the tensors in a batch of B sequences of T steps: tasks write these tensors, and models read
/// them.
namespace batch_names {
/// Symbols that are read, [T, B] integers, 0 to symbols - 1.
inline constexpr std::string_view symbols = "symbols";
/// Vectors that are read, [T, B, K] reals.
inline constexpr std::string_view features = "features";
/// Live steps of each sequence, [B] integers, 0 to T; absent or empty when all are T.
inline constexpr std::string_view lengths = "lengths";
/// Target classes, [T, B] or [B] integers; a negative one does not count.
inline constexpr std::string_view classes = "classes";
/// Target numbers, [T, B, C] or [B, C] reals.
inline constexpr std::string_view values = "values";
/// Weights of the targets in the loss, of the shape of `classes` or `values`; absent or empty when all are 1.
/// A target of weight 0 does not count. A SequenceModel reads them.
inline constexpr std::string_view weights = "weights";
// The rest is for pairs of sequences, as in translation: a source of S steps, and an answer of T steps.
/// Symbols of the sources, [S, B] integers.
inline constexpr std::string_view source = "source";
/// Live steps of each source, [B] integers, 0 to S; absent or empty when all are S.
inline constexpr std::string_view source_lengths = "source_lengths";
/// Symbols of the answers before each step, [T, B] integers, the begin symbol first; `classes` has the
/// symbols that follow.
inline constexpr std::string_view target = "target";
/// Live steps of each answer, [B] integers, 0 to T; absent or empty when all are T.
inline constexpr std::string_view target_lengths = "target_lengths";
}  // namespace batch_names

/// Named tensors, all on one device. A task fills them, and a model reads the tensors that it knows. They
/// keep their memory from batch to batch.
class Batch {
 public:
  /// A batch without tensors, whose tensors will lie on `device`.
  explicit Batch(Device device = Device::cpu()) : device_(device) {}

  /// Device on which all tensors lie.
  Device device() const { return device_; }

  /// The tensor of integers of that name; a new one, of shape [0], where the batch has none. The reference
  /// stays valid. Throws ValueError where the name stands for reals.
  Tensor<std::int32_t>& integers(std::string_view name) { return tensor<std::int32_t>(name); }
  /// The tensor of reals of that name; a new one, of shape [0], where the batch has none. The reference stays
  /// valid. Throws ValueError where the name stands for integers.
  Tensor<float>& reals(std::string_view name) { return tensor<float>(name); }
  /// A read-only view of the integers of that name; empty where the batch has none. Throws ValueError where
  /// the name stands for reals.
  TensorView<const std::int32_t> integers(std::string_view name) const { return view<std::int32_t>(name); }
  /// A read-only view of the reals of that name; empty where the batch has none. Throws ValueError where the
  /// name stands for integers.
  TensorView<const float> reals(std::string_view name) const { return view<float>(name); }
  /// A read-only view of integers that must be there. Throws ValueError for a tensor that is missing, was
  /// never filled or holds reals; where it is missing, the message names the tensors that the batch has.
  TensorView<const std::int32_t> needed_integers(std::string_view name) const {
    return needed<std::int32_t>(name);
  }
  /// A read-only view of reals that must be there. Throws ValueError for a tensor that is missing, was never
  /// filled or holds integers; where it is missing, the message names the tensors that the batch has.
  TensorView<const float> needed_reals(std::string_view name) const { return needed<float>(name); }

  /// Number of this piece where long sequences are cut into pieces, a batch each, from 0 for the first; no
  /// value where sequences are whole. A model starts a later piece in the states in which it left the piece
  /// before (Model::carried).
  std::optional<Index> piece() const { return piece_; }
  /// Sets the number of this piece.
  void set_piece(std::optional<Index> piece) { piece_ = piece; }

  /// Throws DeviceError unless all tensors lie on `expected`.
  void check_device(Device expected) const;
  /// Addresses and shapes of all tensors, as a key for RecordedLoops: a recording reads its batch at these
  /// addresses.
  std::vector<std::uintptr_t> places() const;
  /// A copy of all tensors, on `device`, and of the number of the piece.
  Batch copy(Device device) const;

 private:
  friend class BatchShapes;
  struct Entry {
    std::string name;
    std::variant<Tensor<std::int32_t>, Tensor<float>> numbers;
  };

  template <class T>
  Tensor<T>& tensor(std::string_view name);
  template <class T>
  TensorView<const T> view(std::string_view name) const;
  template <class T>
  TensorView<const T> needed(std::string_view name) const;
  const Entry* find(std::string_view name) const;

  Device device_;
  /// A deque keeps addresses stable: `integers` and `reals` return references.
  std::deque<Entry> entries_;
  std::optional<Index> piece_;
};

/// Names and shapes of a batch's tensors, kept to see whether another batch has equal ones.
class BatchShapes {
 public:
  /// Whether the batch has exactly the kept names and shapes, in the same order.
  bool are_of(const Batch& batch) const;
  /// Keeps the names and shapes of this batch.
  void set(const Batch& batch);
  /// Forgets all names and shapes.
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    std::string name;
    Shape shape;
  };
  std::vector<Kept> kept_;
};

/// Sizes of what the batches of a task hold: a program chooses a model's input and readout by them.
struct SequenceData {
  /// Number of symbols in batch_names::symbols, with `pairs` in batch_names::source; 0 where a step is a real
  /// vector.
  Index symbols = 0;
  /// Size K of a step's vector in batch_names::features; 0 where a step is a symbol.
  Index features = 0;
  /// Number of classes in batch_names::classes; 0 where targets are real numbers.
  Index classes = 0;
  /// Size C of a target in batch_names::values; 0 where targets are classes.
  Index values = 0;
  /// Rows of the frames that the steps are, as vectors [H, W, C]; 0 where steps are no frames.
  Index height = 0;
  /// Columns of these frames; 0 where steps are no frames.
  Index width = 0;
  /// True where every step has a target; false where a sequence has one target.
  bool every_step = false;
  /// True where each target is a sequence of its own, of another length than its source; `classes` are then
  /// the symbols of both batch_names::target and batch_names::classes.
  bool pairs = false;
  /// True where targets are what is read at later steps. A model of layers that read backward in time would
  /// see the answer before it gives it.
  bool is_forecast = false;
};

}  // namespace orthornn
