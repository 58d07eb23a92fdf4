#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/parameters.hpp"
#include "orthornn/core/saved.hpp"

namespace orthornn {

/// What a layer reads: real vectors [T, B, K], or symbols [T, B] that stand for unit vectors of K entries.
template <class T>
struct SequenceInput {
  TensorView<const T> vectors = {};
  TensorView<const std::int32_t> symbols = {};
  /// Live steps of each sequence, [B], 0 .. T; empty when all are T. What lies beyond must be finite.
  TensorView<const std::int32_t> lengths = {};
  /// The key of everything that layers draw at random in this pass, [1]; empty in evaluation, when they draw
  /// nothing. A key gives the same numbers again: each forward of a training needs another one.
  TensorView<const std::uint64_t> noise = {};

  Index length() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[0]; }
  Index batch() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[1]; }
  /// The same sequences with these vectors in place of what is read.
  SequenceInput with_vectors(TensorView<const T> others) const {
    return {.vectors = others, .lengths = lengths, .noise = noise};
  }
};

/// One tensor for each of a layer's states, or none.
template <class T>
using States = std::span<const TensorView<T>>;

/// What a backward does with numbers that are there already.
enum class Gradients { overwrite, add };

/// What a layer's backward reads and writes.
template <class T>
struct BackwardArguments {
  /// Gradient with respect to the output, [T, B, N]; used as scratch memory.
  TensorView<T> d_output;
  /// Gradients with respect to the last states. None, or an empty one, stands for 0.
  States<const T> d_last = {};
  /// Gradient with respect to the vectors of the input, [T, B, K]; empty where it is not wanted.
  TensorView<T> d_input = {};
  /// Gradients with respect to the first states, overwritten; none where they are not wanted.
  States<T> d_start = {};
  /// How d_input is written.
  Gradients input = Gradients::overwrite;
  /// How the gradients of the parameters are written.
  Gradients parameters = Gradients::overwrite;
};

/// What is worth knowing of a layer.
struct LayerDescription {
  /// "cwy", "lstm", "linear", "residual"; for recurrent layers as `--cell` names them.
  std::string kind;
  Index input_size = 0;
  Index output_size = 0;
  /// How an orthogonal transition is applied, "dense", "factored", "sequential" or "rank-one", or how a delta
  /// product goes through its steps, "recurrent" or "chunked"; else empty.
  std::string form = {};
  /// How a recurrence is carried through time, as RolloutWay names it; else empty.
  std::string rollout = {};
  /// What a layer is made of.
  std::vector<LayerDescription> layers = {};
};

/// What models ask of a kind of layers before there is one. Options of a kind with others than these have
/// them as `static constexpr LayerTraits traits`.
struct LayerTraits {
  /// Whether it takes symbols in place of vectors.
  bool reads_symbols = false;
  /// Whether it carries states from step to step.
  bool is_recurrence = false;
  /// Whether it draws at random in training.
  bool draws_noise = false;
};
template <class Options>
constexpr LayerTraits layer_traits() {
  if constexpr (requires { Options::traits; })
    return Options::traits;
  else
    return {};
}

