// Q of a transition, and points of Stiefel manifolds.

#include "orthornn/orthogonal/transition.hpp"

#include "c_api/arguments.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn::c_api {
namespace {

enum class Kind { cwy, householder, cayley, expm, own };

/// The options of a parametrization. Throws ArgumentError.
TransitionOptions options_of(const orthornn_transition& transition, Init init = Init::henaff) {
  const Kind kind = value_of("transition.kind", transition.kind, Kind::own);
  const Index n = size_of("transition.size", transition.size, 1);
  const bool reflects = kind == Kind::cwy || kind == Kind::householder;
  const Index reflections = size_of("transition.reflections", transition.reflections, 0, reflects ? n : 0);
  const Index signs =
      size_of("transition.negative_signs", transition.negative_signs, 0, kind == Kind::cayley ? n : 0);
  switch (kind) {
    case Kind::cwy:
      return Cwy{.reflections = reflections, .init = init, .form = ReflectionForm::dense};
    case Kind::householder:
      return HouseholderProduct{.reflections = reflections, .init = init};
    case Kind::cayley:
      return ScaledCayley{.negative_signs = signs, .init = init};
    case Kind::expm:
      return MatrixExponential{.init = init};
    default:
      return WeightNormalization{.init = init};
  }
}

/// Shape of the parameters.
Shape parameters_of(const orthornn_transition& transition) {
  return parameter_of(options_of(transition), transition.size).shape;
}

Shape shape_of_q(const orthornn_transition& transition) { return {transition.size, transition.size}; }

/// Throws ArgumentError for a size that is not positive or too large.
void check_sizes(const orthornn_transition& transition) {
  check_matrix_size("transition.size", transition.size);
}

/// Q and its gradient, by whatever makes Q without more work than that: a parametrization that makes Q
/// itself, or a whole transition where one reflection is applied after another.
template <class T>
class TransitionWork {
 public:
  TransitionWork(const orthornn_transition& transition, Device device)
      : shape_(shape_of_q(transition)), device_(device) {
    const TransitionOptions options = options_of(transition);
    if (std::holds_alternative<HouseholderProduct>(options)) {
      reflections_ = make_transition<T>(options, transition.size, device);
    } else {
      std::visit(
          [&]<class Options>(const Options& chosen) {
            if constexpr (!IsOwnKind<Options>)
              parts_ = chosen.template parts<T>(transition.size, Execution(device));
          },
          options);
    }
  }

  void forward(ConstTensorView<T> parameters, TensorView<T> q) {
    prepare(parameters);
    copy<T>(reflections_ ? reflections_->materialize() : matrix(), q);
  }
  void backward(ConstTensorView<T> parameters, ConstTensorView<T> d_q, TensorView<T> d_parameters) {
    if (reflections_) {
      reflections_->prepare(parameters);
      return reflections_->backward(d_q, d_parameters);
    }
    parts_.parametrization->prepare_backward(parameters);
    parts_.parametrization->backward({.q = d_q}, d_parameters);
  }

  /// Makes the tensors that `forward` makes on its way.
  void plan_forward() const {
    if (!reflections_) return;
    const Index n = shape_[0];
    for (const Shape& shape : {shape_, shape_, Shape{n, reflections_->coefficient_count()}})
      Tensor<T>(shape, device_);
  }
  void plan_backward() const {
    if (!reflections_) return;
    const Index n = shape_[0], count = reflections_->coefficient_count();
    for (const Shape& shape : {shape_, shape_, shape_, {n, count}, {n, count}, {count, count}, {count, n}})
      Tensor<T>(shape, device_);
  }

 private:
  void prepare(ConstTensorView<T> parameters) {
    if (reflections_) return reflections_->prepare(parameters);
    parts_.parametrization->prepare(parameters);
  }
  /// A dense product applies Q as it is, in C order.
  TensorView<const T> matrix() const { return {parts_.product->dense_matrix().data, shape_, device_}; }

  Shape shape_;
  Device device_;
  TransitionParts<T> parts_;
  std::unique_ptr<Transition<T>> reflections_;
};

template <class T>
std::size_t transition_bytes(const orthornn_transition& transition, Device device, Pass pass) {
  check_sizes(transition);
  return planned_bytes(device, [&] {
    const TransitionWork<T> work(transition, device);
    pass == Pass::forward ? work.plan_forward() : work.plan_backward();
  });
}

orthornn_status transition_workspace(const orthornn_device* device, const orthornn_transition* transition,
                                     Pass pass, std::int64_t* bytes) {
  return guarded_real(device, "transition", transition, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, transition_bytes<T>(*transition, device_of(device), pass));
  });
}

