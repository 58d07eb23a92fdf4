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

/// Input of a layer: real vectors [T, B, K], or symbols [T, B] that stand for unit vectors of K entries.
template <class T>
struct SequenceInput {
  /// Vectors [T, B, K]; empty where the input is symbols.
  TensorView<const T> vectors = {};
  /// Symbols [T, B], 0 to K - 1; not read where there are vectors.
  TensorView<const std::int32_t> symbols = {};
  /// Live steps of each sequence, [B], 0 to T; empty when all are T. Inputs beyond a length must be finite.
  TensorView<const std::int32_t> lengths = {};
  /// Key of all random numbers that layers draw in this pass, [1]; empty in evaluation, when they draw none.
  /// A key gives its numbers again each time: each forward of a training needs a new key.
  TensorView<const std::uint64_t> noise = {};

  /// Number T of steps.
  Index length() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[0]; }
  /// Number B of sequences.
  Index batch() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[1]; }
  /// Input with these vectors [T, B, ..] in place of the vectors or symbols.
  SequenceInput with_vectors(TensorView<const T> others) const {
    return {.vectors = others, .lengths = lengths, .noise = noise};
  }
};

/// Views of a layer's states, one for each state; empty for no states.
template <class T>
using States = std::span<const TensorView<T>>;

/// How a backward writes gradients.
enum class Gradients {
  overwrite,  ///< New gradients replace the numbers in memory.
  add         ///< New gradients are added to the numbers in memory.
};

/// Gradients that a layer's backward reads and writes.
template <class T>
struct BackwardArguments {
  /// Gradient with respect to the output, [T, B, N]; used as scratch memory.
  TensorView<T> d_output;
  /// Whether d_output stands for 0, whatever it holds: for a model that reads the last states alone.
  bool d_output_is_zero = false;
  /// Gradients with respect to the last states; no states, or an empty view for a state, stand for 0.
  States<const T> d_last = {};
  /// Gradient with respect to the vectors of the input, [T, B, K]; empty where it is not wanted.
  TensorView<T> d_input = {};
  /// Gradients with respect to the first states, overwritten; empty where they are not wanted.
  States<T> d_start = {};
  /// How d_input is written.
  Gradients input = Gradients::overwrite;
  /// How the gradients of the parameters are written.
  Gradients parameters = Gradients::overwrite;
};

/// Kind, sizes and way of computing of a layer, for reports.
struct LayerDescription {
  /// Name of the kind, such as "cwy", "lstm", "linear" or "residual"; recurrent layers have the names of
  /// `--cell`.
  std::string kind;
  /// Size K of the input at a step.
  Index input_size = 0;
  /// Size N of the output at a step.
  Index output_size = 0;
  /// How an orthogonal transition is applied, "dense", "factored", "sequential" or "rank-one", or how a delta
  /// product goes through its steps, "recurrent" or "chunked"; empty for other layers.
  std::string form = {};
  /// How a recurrence is carried through time, by its name in RolloutWay; empty for other layers.
  std::string rollout = {};
  /// Descriptions of the inner layers.
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
  /// Whether an output depends on later steps.
  bool reads_ahead = false;
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
/// Call `prepare` once after each change of the parameters, then any number of forwards. A forward leaves on
/// `saved` the tensors that its backward reads. Backwards come in the reverse order of their forwards, each
/// with the input of its forward, and pop these tensors. So a layer may run twice before its first backward,
/// with `Gradients::add` for the second. `forward` and `backward` change nothing of a layer but its caches;
/// one thread at a time may call them.
///
/// Parameters and arguments lie on one device. Once sized, no call allocates memory of the device. On a GPU
/// no call waits. Where a kernel finds symbols, lengths or parameters wrong, the next call that waits
/// (`synchronize`) throws the ValueError.
template <class T>
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// Size K of the input at a step.
  Index input_size() const { return input_size_; }
  /// Size N of the output at a step.
  Index output_size() const { return output_size_; }

  /// Number of states, the tensors that are carried from step to step: 0, 1 (h), 2 (h and c), or those of all
  /// inner layers.
  virtual Index state_count() const { return 0; }
  /// Whether the first state [B, N] is the output of the last step.
  virtual bool ends_in_state() const { return false; }
  /// Shape of state i of B = `batch` sequences.
  virtual Shape state_shape(Index /*i*/, Index /*batch*/) const { return {}; }
  /// Name of state i in files: "h", and "c" for an LSTM's cells; "1.h" within a stack.
  virtual std::string state_name(Index i) const { return i == 0 ? "h" : "c"; }
  /// Whether no output depends on later steps. Only then may a sequence be cut, or generated step by step,
  /// with carried states.
  virtual bool is_causal() const { return true; }
  /// Writes the states in which every sequence starts where a forward is given no first states. Throws
  /// ShapeError and DeviceError.
  void initial_state(States<T> states) const;

