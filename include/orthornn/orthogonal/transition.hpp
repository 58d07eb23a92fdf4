#pragma once

#include <limits>
#include <memory>
#include <string>
#include <variant>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// How a transition is drawn before training.
enum class Init {
  /// Rotations of pairs of coordinates by angles uniform in [-pi, pi) (Henaff, Szlam and LeCun, ICML 2016).
  henaff,
  /// The same with angles uniform in [0, pi / 2): slow rotations (Helfrich, Willmott and Ye, ICML 2018).
  cayley,
  /// Uniform over the orthogonal matrices of the determinant that the parametrization has; with L < N
  /// reflections, first L columns uniform over St(N, L) (Stewart 1980).
  haar,
  /// Standard normal reflection vectors; normal X with variance 1 / N for Cayley and the exponential; as haar
  /// for the free matrix.
  normal,
};
template <>
struct Names<Init> {
  using enum Init;
  static constexpr Choice<Init> list[] = {
      {"henaff", henaff}, {"cayley", cayley}, {"haar", haar}, {"normal", normal}};
};

/// How a product of reflections is computed. All give the same function.
enum class ReflectionForm {
  /// The cheaper of dense and factored for a forward and a backward step; dense wherever a GPU can keep Q on
  /// chip (float, N <= 1024).
  automatic,
  /// CWY: Q formed once, one N x N product a step.
  dense,
  /// CWY: U and S^-1 U^T kept, two N x L products a step.
  factored,
};
template <>
struct Names<ReflectionForm> {
  using enum ReflectionForm;
  static constexpr Choice<ReflectionForm> list[] = {
      {"automatic", automatic}, {"dense", dense}, {"factored", factored}};
};

// Each parametrization has its `name` in files and on the command line, and a `title` in tables and plots.

/// The field that all parametrizations have.
template <class Options>
void init_field(auto&& visit) {
  visit("init", &Options::init, domain::any, "Initial transition: henaff, cayley, haar or normal");
}
/// The field that products of reflections have.
template <class Options>
void reflections_field(auto&& visit) {
  visit("reflections", &Options::reflections, domain::not_negative, "reflections L, 1 to N; 0 for N");
}

/// Q = H(v1) ... H(vL) as I - U S^-1 U^T, the compact WY form (math.md section 1; Likhosherstov et al.,
/// AISTATS 2021).
struct Cwy {
  static constexpr const char* name = "cwy";
  static constexpr const char* title = "CWY";
  /// L, 1 .. N; 0 stands for N.
  Index reflections = 0;
  Init init = Init::henaff;
  ReflectionForm form = ReflectionForm::automatic;

  static void fields(auto&& visit) {
    reflections_field<Cwy>(visit);
    visit("form", &Cwy::form, domain::any, "dense, factored, or automatic for the cheaper one");
    init_field<Cwy>(visit);
  }
};

/// The same product, one reflection after another (Mhammedi et al., ICML 2017).
struct HouseholderProduct {
  static constexpr const char* name = "householder";
  static constexpr const char* title = "sequential Householder, tiled";
  /// L, 1 .. N; 0 stands for N.
  Index reflections = 0;
  Init init = Init::henaff;
  /// False: tiles of the batch stay in the first cache through all reflections, threads share the batch; on a
  /// GPU they stay in registers, and all reflections are one kernel.
  /// True: every reflection is one rank-one update of the whole batch by plain Eigen, which has one thread
  /// for that, or one kernel on a GPU: the opponent that the papers time.
  bool rank_one_updates = false;

  static void fields(auto&& visit) {
    reflections_field<HouseholderProduct>(visit);
    visit("rank_one_updates", &HouseholderProduct::rank_one_updates, domain::any,
          "each reflection over the whole batch");
    init_field<HouseholderProduct>(visit);
  }
};