Shape omega_of(const orthornn_stiefel& stiefel) {
  const Index n = check_matrix_size("stiefel.rows", stiefel.rows);
  return {n, size_of("stiefel.columns", stiefel.columns, 1, n)};
}

static_assert(static_cast<int>(StiefelKind::truncated_cwy) == ORTHORNN_STIEFEL_TCWY &&
              static_cast<int>(StiefelKind::weight_normalization) == ORTHORNN_STIEFEL_OWN);

/// Throws ArgumentError for another kind. StiefelKind::matrix has no number here: it needs no operation.
StiefelKind kind_of(const orthornn_stiefel& stiefel) {
  return value_of("stiefel.kind", stiefel.kind, StiefelKind::weight_normalization);
}

/// Shape of the parameters.
Shape parameters_of(const orthornn_stiefel& stiefel) {
  const Shape omega = omega_of(stiefel);
  return stiefel_parameter(kind_of(stiefel), omega[0], omega[1]).shape;
}

template <class T>
std::unique_ptr<StiefelPoint<T>> point_of(const orthornn_stiefel& stiefel, Device device = Device::cpu()) {
  return make_stiefel_point<T>(kind_of(stiefel), stiefel.rows, stiefel.columns, device);
}

template <class T>
std::size_t stiefel_bytes(const orthornn_stiefel& stiefel, Device device) {
  omega_of(stiefel);  // which checks the sizes
  return planned_bytes(device, [&] { point_of<T>(stiefel, device); });
}

/// Forward and backward need as much.
orthornn_status stiefel_workspace(const orthornn_device* device, const orthornn_stiefel* stiefel,
                                  std::int64_t* bytes) {
  return guarded_real(device, "stiefel", stiefel, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, stiefel_bytes<T>(*stiefel, device_of(device)));
  });
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_transition_parameter_shape(const orthornn_transition* transition, int64_t shape[2]) {
  return guarded(nullptr, [&] {
    const Shape found = parameters_of(not_null("transition", transition));
    not_null("shape", shape);
    std::copy(found.begin(), found.end(), shape);
  });
}

orthornn_status orthornn_transition_initialize(const orthornn_transition* transition, int32_t init,
                                               uint64_t seed, void* parameters) {
  return guarded_real(nullptr, "transition", transition, [&]<class T>(std::type_identity<T>) {
    check_sizes(*transition);
    const auto view = view_of<T>("parameters", parameters, parameters_of(*transition), Device::cpu());
    const TransitionOptions options = options_of(*transition, value_of("init", init, Init::normal));
    make_transition<T>(options, transition->size)->initialize(seed, view);
  });
}

orthornn_status orthornn_transition_parameters_of(const orthornn_transition* transition, const void* q,
                                                  void* parameters) {
  return guarded_real(nullptr, "transition", transition, [&]<class T>(std::type_identity<T>) {
    check_sizes(*transition);
    const auto matrix = view_of<const T>("q", q, shape_of_q(*transition), Device::cpu());
    const auto view = view_of<T>("parameters", parameters, parameters_of(*transition), Device::cpu());
    make_transition<T>(options_of(*transition), transition->size)->parameters_of(matrix, view);
  });
}

orthornn_status orthornn_transition_forward_workspace(const orthornn_device* device,
                                                      const orthornn_transition* transition, int64_t* bytes) {
  return transition_workspace(device, transition, Pass::forward, bytes);
}

orthornn_status orthornn_transition_forward(const orthornn_device* device,
                                            const orthornn_transition* transition, const void* parameters,
                                            void* q, void* workspace, int64_t workspace_bytes) {
  return guarded_real(device, "transition", transition, [&]<class T>(std::type_identity<T>) {
    const Device where = device_of(device);
    const std::size_t needed = transition_bytes<T>(*transition, where, Pass::forward);
    const auto given = view_of<const T>("parameters", parameters, parameters_of(*transition), where);
    const auto result = view_of<T>("q", q, shape_of_q(*transition), where);
    const Operation operation(device, workspace, workspace_bytes, needed);
    TransitionWork<T>(*transition, where).forward(given, result);
  });
}