  /// Draws the parameters; a seed gives equal ones on every device.
  virtual void initialize(std::uint64_t seed) = 0;
  /// Reads the parameters as they are now and arranges them for `forward` and `backward`. Throws ValueError
  /// for parameters that are not allowed, such as a zero reflection vector, and where they have no memory.
  void prepare();

  /// Computes the output y [T, B, N], which is on `saved`; recurrences return zeros beyond a sequence's
  /// length. `start` has the first states; where it is empty, sequences start in `initial_state`. `last`,
  /// unless it is empty, gets the states after the last live step of each sequence. A state of `last` may be
  /// in the memory of its counterpart in `start`; every other overlap is forbidden. Throws ShapeError,
  /// DeviceError, and ValueError for a symbol outside 0 to K - 1, a length outside 0 to T, or when `prepare`
  /// has not been called; `saved` is then as it was.
  TensorView<const T> forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                              Saved& saved) const;
  /// Computes the gradients of the last forward on `saved`, and pops its tensors. `input` is the input of
  /// that forward. `scratch`, another stack, is as it was when this returns. Throws ShapeError, DeviceError,
  /// and ValueError where the last forward on `saved` was another layer's or had another length or batch,
  /// where `saved` is `scratch`, and for a `d_input` of symbols, which have no gradient.
  void backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                Saved& scratch) const;

  /// An upper bound of the kernels that the forward on a GPU starts for one step after another, over `length`
  /// steps of `batch` sequences; 0 for a layer without such. No value where a CUDA graph cannot hold
  /// `prepare`, `forward` and `backward`.
  virtual std::optional<Index> launches(Index /*length*/, Index /*batch*/) const { return 0; }
  /// Describes the layer for `batch` sequences of `length` steps. Throws as `rollout_way`.
  virtual LayerDescription describe(Index length, Index batch) const = 0;
  /// Orthogonality error of a layer with an orthogonal matrix, with the parameters as they were prepared
  /// last: the largest entry of |I - A^T A|. For a recurrence, A is the matrix by which a step multiplies the
  /// state (AppliedMatrix). No value for other layers. Waits for a GPU; allocates nothing there after the
  /// first call.
  virtual std::optional<double> orthogonality_error() { return std::nullopt; }

 protected:
  /// Begins a layer: the parameters that are added from here on until `parameters_added` are its own.
  Layer(ParameterSet<T>& parameters, Index input_size, Index output_size);
  /// Ends the layer's own parameters.
  void parameters_added();
  /// Begins a layer made of one or more inner layers, whose parameters are its parameters. Throws ValueError
  /// unless they were added to one set in this order, with no other parameters between them.
  Layer(const std::vector<std::unique_ptr<Layer>>& inner, Index input_size, Index output_size);

  /// Writes the initial states, which have the right shapes: zeros by default.
  virtual void run_initial_state(States<T> states) const;
  /// Arranges the parameters, which have memory. By default it does nothing; a layer that keeps something
  /// made of its parameters makes it here.
  virtual void run_prepare() {}
  /// Computes the forward of an input and states that have the right shapes and devices.
  virtual TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start,
                                          States<T> last, Saved& saved) const = 0;
  /// Computes the backward of the forward whose tensors are on top of `saved`; `input` is its input.
  /// `own_start` says whether the sequences began in `initial_state`. Overwrites the gradients of the
  /// parameters, unless `adds_gradients`. It may pop tensors of the forward; the caller pops the others.
  virtual void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                            bool own_start, Saved& saved, Saved& scratch) const = 0;
  /// Whether `run_backward` follows `arguments.parameters` itself. Otherwise `backward` copies the gradients
  /// before it, and adds the copy after it.
  virtual bool adds_gradients() const { return false; }
  /// Whether `run_backward` follows `arguments.d_output_is_zero` itself. Otherwise `backward` writes the
  /// zeros before it.
  virtual bool takes_zero_output() const { return false; }

  /// Checks the arguments of an inverse of a layer of as many outputs as inputs: outputs y [.., N] and the
  /// memory x of their inputs. Throws ValueError before `prepare`, ShapeError and DeviceError.
  void check_inverse(ConstTensorView<T> y, TensorView<T> x) const;

  /// Description of a layer of this kind and its sizes, without a form and a rollout.
  LayerDescription description(const char* kind) const {
    return {.kind = kind, .input_size = input_size_, .output_size = output_size_};
  }
  /// Value of a parameter, by its number in the set.
  TensorView<const T> value(Index place) const { return std::as_const(parameters_).value(place); }
  /// Gradient of a parameter, by its number in the set.
  TensorView<T> gradient(Index place) const { return parameters_.gradient(place); }

  /// Beginning of the name of a parameter, by its number in the set: what comes before its last '/'.
  std::string prefix_of(Index place) const {
    const std::string& name = parameters_.list()[static_cast<std::size_t>(place)].name;
    return name.substr(0, name.rfind('/'));
  }

  /// Set that holds the layer's parameters.
  ParameterSet<T>& parameters_;

 private:
  Device device() const { return std::as_const(parameters_).values().device(); }
  void check_prepared() const;
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
