#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Names of the tensors in a batch of sequences: what tasks write and models read. B sequences, T steps.
namespace batch_names {
/// [T, B] integers, 0 .. symbols - 1.
inline constexpr std::string_view symbols = "symbols";
/// [T, B, K] reals.
inline constexpr std::string_view features = "features";
/// [B] integers, live steps of each sequence, 0 .. T; absent or empty when all are T.
inline constexpr std::string_view lengths = "lengths";
/// Target classes, [T, B] or [B] integers; a negative one does not count.
inline constexpr std::string_view classes = "classes";
/// Target numbers, [T, B, C] or [B, C] reals.
inline constexpr std::string_view values = "values";
// Of pairs of sequences, as in translation: what is read (S steps) and what is answered (T steps, `classes`).
/// [S, B] integers.
inline constexpr std::string_view source = "source";
/// [B] integers, live steps of each source, 0 .. S; absent or empty when all are S.
inline constexpr std::string_view source_lengths = "source_lengths";
/// [T, B] integers: what is known of the answer before each step, the begin symbol first.
inline constexpr std::string_view target = "target";
/// [B] integers, live steps of each answer, 0 .. T; absent or empty when all are T.
inline constexpr std::string_view target_lengths = "target_lengths";
}  // namespace batch_names

/// Named tensors, all on one device. A task fills them and a model reads those that it knows. They keep their
/// memory from batch to batch.
class Batch {
 public:
  explicit Batch(Device device = Device::cpu()) : device_(device) {}

  Device device() const { return device_; }

  /// The tensor of that name, which stays where it is; empty, [0], when it is new. Throws ValueError where
  /// the name stands for numbers of the other type.
  Tensor<std::int32_t>& integers(std::string_view name) { return tensor<std::int32_t>(name); }
  Tensor<float>& reals(std::string_view name) { return tensor<float>(name); }
  /// The same to read; an empty view where the batch has no such tensor.
  TensorView<const std::int32_t> integers(std::string_view name) const { return view<std::int32_t>(name); }
  TensorView<const float> reals(std::string_view name) const { return view<float>(name); }
  /// The tensor of that name to read, which must be there. Throws ValueError, which names the tensors of the
  /// batch, for a tensor that is missing or has never been filled.
  TensorView<const std::int32_t> needed_integers(std::string_view name) const {
    return needed<std::int32_t>(name);
  }
  TensorView<const float> needed_reals(std::string_view name) const { return needed<float>(name); }

  /// Throws DeviceError unless all tensors lie on `expected`.
  void check_device(Device expected) const;
  /// Addresses and shapes of all tensors, as a key for RecordedLoops: what was recorded of this batch reads
  /// there.
  std::vector<std::uintptr_t> places() const;
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
  /// Of stable addresses, for `integers` and `reals` return references.
  std::deque<Entry> entries_;
};

/// Names and shapes of a batch's tensors, kept to see whether another batch has the same.
class BatchShapes {
 public:
  bool are_of(const Batch& batch) const;
  void set(const Batch& batch);
  /// No batch has them then.
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    std::string name;
    Shape shape;
  };
  std::vector<Kept> kept_;
};

/// What the batches of a sequence task hold, so that a program can choose a model's ends.
struct SequenceData {
  /// Symbols below so many in batch_names::symbols; 0: real vectors.
  Index symbols = 0;
  /// Numbers K of a step in batch_names::features; 0: symbols.
  Index features = 0;
  /// Targets below so many in batch_names::classes; 0: real numbers.
  Index classes = 0;
  /// Numbers C of a target in batch_names::values; 0: classes.
  Index values = 0;
  /// Whether every step has a target, or the sequence alone.
  bool every_step = false;
};

}  // namespace orthornn