orthornn_status orthornn_transition_backward_workspace(const orthornn_device* device,
                                                       const orthornn_transition* transition,
                                                       int64_t* bytes) {
  return transition_workspace(device, transition, Pass::backward, bytes);
}

orthornn_status orthornn_transition_backward(const orthornn_device* device,
                                             const orthornn_transition* transition, const void* parameters,
                                             const void* d_q, void* d_parameters, void* workspace,
                                             int64_t workspace_bytes) {
  return guarded_real(device, "transition", transition, [&]<class T>(std::type_identity<T>) {
    const Device where = device_of(device);
    const std::size_t needed = transition_bytes<T>(*transition, where, Pass::backward);
    const Shape shape = parameters_of(*transition);
    const auto given = view_of<const T>("parameters", parameters, shape, where);
    const auto arriving = view_of<const T>("d_q", d_q, shape_of_q(*transition), where);
    const auto result = view_of<T>("d_parameters", d_parameters, shape, where);
    const Operation operation(device, workspace, workspace_bytes, needed);
    TransitionWork<T>(*transition, where).backward(given, arriving, result);
  });
}

orthornn_status orthornn_stiefel_initialize(const orthornn_stiefel* stiefel, uint64_t seed,
                                            void* parameters) {
  return guarded_real(nullptr, "stiefel", stiefel, [&]<class T>(std::type_identity<T>) {
    const auto view = view_of<T>("parameters", parameters, parameters_of(*stiefel), Device::cpu());
    point_of<T>(*stiefel)->initialize(seed, view);
  });
}

orthornn_status orthornn_stiefel_parameters_of(const orthornn_stiefel* stiefel, const void* omega,
                                               void* parameters) {
  return guarded_real(nullptr, "stiefel", stiefel, [&]<class T>(std::type_identity<T>) {
    const auto matrix = view_of<const T>("omega", omega, omega_of(*stiefel), Device::cpu());
    const auto view = view_of<T>("parameters", parameters, parameters_of(*stiefel), Device::cpu());
    point_of<T>(*stiefel)->parameters_of(matrix, view);
  });
}

orthornn_status orthornn_stiefel_forward_workspace(const orthornn_device* device,
                                                   const orthornn_stiefel* stiefel, int64_t* bytes) {
  return stiefel_workspace(device, stiefel, bytes);
}

orthornn_status orthornn_stiefel_forward(const orthornn_device* device, const orthornn_stiefel* stiefel,
                                         const void* parameters, void* omega, void* workspace,
                                         int64_t workspace_bytes) {
  return guarded_real(device, "stiefel", stiefel, [&]<class T>(std::type_identity<T>) {
    const Device where = device_of(device);
    const std::size_t needed = stiefel_bytes<T>(*stiefel, where);
    const auto given = view_of<const T>("parameters", parameters, parameters_of(*stiefel), where);
    const auto result = view_of<T>("omega", omega, omega_of(*stiefel), where);
    const Operation operation(device, workspace, workspace_bytes, needed);
    const auto point = point_of<T>(*stiefel, where);
    point->prepare(given);
    copy<T>(point->omega(), result);
  });
}

orthornn_status orthornn_stiefel_backward_workspace(const orthornn_device* device,
                                                    const orthornn_stiefel* stiefel, int64_t* bytes) {
  return stiefel_workspace(device, stiefel, bytes);
}

orthornn_status orthornn_stiefel_backward(const orthornn_device* device, const orthornn_stiefel* stiefel,
                                          const void* parameters, const void* d_omega, void* d_parameters,
                                          void* workspace, int64_t workspace_bytes) {
  return guarded_real(device, "stiefel", stiefel, [&]<class T>(std::type_identity<T>) {
    const Device where = device_of(device);
    const std::size_t needed = stiefel_bytes<T>(*stiefel, where);
    const auto given = view_of<const T>("parameters", parameters, parameters_of(*stiefel), where);
    const auto arriving = view_of<const T>("d_omega", d_omega, omega_of(*stiefel), where);
    const auto result = view_of<T>("d_parameters", d_parameters, parameters_of(*stiefel), where);
    const Operation operation(device, workspace, workspace_bytes, needed);
    const auto point = point_of<T>(*stiefel, where);
    point->prepare(given);
    point->backward(arriving, result);
  });
}