/// A map from sequences to sequences: y [T, B, N] from x [T, B, K], with parameters in a ParameterSet.
///
/// `prepare` once after each change of the parameters, then any number of forwards. A forward leaves on
/// `saved` what its backward reads. Backwards come in the reverse order of their forwards, each with the
/// input of its forward, and pop it. So a layer may run twice before its first backward, with
/// `Gradients::add` for the second. `forward` and `backward` change nothing of a layer but its caches; one
/// thread at a time.
///
/// Everything lies on the device of the parameters, arguments included. Once sized, no call allocates memory
/// of the device. On a GPU no call waits. A kernel may find symbols, lengths or parameters wrong; the next
/// call that waits (`synchronize`) throws that.
template <class T>
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// K and N.
  Index input_size() const { return input_size_; }
  Index output_size() const { return output_size_; }

  /// How many tensors are carried from step to step: 0, 1 (h), 2 (h and c), or those of all layers within.
  virtual Index state_count() const { return 0; }
  /// Whether the first state [B, N] is the output of the last step.
  virtual bool ends_in_state() const { return false; }
  /// Shape of state i of B sequences.
  virtual Shape state_shape(Index /*i*/, Index /*batch*/) const { return {}; }
  /// Its name in files: "h", and "c" for an LSTM's cells; "1.h" within a stack.
  virtual std::string state_name(Index i) const { return i == 0 ? "h" : "c"; }
  /// Whether no output depends on later steps. Only then may a sequence be cut, or generated step by step,
  /// with carried states.
  virtual bool is_causal() const { return true; }
  /// Writes the states in which every sequence starts by itself. Throws ShapeError.
  void initial_state(States<T> states) const;

  /// Draws the parameters, the same on every device.
  virtual void initialize(std::uint64_t seed) = 0;
  /// Arranges the parameters as they are now. Throws ValueError for parameters that cannot be (a zero
  /// reflection vector).
  void prepare();

  /// Returns y [T, B, N], which is on `saved`: zeros beyond a sequence's length for recurrences.
  /// `start` has the first states, or none for `initial_state`; `last`, unless it is empty, gets the states
  /// after the last live step of each sequence. A state of `last` may be its own counterpart in `start`, in
  /// the same memory; every other overlap is forbidden. Throws ShapeError, DeviceError, and ValueError for a
  /// symbol outside 0 .. K - 1, a length outside 0 .. T, or when `prepare` has not been called; `saved` is
  /// then as it was.
  TensorView<const T> forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                              Saved& saved) const;
  /// Pops what `forward` left. `scratch`, another stack, is as it was when this returns. Throws ShapeError,
  /// DeviceError, and ValueError where the last forward on `saved` is not this layer's or was of another
  /// length or batch.
  void backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                Saved& scratch) const;

  /// Kernels of the forward's loop over the steps on a GPU, at most; 0 for a layer without one. None where a
  /// CUDA graph cannot hold `prepare`, `forward` and `backward`.
  virtual std::optional<Index> launches(Index /*length*/, Index /*batch*/) const { return 0; }
  /// For so many sequences of T steps. Throws as `rollout_way`.
  virtual LayerDescription describe(Index length, Index batch) const = 0;
  /// max |I - A^T A| of the matrix A by which a step of an orthogonal recurrence multiplies its state
  /// (AppliedMatrix), of the parameters as they were prepared last; none for other layers. Waits for a GPU;
  /// allocates nothing there after the first call.
  virtual std::optional<double> orthogonality_error() { return std::nullopt; }

 protected:
  /// The layer's own parameters are those that are added from here on until `parameters_added`.
  Layer(ParameterSet<T>& parameters, Index input_size, Index output_size);
  void parameters_added();
  /// A layer made of at least one other, whose parameters are theirs. Throws ValueError unless they were
  /// added to one set in this order, with no other parameters between them.
  Layer(const std::vector<std::unique_ptr<Layer>>& inner, Index input_size, Index output_size);

  /// Zeros, unless a layer knows better. States have the right shapes.
  virtual void run_initial_state(States<T> states) const;
  /// Nothing, unless a layer keeps something that is made of its parameters.
  virtual void run_prepare() {}
  /// Input and states have the right shapes and devices.
  virtual TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start,
                                          States<T> last, Saved& saved) const = 0;
  /// The same input as the forward's, whose tensors are on top of `saved`. `own_start`: whether the sequences
  /// began in `initial_state`. Overwrites the gradients of the parameters, unless `adds_gradients`. May pop
  /// what the forward left; what is still there is popped afterwards.
  virtual void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                            bool own_start, Saved& saved, Saved& scratch) const = 0;
  /// Whether `run_backward` itself does what `arguments.parameters` asks for. Else `backward` copies the
  /// gradients before it, and adds the copy after it.
  virtual bool adds_gradients() const { return false; }

  TensorView<const T> value(Index place) const { return std::as_const(parameters_).value(place); }
  TensorView<T> gradient(Index place) const { return parameters_.gradient(place); }

  ParameterSet<T>& parameters_;

 private:
  Device device() const { return std::as_const(parameters_).values().device(); }
  void check_device(const char* name, Device found) const;
  void check_input(const SequenceInput<T>& input) const;
  template <class U>
  void check_states(const char* name, States<U> states, Index batch, bool may_be_empty = false) const;
  void check_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                      const Saved& saved, const Saved& scratch) const;

  Index input_size_;
  Index output_size_;
  bool prepared_ = false;
  /// Where the layer's own parameters begin in the flat buffers, and how many numbers they are.
  Index first_parameter_;
  Index parameter_count_ = 0;
};

extern template class Layer<float>;
extern template class Layer<double>;

}  // namespace orthornn