/// Q = (I + A)^-1 (I - A) D, orthogonal up to rounding times |A|, with A = X - X^T and fixed signs D (scoRNN,
/// Helfrich et al. 2018).
struct ScaledCayley {
  static constexpr const char* name = "cayley";
  static constexpr const char* title = "scaled Cayley";
  /// Entries of D that are -1, the first ones.
  Index negative_signs = 0;
  Init init = Init::cayley;

  static void fields(auto&& visit) {
    visit("negative_signs", &ScaledCayley::negative_signs, domain::not_negative,
          "entries -1 of its fixed diagonal");
    init_field<ScaledCayley>(visit);
  }
};

/// Q = exp(X - X^T), orthogonal up to rounding times |X| (EXPRNN, Lezcano-Casado and Martinez-Rubio, ICML
/// 2019).
struct MatrixExponential {
  static constexpr const char* name = "expm";
  static constexpr const char* title = "matrix exponential";
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<MatrixExponential>(visit); }
};

/// Any matrix: the baseline. It starts orthogonal and does not stay so.
struct Unconstrained {
  static constexpr const char* name = "free";
  static constexpr const char* title = "unconstrained";
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<Unconstrained>(visit); }
};

using TransitionOptions =
    std::variant<Cwy, HouseholderProduct, ScaledCayley, MatrixExponential, Unconstrained>;

/// L of a product of reflections, 0 for N; nullptr for other parametrizations.
Index* reflections_of(TransitionOptions& options);
const Index* reflections_of(const TransitionOptions& options);

/// The N x N matrix Q that a recurrence multiplies its state by, as a function of free parameters.
///
/// `prepare` once an optimizer step; then anything else, as often as wanted. Tensors are in C order: Q(i, j)
/// is row i, column j, and h [.., N] holds one column vector of the papers in each row. They lie on the
/// transition's device; parameters alone may lie anywhere in `initialize` and `parameters_of`, which compute
/// on the host, so that a seed gives the same model everywhere.
template <class T>
class Transition {
 public:
  virtual ~Transition() = default;

  Index hidden_size() const { return hidden_size_; }
  const Execution& execution() const { return execution_; }
  Device device() const { return execution_.device; }
  /// Name, shape and kind of the parameters (`parameter_of`).
  const std::string& parameter_name() const { return parameter_.name; }
  const Shape& parameter_shape() const { return parameter_.shape; }
  ParameterKind parameter_kind() const { return parameter_.kind; }
  /// "dense", "factored", "sequential" or "rank-one": how it is applied.
  virtual std::string form() const = 0;

  /// Draws parameters by the options' Init from `seed`.
  void initialize(std::uint64_t seed, TensorView<T> parameters) const;
  /// Parameters with which Q is the given orthogonal matrix [N, N] (a right inverse of `materialize`). Throws
  /// ValueError, saying why, when no parameters reach it.
  void parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const;

  /// Forms what `apply` needs. Throws ShapeError, DeviceError for parameters on another device, and
  /// ValueError with the index of a reflection vector that is zero or not finite, or for other parameters
  /// that are not finite. On a GPU, where `prepare` only enqueues, that ValueError comes from the next
  /// `synchronize` or copy to the host, and Q is garbage until the next `prepare`.
  virtual void prepare(ConstTensorView<T> parameters) = 0;
  /// True where a CUDA graph can and should hold `prepare` and `backward` on a GPU, once they have run: they
  /// neither wait nor allocate, nor leave that to a library which does not say, and are not a launch for each
  /// reflection.
  virtual bool recordable() const { return true; }
  /// Whether the last `prepare` came to its end; on a GPU, whether it was enqueued.
  bool is_prepared() const { return prepared_; }
  /// h <- Q h for each of the vectors h [.., N], in the execution's precision.
  void apply(TensorView<T> h) const;
  /// h <- Q^T h.
  void apply_transpose(TensorView<T> h) const;
  /// Q [N, N], in full precision.
  Tensor<T> materialize() const;
  /// Gradient of a loss with respect to the parameters from its gradient d_q [N, N] with respect to Q;
  /// overwrites.
  virtual void backward(ConstTensorView<T> d_q, TensorView<T> d_parameters) = 0;

