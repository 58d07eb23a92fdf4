#include "orthornn/layers/recurrent_layer.hpp"

namespace orthornn {
namespace {

/// The layer that options describe.
template <class Options, class T>
struct LayerOf;
template <class T>
struct LayerOf<OrthogonalCell, T> {
  using Type = OrthogonalLayer<T>;
};
template <class T>
struct LayerOf<Lstm, T> {
  using Type = LstmLayer<T>;
};
template <class T>
struct LayerOf<Gru, T> {
  using Type = GruLayer<T>;
};

}  // namespace

template <class T>
void add_recurrent_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                              const RecurrentOptions& options, Index input_size) {
  std::visit(
      [&]<class Options>(const Options& chosen) {
        LayerOf<Options, T>::Type::add_parameters(parameters, prefix, chosen, input_size);
      },
      options);
}

template <class T>
std::unique_ptr<Layer<T>> make_recurrent_layer(ParameterSet<T>& parameters, const std::string& prefix,
                                               const RecurrentOptions& options, Index input_size,
                                               const Execution& execution) {
  return std::visit(
      [&]<class Options>(const Options& chosen) -> std::unique_ptr<Layer<T>> {
        return std::make_unique<typename LayerOf<Options, T>::Type>(parameters, prefix, chosen, input_size,
                                                                    execution);
      },
      options);
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void add_recurrent_parameters<T>(ParameterSet<T>&, const std::string&, const RecurrentOptions&, \
                                            Index);                                                        \
  template std::unique_ptr<Layer<T>> make_recurrent_layer<T>(                                              \
      ParameterSet<T>&, const std::string&, const RecurrentOptions&, Index, const Execution&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
