#include "orthornn/cells/activation.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn {

std::string name_of(Activation activation) {
  switch (activation) {
    case Activation::tanh:
      return "tanh";
    case Activation::relu:
      return "relu";
    case Activation::abs:
      return "abs";
    case Activation::modrelu:
      return "modrelu";
    case Activation::identity:
      return "identity";
  }
  return {};
}

Activation parse_activation(const std::string& name) {
  using enum Activation;
  for (const Activation activation : {tanh, relu, abs, modrelu, identity}) {
    if (name == name_of(activation)) return activation;
  }
  throw ValueError(
      fmt::format("unknown activation '{}'; expected tanh, relu, abs, modrelu or identity", name));
}

}  // namespace orthornn