  // The rollout's verbs, on column-major matrices. A form that goes by reflections leaves behind, for each
  // column, the L coefficients z (or y) of math.md section 1, from which the gradient follows without Q.

  /// columns_of(Q) in C order, that is the column-major view of Q^T, for transitions that are applied as one
  /// matrix; no data for others.
  virtual MatrixView<const T> dense_matrix() const { return {}; }
  /// Threads take columns in multiples of this: it holds the product kernel's column group and the reflection
  /// tiles together, so that results do not depend on the number of threads. A GPU takes all columns at once.
  virtual Index column_grain() const { return device().is_cuda() ? all_columns : 16; }
  /// L for forms that record coefficients, 0 for dense ones.
  virtual Index coefficient_count() const { return 0; }
  /// Kernels that a product is on a GPU, at most.
  virtual Index launches_of_product() const { return 3; }
  /// a += Q h for N x n matrices, coefficients z L x n, in the execution's precision. By the calling thread
  /// alone; safe from several at once.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z) const {
    add_product(h, a, z, execution_.precision);
  }
  /// d += Q^T g, coefficients y L x n.
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y) const {
    add_transposed_product(g, d, y, execution_.precision);
  }
  /// Overwrites d_parameters by the gradient of a rollout from the columns g_t (gradient before the product),
  /// h_{t-1}, z_t and y_t over all steps and sequences.
  virtual void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                   MatrixView<const T> y, TensorView<T> d_parameters);
  /// Floating-point operations that a step forward and backward takes a column, weight gradient included, and
  /// those of prepare and the parameters' backward, once.
  virtual double flops_per_column() const = 0;
  virtual double flops_of_prepare() const = 0;

 protected:
  /// The last dimension of the parameter's shape is N.
  Transition(const Parameter& parameter, const Execution& execution)
      : hidden_size_(parameter.shape[-1]),
        parameter_(parameter),
        execution_(execution),
        d_q_(Shape{0}, execution.device) {}

  static constexpr Index all_columns = std::numeric_limits<Index>::max();

  /// `initialize` and `parameters_of` on host memory of the right shape.
  virtual void draw(std::uint64_t seed, TensorView<T> parameters) const = 0;
  virtual void find_parameters(ConstTensorView<T> q, TensorView<T> parameters) const = 0;
  /// `multiply_add` and `multiply_add_transposed` in a precision, which the CPU and the products of single
  /// reflections have no choice of.
  virtual void add_product(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z,
                           Precision precision) const = 0;
  virtual void add_transposed_product(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y,
                                      Precision precision) const = 0;

  /// Every `prepare` says false when it begins and true when it is done; until then `apply` throws
  /// ValueError.
  void set_prepared(bool prepared) { prepared_ = prepared; }

 private:
  void check_vectors(TensorView<T> h) const;

  Index hidden_size_;
  Parameter parameter_;
  Execution execution_;
  bool prepared_ = false;
  Tensor<T> d_q_;
};

extern template class Transition<float>;
extern template class Transition<double>;

/// What a transition of hidden size N adds to a ParameterSet: "reflection_vectors" [L, N], "skew_parameters"
/// [N, N] or "matrix" [N, N], as in a model file. Throws ValueError for sizes outside their range.
Parameter parameter_of(const TransitionOptions& options, Index hidden_size);

/// The one place where options become objects. Throws as `parameter_of`.
template <class T>
std::unique_ptr<Transition<T>> make_transition(const TransitionOptions& options, Index hidden_size,
                                               const Execution& execution = {});

/// Only the mathematics: a prepared transition from parameters, V [L, N] or X [N, N], on their device.
template <class T>
std::unique_ptr<Transition<T>> prepare(const TransitionOptions& options, ConstTensorView<T> parameters);

}  // namespace orthornn
